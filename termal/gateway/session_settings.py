"""Settings of one session, and the model list of its agent. Every reply is made by state and passed on unread."""

from falcon.asgi import Request, Response

from termal.gateway.bodies import Body, given, read_body
from termal.gateway.resource import Resource
from termal.model.session import (
    ApprovalPolicy,
    ClaudeApprovalMode,
    ClaudeEffort,
    CursorMode,
    GeminiApprovalMode,
    ReasoningEffort,
    SandboxMode,
)
from termal.wire.session_operations import OneSession
from termal.wire.settings_operations import MODELS_REFRESH, SETTINGS_CHANGE, ChangeSettings


class SettingsBody(Body, frozen=True):
    name: str | None = None
    model: str | None = None
    approval_policy: ApprovalPolicy | None = None
    reasoning_effort: ReasoningEffort | None = None
    codex_fast_mode: bool | None = None
    sandbox_mode: SandboxMode | None = None
    cursor_mode: CursorMode | None = None
    claude_approval_mode: ClaudeApprovalMode | None = None
    claude_effort: ClaudeEffort | None = None
    gemini_approval_mode: GeminiApprovalMode | None = None
    opencode_effort: str | None = None
    opencode_mode: str | None = None

    def settings(self) -> dict[str, str | bool]:
        """The settings that were given, under their wire names."""
        return given(self, "name", "model")


class SessionSettings(Resource):
    async def on_post(self, req: Request, resp: Response, session_id: str) -> None:
        body = await read_body(req, SettingsBody)
        request = ChangeSettings(session_id=session_id, name=body.name, model=body.model, settings=body.settings())
        await self.forward(req, resp, SETTINGS_CHANGE, request)


class ModelOptions(Resource):
    async def on_post(self, req: Request, resp: Response, session_id: str) -> None:
        await self.forward(req, resp, MODELS_REFRESH, OneSession(session_id))
