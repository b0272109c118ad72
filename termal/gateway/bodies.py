"""Request bodies: their shapes under the wire's names, read and checked before anything happens. Unknown keys pass."""

import asyncio
from functools import cache
from typing import Any, TypeVar

import msgspec
from falcon.asgi import Request

from termal.gateway.route import visit_of
from termal.model.message import Decision
from termal.model.session import (
    ApprovalPolicy,
    ClaudeApprovalMode,
    ClaudeEffort,
    CursorMode,
    GeminiApprovalMode,
    ReasoningEffort,
    SandboxMode,
)
from termal.wire.errors import InvalidRequest, Unprocessable

BODY_S = 60.0
"""For a whole body, however slowly it comes."""
THREAD_BYTES = 256 << 10
"""Above it parsing would hold up the event loop for more than half a millisecond."""

T = TypeVar("T")


class Body(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Base of the bodies. An optional key may also be null."""


def given(body: Body, *others: str) -> dict[str, Any]:
    """What ``body`` has a value for, under the wire names, without its fields ``others``."""
    fields = zip(body.__struct_fields__, body.__struct_encode_fields__, strict=True)
    values = {name: getattr(body, field) for field, name in fields if field not in others}
    return {name: value for name, value in values.items() if value is not None}


class SessionBody(Body, frozen=True):
    agent: str = "Codex"
    name: str | None = None
    workdir: str | None = None
    project_id: str | None = None
    model: str | None = None
    approval_policy: ApprovalPolicy | None = None
    reasoning_effort: ReasoningEffort | None = None
    sandbox_mode: SandboxMode | None = None
    cursor_mode: CursorMode | None = None
    claude_approval_mode: ClaudeApprovalMode | None = None
    claude_effort: ClaudeEffort | None = None
    gemini_approval_mode: GeminiApprovalMode | None = None

    def settings(self) -> dict[str, str]:
        """The settings that were given, under their wire names."""
        return given(self, "agent", "name", "workdir", "project_id", "model")


class ImageBody(Body, frozen=True):
    """``data`` is base64."""

    data: str
    media_type: str
    file_name: str | None = None


class PromptBody(Body, frozen=True):
    text: str
    expanded_text: str | None = None
    attachments: list[ImageBody] | None = None
    source_session_id: str | None = None


class DecisionBody(Body, frozen=True):
    decision: Decision


async def read_body(req: Request, kind: type[T], *, empty: T | None = None) -> T:
    """The body as ``kind``; ``empty``, if given, for one without a byte. Raises `Unprocessable` when it is no JSON or
    has another shape."""
    # PERF: most bodies come at once, and a timer and a stream for each of them are a twentieth of a request's time.
    raw = visit_of(req).whole_body
    if raw is None:
        raw = await _rest_of(req)
    if empty is not None and not raw:
        return empty
    try:
        if len(raw) > THREAD_BYTES:
            return await asyncio.to_thread(_parse, raw, kind)
        return _parse(raw, kind)
    except msgspec.ValidationError as error:
        raise Unprocessable(f"the body does not have the expected form: {error}", reason="schema") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unprocessable(f"the body is not JSON: {error}", reason="json") from error


async def _rest_of(req: Request) -> bytes:
    try:
        async with asyncio.timeout(BODY_S):
            return await req.stream.read()
    except TimeoutError as error:
        raise InvalidRequest("the body did not come to its end in time", reason="incompleteBody") from error


def _parse(raw: bytes, kind: type[T]) -> T:
    record: T = _decoder(kind).decode(raw)  # type: ignore[arg-type]  # a class is hashable
    return record


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)
