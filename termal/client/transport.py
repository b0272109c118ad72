"""The one place that imports the HTTP library, and what both clients do alike: headers, failures, reading answers."""

import os
import sys
from typing import Any, TypeVar

# The library's own command line would bring click and rich: half of its start-up time and memory.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]

import httpx as httpx  # noqa: E402, PLC0414 - after the line above; both clients take it from here
import msgspec  # noqa: E402

from termal.client.call import Answer, Call  # noqa: E402
from termal.client.errors import Phase, Unreachable, error_of  # noqa: E402
from termal.wire.launch import TOKEN_VARIABLE  # noqa: E402

T = TypeVar("T")

REPLY_S = 20.0
"""Longest wait for a reply: above the daemon's own deadline of the slowest route without a limit of its own."""
SILENCE_S = 40.0
"""An event stream says something at least every 15 s; after this long it is taken for dead."""
REPEAT_S = 5.0
"""A request that is safe to repeat is sent again for this long after its connection was refused or dropped."""
REPEAT_STEP_S = 0.1

STREAM_TIMEOUT = httpx.Timeout(REPLY_S, read=SILENCE_S)


def settings(base_url: str, reply_s: float | None, token: str | None, client_name: str | None) -> dict[str, Any]:
    """Keyword arguments of the library's client, sync and async alike."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    if client_name is not None:
        headers["X-TermAl-Client"] = client_name
    # trust_env=False: a proxy from the environment must never see what goes to this machine's own daemon. Loading the
    # system's certificates takes longer than most calls and is of no use without TLS.
    return {
        "base_url": base_url,
        "timeout": reply_s,
        "trust_env": False,
        "headers": headers,
        "verify": base_url.startswith("https:"),
    }


def token_of_environment() -> str | None:
    return os.environ.get(TOKEN_VARIABLE) or None


def request_of(call: Call[T]) -> dict[str, Any]:
    """Keyword arguments of one request."""
    request: dict[str, Any] = {"params": call.params or None, "content": call.body, "headers": call.headers()}
    if call.limit_s is not None:
        request["timeout"] = call.limit_s
    return request


def read_answer(call: Call[T], answer: Answer, base_url: str) -> T:
    """What the answer says. Raises the daemon's own error, and `Unreachable` for what no daemon of ours would say."""
    if answer.status not in call.accept:
        raise error_of(answer.status, answer.content)
    try:
        return msgspec.json.decode(answer.content, type=call.reply)
    except msgspec.MsgspecError as error:
        text = f"what answers at {base_url} is no TermAl daemon of this version: {error}"
        raise Unreachable(text, trouble="unusable", phase="reading body") from error


def unreachable(error: httpx.TransportError, base_url: str, phase: Phase = "sending") -> Unreachable:
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.UnsupportedProtocol):
        return Unreachable(f"no daemon answers at {base_url} ({_what(error)})", phase=phase)
    trouble = "timeout" if isinstance(error, httpx.TimeoutException) else "transport"
    return Unreachable(f"no daemon answers at {base_url} ({_what(error)})", trouble=trouble, phase=phase)  # type: ignore[arg-type]


def _what(error: httpx.TransportError) -> str:
    return "no answer in time" if isinstance(error, httpx.TimeoutException) else str(error) or type(error).__name__
