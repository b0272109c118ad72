"""What is checked of ids and options before a delegation command sends anything; the sentences are part of the API."""

import math
import re
from typing import Any

PROMPT_BYTES = 65536
TITLE_CHARS = 200
MODEL_CHARS = 200
WAIT_IDS = 10
REVIEWERS = 4
INTERVAL_MS = 1000
SHORTEST_INTERVAL_MS = 500
TIMEOUT_MS = 300_000
LONGEST_TIMEOUT_MS = 1_800_000

_UNSAFE = re.compile(r"[/?#\x00-\x1f\x7f]")
_NOT_NULL = ("title", "cwd", "agent", "model", "mode", "writePolicy")


class RangeError(ValueError):
    """A value of the right type that is empty, too long, too short or not allowed."""


def checked_id(value: Any, what: str) -> str:
    """``value`` trimmed. Raises TypeError and `RangeError`."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a string")
    text = value.strip()
    if not text:
        raise RangeError(f"{what} must be non-empty")
    if _UNSAFE.search(text):
        raise RangeError(f"{what} must not contain /, ?, #, or control characters")
    return text


def parent_id(value: Any) -> str:
    return checked_id(value, "parent session id")


def delegation_ids(value: Any, command: str) -> list[str]:
    """Each id once, in order, 1 to 10. ``command`` is named in the sentences."""
    if not isinstance(value, list | tuple):
        raise TypeError("delegation ids must be an array")
    ids = list(dict.fromkeys(checked_id(item, "delegation id") for item in value))
    if not ids:
        raise RangeError(f"{command} requires at least one delegation id")
    if len(ids) > WAIT_IDS:
        raise RangeError(f"{command} accepts at most {WAIT_IDS} ids")
    return ids


def wait_times(interval_ms: Any, timeout_ms: Any) -> tuple[float, float]:
    """Interval and timeout in milliseconds, None standing for the defaults. Nothing is clamped."""
    interval = _duration(interval_ms, "pollIntervalMs", INTERVAL_MS)
    timeout = _duration(timeout_ms, "timeoutMs", TIMEOUT_MS)
    if interval < SHORTEST_INTERVAL_MS:
        raise RangeError(f"pollIntervalMs must be at least {SHORTEST_INTERVAL_MS}ms")
    if timeout > LONGEST_TIMEOUT_MS:
        raise RangeError(f"timeoutMs must be no greater than {LONGEST_TIMEOUT_MS}ms")
    return interval, timeout


def spawn_request(request: Any, what: str = "request") -> dict[str, Any]:
    """The members of a spawn that were given. Raises TypeError and `RangeError`, the prompt first."""
    if not isinstance(request, dict):
        raise TypeError(f"{what} must be an object")
    prompt = request.get("prompt")
    if not isinstance(prompt, str):
        raise TypeError("prompt must be a string")
    if not prompt.strip():
        raise RangeError("prompt must be non-empty")
    if len(prompt.strip().encode(errors="replace")) > PROMPT_BYTES:
        raise RangeError(f"prompt must be no larger than {PROMPT_BYTES} bytes")
    for field, value in request.items():
        if field in _NOT_NULL:
            _field(field, value)
    return {name: value for name, value in request.items() if name == "prompt" or name in _NOT_NULL}


def reviewer_requests(requests: Any) -> list[dict[str, Any]]:
    """The spawns of a batch, each made a read-only reviewer; nothing is wrong with any of them."""
    if not isinstance(requests, list | tuple):
        raise TypeError("spawn_reviewer_batch requests must be an array")
    if not requests:
        raise RangeError("spawn_reviewer_batch requires at least one reviewer")
    if len(requests) > REVIEWERS:
        raise RangeError(f"spawn_reviewer_batch accepts at most {REVIEWERS} reviewers")
    checked = []
    for number, request in enumerate(requests, 1):
        if not isinstance(request, dict):
            raise TypeError(f"reviewer request {number} must be an object")
        checked.append(spawn_request({**request, "mode": "reviewer", "writePolicy": {"kind": "readOnly"}}))
    return checked


def _field(field: str, value: Any) -> None:
    if value is None:
        raise TypeError(f"{field} must be omitted instead of null")
    longest = {"title": TITLE_CHARS, "model": MODEL_CHARS}.get(field)
    if longest is not None and isinstance(value, str) and len(value.strip()) > longest:
        raise RangeError(f"{field} must be no longer than {longest} characters")


def _duration(value: Any, field: str, default: float) -> float:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise RangeError(f"{field} must be a finite positive duration")
    return value
