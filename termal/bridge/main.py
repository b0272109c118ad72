"""``termal delegation-mcp``: reads its command line and serves one agent over stdin and stdout until they close."""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from termal.bridge import lean
from termal.bridge.arguments import path_problem
from termal.bridge.descriptor import ADDRESS_OPTION, COMMAND, SESSION_OPTION
from termal.client.call import Answer, Call
from termal.wire.launch import DEFAULT_PORT, TOKEN_VARIABLE

if TYPE_CHECKING:
    from termal.client.async_http import AsyncHttp

EXIT_OK, EXIT_FATAL, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130
CLIENT_NAME = "mcp-bridge"
USAGE = f"usage: termal {COMMAND} {SESSION_OPTION} <session-id> [{ADDRESS_OPTION} <http-origin>]\n"


class BadUsage(Exception):
    """The text goes to stderr."""


class Arguments(NamedTuple):
    session_id: str
    base_url: str


def read_arguments(arguments: Sequence[str], environ: Mapping[str, str]) -> Arguments:
    """Raises `BadUsage`."""
    given: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if name not in (SESSION_OPTION, ADDRESS_OPTION):
            raise BadUsage(USAGE)
        if not equals:
            try:
                value = next(words)
            except StopIteration:
                raise BadUsage(USAGE) from None
        given[name] = value.strip()
    session_id = given.get(SESSION_OPTION)
    if session_id is None:
        raise BadUsage(USAGE)
    problem = path_problem(session_id)
    if problem:
        raise BadUsage(f"termal {COMMAND}: {SESSION_OPTION} {problem}\n")
    return Arguments(session_id, given.get(ADDRESS_OPTION, "").rstrip("/") or _default_address(environ))


def main(arguments: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    try:
        found = read_arguments(arguments, environ)
    except BadUsage as error:
        sys.stderr.write(str(error))
        return EXIT_USAGE
    lean.import_sdk()
    from termal.bridge.process import serve  # noqa: PLC0415 - after the line above

    try:
        return asyncio.run(serve(found.session_id, _Sender(found.base_url, environ.get(TOKEN_VARIABLE))))
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


class _Sender:
    """Sends calls to the daemon. The HTTP library comes with the first one: an agent waits for the handshake only."""

    def __init__(self, base_url: str, token: str | None) -> None:
        self._base_url = base_url
        self._token = token
        self._http: AsyncHttp | None = None

    async def __call__(self, call: Call[Any], limit_s: float) -> Answer:
        return await self._client().exchange(call, limit_s=limit_s)

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()

    def _client(self) -> "AsyncHttp":
        if self._http is None:
            from termal.client.async_http import AsyncHttp  # noqa: PLC0415 - see above

            # No limits of its own: the whole exchange has one.
            self._http = AsyncHttp(
                self._base_url, reply_s=None, repeat_s=0.0, token=self._token, client_name=CLIENT_NAME
            )
        return self._http


def _default_address(environ: Mapping[str, str]) -> str:
    named = environ.get("TERMAL_BASE_URL", "").strip().rstrip("/")
    if named:
        return named
    port = environ.get("TERMAL_PORT", "")
    number = int(port) if port.isdecimal() and len(port) <= 5 and int(port) <= 65535 else DEFAULT_PORT
    return f"http://127.0.0.1:{number}"
