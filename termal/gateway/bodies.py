"""Request bodies: their shapes under the wire's names, read and checked before anything happens. Unknown keys pass."""

import asyncio
from functools import cache
from typing import Any, Literal, TypeVar

import msgspec
from falcon.asgi import Request

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
SettingName = Literal[
    "approvalPolicy",
    "reasoningEffort",
    "sandboxMode",
    "cursorMode",
    "claudeApprovalMode",
    "claudeEffort",
    "geminiApprovalMode",
]


class Body(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Base of the bodies. An optional key may also be null."""


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
        given: dict[SettingName, str | None] = {
            "approvalPolicy": self.approval_policy,
            "reasoningEffort": self.reasoning_effort,
            "sandboxMode": self.sandbox_mode,
            "cursorMode": self.cursor_mode,
            "claudeApprovalMode": self.claude_approval_mode,
            "claudeEffort": self.claude_effort,
            "geminiApprovalMode": self.gemini_approval_mode,
        }
        return {name: value for name, value in given.items() if value is not None}


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


async def read_body(req: Request, kind: type[T]) -> T:
    """The body as ``kind``. Raises `Unprocessable` when it is no JSON or has another shape."""
    try:
        async with asyncio.timeout(BODY_S):
            raw = await req.stream.read()
    except TimeoutError as error:
        raise InvalidRequest("the body did not come to its end in time", reason="incompleteBody") from error
    try:
        if len(raw) > THREAD_BYTES:
            return await asyncio.to_thread(_parse, raw, kind)
        return _parse(raw, kind)
    except msgspec.ValidationError as error:
        raise Unprocessable(f"the body does not have the expected form: {error}", reason="schema") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unprocessable(f"the body is not JSON: {error}", reason="json") from error


def _parse(raw: bytes, kind: type[T]) -> T:
    record: T = _decoder(kind).decode(raw)  # type: ignore[arg-type]  # a class is hashable
    return record


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)
