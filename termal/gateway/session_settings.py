"""Settings of one session, and the model list of its agent. Every reply is made by state and passed on unread."""

from falcon.asgi import Request, Response

from termal.gateway.bodies import Body, read_body
from termal.gateway.context import Gateway
from termal.gateway.reply import send_json
from termal.gateway.route import trace_of
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
        given: dict[str, str | bool | None] = {
            "approvalPolicy": self.approval_policy,
            "reasoningEffort": self.reasoning_effort,
            "codexFastMode": self.codex_fast_mode,
            "sandboxMode": self.sandbox_mode,
            "cursorMode": self.cursor_mode,
            "claudeApprovalMode": self.claude_approval_mode,
            "claudeEffort": self.claude_effort,
            "geminiApprovalMode": self.gemini_approval_mode,
            "opencodeEffort": self.opencode_effort,
            "opencodeMode": self.opencode_mode,
        }
        return {name: value for name, value in given.items() if value is not None}


class SessionSettings:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def on_post(self, req: Request, resp: Response, session_id: str) -> None:
        body = await read_body(req, SettingsBody)
        request = ChangeSettings(session_id=session_id, name=body.name, model=body.model, settings=body.settings())
        reply = await self._gateway.ask("state", SETTINGS_CHANGE, request, trace=trace_of(req))
        await send_json(req, resp, reply.json)


class ModelOptions:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def on_post(self, req: Request, resp: Response, session_id: str) -> None:
        reply = await self._gateway.ask("state", MODELS_REFRESH, OneSession(session_id), trace=trace_of(req))
        await send_json(req, resp, reply.json)
