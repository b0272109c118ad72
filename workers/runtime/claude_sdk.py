"""The only module that imports the Claude SDK: one agent process behind one SDK client, driven by one task.

Turns what the SDK says into the records of `claude_messages` and takes plain values. It knows no turn and no session.
"""

import asyncio
import contextlib
import dataclasses
import logging
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import claude_agent_sdk as sdk
import msgspec

from termal.faults import fault
from workers.runtime.adapter import AgentFailed
from workers.runtime.claude_approvals import ToolRequest, Verdict
from workers.runtime.claude_guard import Guarded
from workers.runtime.claude_messages import Heard, Json
from workers.runtime.claude_records import commands_of, models_of, records
from workers.runtime.host_paths import masked

CONNECT_LIMIT_S = 30.0
LINE_BYTES = 64 << 20
"""A tool result is one line; the SDK's own limit of 1 MiB ends the conversation at a large one."""
STDERR_LINES = 200
_TOLD_LINES = 5
_GUARD_FAILED = "Whether this may be done could not be decided, so it was refused."
_TERMINAL_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

# The SDK logs each death of an agent with its text. We report it in the turn, and bodies belong in no log.
logging.getLogger("claude_agent_sdk").addHandler(logging.NullHandler())
logging.getLogger("claude_agent_sdk").propagate = False


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """How to start the process. ``program``: the agent, or a launcher that is executed in its place.

    Exactly one of ``new_id`` and ``resumed_id`` is set. ``tools`` None leaves the agent its own set.
    ``servers``: the file that describes the MCP servers. ``advice``: one whose text is added to the system prompt.
    ``trusted``: the settings of the folder are loaded, with the programs that they name.
    """

    program: Path
    environment: dict[str, str]
    workdir: str
    model: str | None
    effort: str | None
    permission_mode: str
    tools: list[str] | None
    new_id: str | None = None
    resumed_id: str | None = None
    servers: Path | None = None
    advice: Path | None = None
    trusted: bool = False


class Opened(msgspec.Struct, frozen=True):
    """``models``: value, label and description; ``commands``: name, description and argument hint."""

    models: list[tuple[str, str, str | None]]
    commands: list[tuple[str, str, str]]


Job = tuple[Callable[[Any], Awaitable[object]], "asyncio.Future[None]"]


class Connection:
    """``hear`` gets every record, ``ask`` every request for permission, ``lost`` the reason of the process's end.
    ``guard`` is asked before every call of a tool, whatever the user's own rules say of it.

    `lost` is called once, also after `close`. All calls into the SDK are made by one task: its cancel scopes belong
    to the task that opened them.
    """

    def __init__(
        self,
        conversation: Conversation,
        *,
        hear: Callable[[Heard], None],
        ask: Callable[[ToolRequest], Awaitable[Verdict]],
        lost: Callable[[str], None],
        guard: Callable[[str, Json], Guarded | None] | None = None,
    ) -> None:
        self._conversation = conversation
        self._hear = hear
        self._ask = ask
        self._lost = lost
        self._guard = guard
        self._jobs: asyncio.Queue[Job | None] = asyncio.Queue()
        self._stderr: deque[str] = deque(maxlen=STDERR_LINES)
        self._opened: asyncio.Future[Opened] = asyncio.get_running_loop().create_future()
        # A start that is given up leaves nobody who asks for its failure.
        self._opened.add_done_callback(lambda opened: opened.exception())
        self._client = sdk.ClaudeSDKClient(self._options())
        self._owner: asyncio.Task[None] | None = None
        self._gone = False

    @property
    def pid(self) -> int | None:
        process = self._process()
        return process.pid if process is not None else None

    @property
    def alive(self) -> bool:
        return self._owner is not None and self._opened.done() and not self._gone

    async def open(self) -> Opened:
        """Raises `AgentFailed`, with nothing left running."""
        self._owner = asyncio.create_task(self._own(), name="claude-owner")
        try:
            return await asyncio.shield(self._opened)
        except AgentFailed:
            await self._owner
            raise

    async def send(self, content: list[Json], prompt_id: str) -> None:
        """Give the agent a prompt. Raises `AgentFailed` when the process is gone."""

        async def prompts() -> AsyncIterator[Json]:
            message = {"role": "user", "content": content}
            yield {"type": "user", "message": message, "parent_tool_use_id": None, "uuid": prompt_id}

        await self._call(lambda client: client.query(prompts()))

    async def interrupt(self) -> None:
        await self._call(lambda client: client.interrupt())

    async def set_model(self, model: str | None) -> None:
        """Raises `AgentFailed` when the agent refuses the model."""
        await self._call(lambda client: client.set_model(model))

    async def set_permission_mode(self, mode: str) -> None:
        """Raises `AgentFailed` when the agent refuses the mode."""
        await self._call(lambda client: client.set_permission_mode(mode))

    async def server_states(self) -> dict[str, str]:
        """What became of each MCP server, by name: ``pending``, ``connected``, ``failed``, ... Raises `AgentFailed`."""
        found: dict[str, str] = {}

        async def ask(client: Any) -> None:
            told = await client.get_mcp_status()
            found.update({str(one.get("name")): str(one.get("status")) for one in told.get("mcpServers") or []})

        await self._call(ask)
        return found

    def terminate(self) -> None:
        """Ask the process to end without waiting for what it does; the launcher takes its whole tree along."""
        process = self._process()
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()

    async def close(self, step_s: float) -> None:
        """End the process: close its input, ask it to end, kill it, with ``step_s`` seconds for each. Repeatable."""
        if self._owner is None:
            return
        self._jobs.put_nowait(None)
        for harder in (self.terminate, self._kill, self._abandon):
            done, _waiting = await asyncio.wait([self._owner], timeout=step_s)
            if done:
                return
            harder()
        await asyncio.wait([self._owner])

    def _kill(self) -> None:
        process = self._process()
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()

    def _abandon(self) -> None:
        """The process is dead and the SDK still waits, for a pipe that something else holds open."""
        assert self._owner is not None
        self._owner.cancel()

    def _process(self) -> Any:
        # The SDK has no public way to its process, and status has to name it.
        return getattr(getattr(self._client, "_transport", None), "_process", None)

    async def _call(self, call: Callable[[Any], Awaitable[object]]) -> None:
        if not self.alive:
            raise AgentFailed("The agent's process is gone.")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._jobs.put_nowait((call, done))
        await done

    async def _own(self) -> None:
        reader: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(CONNECT_LIMIT_S):
                await self._client.connect()
                info = await self._client.get_server_info()
            self._opened.set_result(Opened(models_of(info or {}), commands_of(info or {})))
            reader = asyncio.create_task(self._read(), name="claude-reader")
            await self._work()
        except Exception as error:  # noqa: BLE001 - the border to the SDK, which raises bare exceptions as well
            if not self._opened.done():
                self._opened.set_exception(self._start_failure(error))
        finally:
            if reader is not None:
                reader.cancel()
                await asyncio.wait([reader])
                self._end("closed")
            self._gone = True
            self._refuse_waiting()
            with contextlib.suppress(Exception):
                await self._client.disconnect()

    async def _work(self) -> None:
        while (job := await self._jobs.get()) is not None:
            call, done = job
            try:
                await call(self._client)
            except Exception as error:  # noqa: BLE001 - the border to the SDK, which raises bare exceptions as well
                if not done.done():
                    done.set_exception(AgentFailed(_plain(str(error)) or type(error).__name__))
            else:
                if not done.done():
                    done.set_result(None)

    def _refuse_waiting(self) -> None:
        while not self._jobs.empty():
            job = self._jobs.get_nowait()
            if job is not None and not job[1].done():
                job[1].set_exception(AgentFailed("The agent's process is gone."))

    async def _read(self) -> None:
        """Read without a pause until the process is gone: a full buffer of the SDK holds up its control messages."""
        reason = "ended"
        try:
            while not await self._read_messages():
                pass
        except sdk.ProcessError as error:
            reason = f"exit code {error.exit_code}"
        except Exception as error:  # noqa: BLE001 - the border to the SDK, which raises bare exceptions as well
            reason = _plain(str(error))
        self._end(reason)
        self._jobs.put_nowait(None)

    async def _read_messages(self) -> bool:
        """False: a message could not be read, others follow. True: the process said its last."""
        try:
            async for message in self._client.receive_messages():
                for heard in records(message):
                    self._hear(heard)
        except sdk.ClaudeSDKError as error:
            # The SDK does not export this one: a message of a new kind. The next ones can still be read.
            if type(error).__name__ != "MessageParseError":
                raise
            return False
        return True

    def _end(self, reason: str) -> None:
        if not self._gone:
            self._gone = True
            self._lost(self._with_stderr(f"the Claude process ended before the turn did ({reason})"))

    async def _permit(self, tool: str, arguments: Json, context: Any) -> Any:
        request = ToolRequest(
            tool,
            arguments,
            description=context.description or "",
            reason=context.decision_reason or "",
            blocked_path=context.blocked_path or "",
            rules=bool(context.suggestions),
        )
        verdict = await self._ask(request)
        if verdict.kind == "refuse":
            return sdk.PermissionResultDeny(message=verdict.text)
        if verdict.kind == "allow":
            return sdk.PermissionResultAllow(updated_input=verdict.arguments)
        rules = [dataclasses.replace(rule, destination="session") for rule in context.suggestions]
        return sdk.PermissionResultAllow(updated_permissions=rules)

    async def _before_tool(self, given: Any, _tool_use_id: str | None, _context: Any) -> Any:
        """The agent leaves a call to its own rules when this fails, so nothing here may."""
        try:
            fault("claude.guard")
            assert self._guard is not None
            verdict = self._guard(given["tool_name"], given["tool_input"])
        except Exception:  # noqa: BLE001 - fails closed
            verdict = Guarded("refuse", _GUARD_FAILED)
        if verdict is None:
            return {}
        decision = {"allow": "allow", "refuse": "deny", "ask": "ask"}[verdict.kind]
        told = {"hookEventName": "PreToolUse", "permissionDecision": decision}
        return {"hookSpecificOutput": {**told, "permissionDecisionReason": verdict.text}}

    def _hooks(self) -> Any:
        if self._guard is None:
            return None
        return {"PreToolUse": [sdk.HookMatcher(hooks=[self._before_tool], on_failure="block")]}

    def _options(self) -> Any:
        conversation = self._conversation
        return sdk.ClaudeAgentOptions(
            cwd=conversation.workdir,
            cli_path=conversation.program,
            env=conversation.environment,
            model=conversation.model,
            effort=conversation.effort,
            permission_mode=conversation.permission_mode,
            tools=conversation.tools,
            can_use_tool=self._permit,
            hooks=self._hooks(),
            include_partial_messages=True,
            # Without the preset the agent works with an empty system prompt.
            system_prompt={"type": "preset", "preset": "claude_code"},
            # A repository's own settings hold hooks that run at start; its .mcp.json names programs to start.
            setting_sources=["user", "project", "local"] if conversation.trusted else ["user"],
            strict_mcp_config=not conversation.trusted,
            extra_args={"append-system-prompt-file": str(conversation.advice)} if conversation.advice else {},
            # A path, not a dict: that one would be put on the command line, tokens included.
            mcp_servers=conversation.servers or {},
            max_buffer_size=LINE_BYTES,
            stderr=lambda line: self._stderr.append(_plain(line)),
            session_id=conversation.new_id,
            resume=conversation.resumed_id,
        )

    def _start_failure(self, error: Exception) -> AgentFailed:
        if isinstance(error, TimeoutError):
            return AgentFailed(f"Claude Code did not start within {CONNECT_LIMIT_S:g} s.")
        text = _plain(str(error))
        unknown = self._conversation.resumed_id is not None and "No conversation found" in " ".join(
            (text, *self._stderr)
        )
        exited = isinstance(error, sdk.ProcessError) and not unknown
        told = self._with_stderr(f"Claude Code could not be started: {text}")
        return AgentFailed(told, unknown_session=unknown, exited=exited)

    def _with_stderr(self, text: str) -> str:
        told = [line for line in self._stderr if line][-_TOLD_LINES:]
        return masked("\n".join([text, *told]), self._conversation.workdir)


def _plain(text: str) -> str:
    return _TERMINAL_COLOURS.sub("", text).strip()
