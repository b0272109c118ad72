"""The adapter of Claude Code: one conversation, one process, one prompt at a time. Imports the SDK on first use."""

import asyncio
import base64
import contextlib
import importlib
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from termal.bridge.descriptor import SERVER
from termal.config import Config
from termal.procs.agents import find_command
from termal.procs.environment import agent_environment, config_of
from termal.wire.session_operations import PromptImage
from termal.wire.turns import ExternalSession, SessionSpec
from workers.runtime.adapter import AgentFailed, Emit, Started
from workers.runtime.bridge import NO_BRIDGE
from workers.runtime.claude_approvals import Approvals, ToolRequest, Verdict, ruled
from workers.runtime.claude_files import PrivateFiles
from workers.runtime.claude_guard import READ_ONLY_TOOLS, Guarded, guarded, is_guarded, is_read_only, needs_person
from workers.runtime.claude_messages import Heard, Json, SystemNote, TurnResult
from workers.runtime.claude_servers import settled
from workers.runtime.claude_turn import Turn
from workers.runtime.repository import advice, is_trusted
from workers.runtime.write_locks import IsLocked

if TYPE_CHECKING:
    from workers.runtime.claude_sdk import Connection

INTERRUPT_LIMIT_S = 5.0
"""A turn that has not ended this long after an interrupt is ended with its process."""
INTERRUPT_AGAIN_S = 1.0
CLOSE_STEP_S = 2.0
"""How long each step of closing may take: input closed, asked to end, killed."""
FORCE_STEP_S = 1.0
"""The same for a process in the middle of a turn, whose session file holds all that matters already."""
_ADVICE = ("CLAUDE.md", "AGENTS.md")
MISSING = "Claude Code is not installed: put `claude` on PATH, or let pip install 'termal[claude]' bring a copy."
MISSING_SDK = "Claude sessions need the Claude SDK: pip install 'termal[claude]'."
FRESH_NOTE = "Claude does not know the earlier conversation any more. This is a new one: it remembers nothing of it."


class ClaudeAdapter:
    """``environ`` is the daemon's own environment, of which a part passes; ``folder`` is private to the user."""

    def __init__(
        self,
        config: Config,
        *,
        environ: Mapping[str, str],
        folder: Path,
        is_locked: IsLocked,
        portable: bool = False,
    ) -> None:
        self._config = config
        self._environ = environ
        self._is_locked = is_locked
        self._portable = portable
        self._files = PrivateFiles(folder)
        self._connection: Connection | None = None
        self._spec: SessionSpec | None = None
        self._session_id: str | None = None
        self._turn: Turn | None = None
        self._approvals = Approvals()
        self._cost_usd = 0.0

    @property
    def pid(self) -> int | None:
        return self._connection.pid if self._connection is not None else None

    @property
    def alive(self) -> bool:
        return self._connection is not None and self._connection.alive

    async def start(self, spec: SessionSpec) -> Started:
        """Begin or resume the conversation. An unknown conversation is replaced by a fresh one, which the note says."""
        try:
            # The import takes about a second: the loop goes on answering meanwhile.
            module = await asyncio.to_thread(importlib.import_module, "workers.runtime.claude_sdk")
        except ImportError as error:
            raise AgentFailed(MISSING_SDK) from error
        try:
            return await self._start(module, spec)
        except AgentFailed:
            self._files.remove()
            raise

    async def _start(self, module: ModuleType, spec: SessionSpec) -> Started:
        if spec.external_session_id is not None:
            try:
                return await self._open(module, spec, spec.external_session_id, resume=True)
            except AgentFailed as failure:
                if not failure.unknown_session:
                    raise
        return await self._open(module, spec, str(uuid.uuid4()), resume=False)

    async def prompt(self, text: str, images: list[PromptImage], emit: Emit) -> None:
        """Raises `AgentFailed` when the agent did not take the prompt; then no event was or will be emitted."""
        if self._connection is None or self._spec is None or self._turn is not None:
            raise AgentFailed("Claude cannot take a prompt now.")
        turn = Turn(str(uuid.uuid4()), self._spec.workdir, emit)
        self._turn = turn
        try:
            await self._connection.send(_content(text, images), turn.prompt_id)
        except AgentFailed:
            if not turn.ended.is_set():
                self._turn = None
                raise

    async def interrupt(self) -> None:
        turn, connection = self._turn, self._connection
        if turn is None or connection is None:
            return
        turn.stopping = True
        try:
            async with asyncio.timeout(INTERRUPT_LIMIT_S):
                while not turn.ended.is_set():
                    # One that comes before the agent has begun the turn is without effect.
                    await connection.interrupt()
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(turn.ended.wait(), INTERRUPT_AGAIN_S)
        except (TimeoutError, AgentFailed):
            await self._end_process()

    async def answer(self, request: str, option: str) -> None:
        self._approvals.answer(request, option)

    async def answer_with(self, request: str, option: str, payload: bytes) -> None:
        self._approvals.answer_questions(request, payload)

    async def apply(self, spec: SessionSpec) -> bool:
        old, connection = self._spec, self._connection
        if old is None or connection is None or not connection.alive or not self._is_same_process(old, spec):
            return False
        try:
            if spec.model != old.model:
                await connection.set_model(spec.model or "default")
            if _permission_mode(spec) != _permission_mode(old):
                await connection.set_permission_mode(_permission_mode(spec))
        except AgentFailed:
            return False
        self._spec = spec
        return True

    async def close(self) -> None:
        if self._turn is not None:
            self._turn.stopping = True
            await self._end_process()
        elif self._connection is not None:
            await self._connection.close(CLOSE_STEP_S)
        self._files.remove()

    def _is_same_process(self, old: SessionSpec, spec: SessionSpec) -> bool:
        """Whether the running process can serve ``spec``: these are settled when it is started."""
        return (
            spec.workdir == old.workdir
            and is_read_only(spec) == is_read_only(old)
            and is_guarded(spec) == is_guarded(old)
            and _effort(spec) == _effort(old)
            and spec.mcp_servers == old.mcp_servers
            and spec.external_session_id in (None, self._session_id)
        )

    async def _open(self, module: ModuleType, spec: SessionSpec, session_id: str, *, resume: bool) -> Started:
        program, environment = self._prepare(spec)
        trusted = not is_read_only(spec) and is_trusted(config_of("Claude", self._config), spec)
        conversation = module.Conversation(
            program=program,
            environment=environment,
            workdir=spec.workdir,
            model=None if spec.model in ("", "default") else spec.model,
            effort=_effort(spec),
            permission_mode=_permission_mode(spec),
            tools=list(READ_ONLY_TOOLS) if is_read_only(spec) else None,
            new_id=None if resume else session_id,
            resumed_id=session_id if resume else None,
            servers=self._files.write_servers(spec.mcp_servers),
            # With the settings of the folder the agent reads its advice by itself.
            advice=None if trusted else self._files.write_advice(advice(spec.workdir, *_ADVICE)),
            trusted=trusted,
        )
        self._spec, self._session_id = spec, session_id
        self._connection = module.Connection(
            conversation,
            hear=self._hear,
            ask=self._permit,
            lost=self._lose,
            guard=self._judge if is_guarded(spec) else None,
        )
        opened = await self._connection.open()
        await settled(self._connection.server_states, (server.name for server in spec.mcp_servers))
        self._files.remove_launcher()
        note = FRESH_NOTE if spec.external_session_id is not None and not resume else ""
        return Started(external_session_id=session_id, models=opened.models, note=note, commands=opened.commands)

    def _prepare(self, spec: SessionSpec) -> tuple[Path, dict[str, str]]:
        """What to run, and its environment."""
        environment = agent_environment("Claude", self._config, self._environ)
        if spec.mcp_servers:
            # Else the model is not sent the tools of our servers and has to look for them by name.
            environment.setdefault("ENABLE_TOOL_SEARCH", "false")
            # Else it probes for a newer protocol, and a server that answers late takes the usual handshake no more.
            environment.setdefault("MCP_PROTOCOL_NEGOTIATION", "legacy")
        command = find_command("Claude", self._config, environment)
        if command is None:
            raise AgentFailed(MISSING)
        launcher = self._files.write_launcher(
            command.argv, inherited=os.environ, environment=environment, portable=self._portable
        )
        return launcher, environment

    def _hear(self, heard: Heard) -> None:
        if isinstance(heard, SystemNote) and heard.kind == "init":
            self._notice_session(heard.data.get("session_id"))
            if not any(server.get("status") == "pending" for server in heard.data.get("mcp_servers") or []):
                self._files.remove_servers()
            self._check_bridge(heard.data.get("mcp_servers") or [])
        turn = self._turn
        if isinstance(heard, TurnResult):
            cost_usd = self._cost_of(heard)
            # Background work of the agent ends in turns of its own, which answer no prompt of ours.
            if turn is not None and (heard.answered is None or turn.prompt_id in heard.answered):
                self._approvals.withdraw_all()
                self._turn = None
                turn.conclude(heard, cost_usd)
        elif turn is not None:
            turn.hear(heard)

    def _check_bridge(self, servers: list[Json]) -> None:
        """A required review that cannot be submitted ends at once: whoever waits for it would wait in vain."""
        failed = any(server.get("name") == SERVER and server.get("status") == "failed" for server in servers)
        turn, connection = self._turn, self._connection
        if failed and turn and connection and self._spec is not None and self._spec.submits_review:
            self._turn = None
            turn.end("failed", NO_BRIDGE)
            connection.terminate()

    def _notice_session(self, session_id: object) -> None:
        """A command such as /clear continues under another id; that one has to be resumed later."""
        if isinstance(session_id, str) and session_id != self._session_id:
            self._session_id = session_id
            self._cost_usd = 0.0
            if self._turn is not None:
                self._turn.tell(ExternalSession(session_id))

    def _cost_of(self, result: TurnResult) -> float | None:
        if result.total_cost_usd is None:
            return None
        cost_usd = result.total_cost_usd - self._cost_usd
        self._cost_usd = result.total_cost_usd
        return cost_usd if cost_usd >= 0 else result.total_cost_usd

    def _judge(self, tool: str, arguments: Json) -> Guarded | None:
        assert self._spec is not None
        return guarded(self._spec, tool, arguments)

    async def _permit(self, request: ToolRequest) -> Verdict:
        assert self._spec is not None
        verdict = ruled(self._spec, request)
        by_mode = verdict is not None and verdict.by_mode
        if verdict is not None and not (by_mode and await self._is_locked(self._spec.session_id)):
            return verdict
        tell = self._turn.tell if self._turn is not None else None
        once = needs_person(self._spec, request.tool, request.arguments)
        return await self._approvals.ask(request, tell, by_mode=by_mode, once=once)

    def _lose(self, detail: str) -> None:
        self._approvals.withdraw_all()
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.end("interrupted") if turn.stopping else turn.end("lost", detail)

    async def _end_process(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            await self._connection.close(FORCE_STEP_S)


def _content(text: str, images: list[PromptImage]) -> list[Json]:
    content: list[Json] = [
        {
            "type": "image",
            "source": {
                "type": "base64",
                "media_type": image.media_type,
                "data": base64.b64encode(image.data).decode("ascii"),
            },
        }
        for image in images
    ]
    if text:
        content.append({"type": "text", "text": text})
    return content


def _permission_mode(spec: SessionSpec) -> str:
    is_plan = spec.modes.get("claudeApprovalMode") == "plan" and not is_read_only(spec)
    return "plan" if is_plan else "default"


def _effort(spec: SessionSpec) -> str | None:
    effort = spec.modes.get("claudeEffort", "default")
    return None if effort == "default" else effort
