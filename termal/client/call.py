"""One request as a value: what is sent, what is read of the answer, and whether sending it again is safe. No I/O."""

import uuid
from collections.abc import Mapping
from typing import Any, Generic, Literal, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec

T = TypeVar("T")

Method = Literal["GET", "POST", "PATCH", "DELETE"]


class Call(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """``reply`` is what the body of an accepted answer is decoded into.

    ``body`` is JSON, None for a request without one. ``key``: the daemon knows a repeat by it. ``repeatable``: the
    request may be sent again when its connection was refused or dropped. ``limit_s``: longest wait for the answer,
    where the client's own is too short.
    """

    method: Method
    path: str
    reply: type[T]
    params: dict[str, str | int] = {}
    body: bytes | None = None
    key: str | None = None
    repeatable: bool = True
    accept: tuple[int, ...] = (200, 201, 202)
    limit_s: float | None = None

    def headers(self) -> dict[str, str]:
        headers = {} if self.body is None else {"Content-Type": "application/json"}
        return {**headers, "Idempotency-Key": self.key} if self.key else headers


class Answer(NamedTuple):
    """A reply as it came. ``content`` is decompressed."""

    status: int
    reason: str
    content: bytes


def read(path: str, reply: type[T], **params: str | int | None) -> Call[T]:
    """A GET; parameters that are None are left out."""
    return Call(method="GET", path=path, reply=reply, params=_given(params))


def write(
    path: str,
    reply: type[T],
    body: Mapping[str, Any] | None = None,
    *,
    method: Method = "POST",
    key: str | None = None,
    repeatable: bool | None = None,
    limit_s: float | None = None,
) -> Call[T]:
    """A request that changes something; members of ``body`` that are None are left out.

    It is sent once, unless it has a ``key`` or is ``repeatable`` because of what stands in its body.
    """
    return Call(
        method=method,
        path=path,
        reply=reply,
        body=None if body is None else msgspec.json.encode(_given(body)),
        key=key,
        repeatable=key is not None if repeatable is None else repeatable,
        limit_s=limit_s,
    )


def session_path(session_id: str, *more: str) -> str:
    """The path of a session, or of something below it; each part is one segment, whatever is in it."""
    return "/".join(["/api/sessions", quote(session_id, safe=""), *(quote(part, safe="") for part in more)])


def new_key() -> str:
    return str(uuid.uuid4())


def _given(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}
