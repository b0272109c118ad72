"""What a person prefers for new sessions, and the list of other daemons."""

from typing import Annotated, Literal

import msgspec
from falcon.asgi import Request, Response
from msgspec import UNSET

from termal.gateway.bodies import Body, given, read_body
from termal.gateway.resource import Resource
from termal.model.session import ApprovalPolicy, ClaudeApprovalMode, ClaudeEffort, ReasoningEffort, SandboxMode
from termal.model.stored import Remote
from termal.wire.settings_operations import PREFERENCES_CHANGE, ChangePreferences

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""What can travel to another worker; the rules there say which numbers are ports."""


class RemoteBody(Body, frozen=True):
    """``host``, ``port`` and ``user`` are for ``ssh``."""

    id: str
    name: str | None = None
    transport: Literal["local", "ssh"] | None = None
    enabled: bool | None = None
    host: str | None = None
    port: Int64 | None = None
    user: str | None = None

    def remote(self) -> Remote:
        return Remote(
            id=self.id,
            name=self.name or self.id,
            transport=self.transport or "local",
            enabled=self.enabled is not False,
            host=UNSET if self.host is None else self.host,
            port=UNSET if self.port is None else self.port,
            user=UNSET if self.user is None else self.user,
        )


class PreferencesBody(Body, frozen=True):
    default_codex_model: str | None = None
    default_codex_sandbox_mode: SandboxMode | None = None
    default_codex_approval_policy: ApprovalPolicy | None = None
    default_codex_reasoning_effort: ReasoningEffort | None = None
    default_claude_model: str | None = None
    default_claude_approval_mode: ClaudeApprovalMode | None = None
    default_claude_effort: ClaudeEffort | None = None
    default_cursor_model: str | None = None
    default_gemini_model: str | None = None
    default_open_code_model: str | None = None
    remotes: list[RemoteBody] | None = None

    def values(self) -> dict[str, str]:
        """The defaults that were given, under their wire names."""
        return given(self, "remotes")


class Preferences(Resource):
    async def on_post(self, req: Request, resp: Response) -> None:
        body = await read_body(req, PreferencesBody)
        remotes = None if body.remotes is None else [remote.remote() for remote in body.remotes]
        request = ChangePreferences(values=body.values(), remotes=remotes)
        await self.forward(req, resp, PREFERENCES_CHANGE, request)
