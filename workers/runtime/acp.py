"""One conversation with one ACP agent over its standard input and output: process, prompt, permissions, cancel, end.

Holds no turn's history and no queue; every turn that it takes ends exactly once, whatever the process does.
"""

import asyncio
import base64
from pathlib import Path
from typing import Any, Protocol

from termal import __version__
from termal.procs.agent import shim_argv
from termal.procs.agents import find_command, readiness
from termal.procs.environment import agent_environment, config_of
from termal.wire.session_operations import PromptImage
from termal.wire.turns import (
    ApprovalAsked,
    ApprovalWithdrawn,
    ModesKnown,
    Notice,
    SessionSpec,
    TurnEnded,
    TurnOutcome,
)
from workers.runtime.acp_agents import AcpAgent, acp_agent
from workers.runtime.acp_load_times import LoadTimes
from workers.runtime.acp_permissions import Permissions, leaves_mode, may_commit, offered_options, once_only
from workers.runtime.acp_session import AcpSession
from workers.runtime.acp_updates import Updates, usage_of
from workers.runtime.adapter import AgentFailed, Emit, Started
from workers.runtime.json_values import records
from workers.runtime.lines import EXIT_S, METHOD_NOT_FOUND, JsonLines, NoAnswer, Refused
from workers.runtime.place import Place
from workers.runtime.repository import is_closed

PROTOCOL_VERSION = 1
INITIALIZE_S = 30.0
SIGN_IN_S = 15.0
CANCEL_S = 2.0
"""An agent that has not ended its turn this long after a cancel is ended itself."""
_STOPS = {
    "max_tokens": "{agent} stopped: the answer reached its longest length.",
    "max_turn_requests": "{agent} stopped: the turn reached its largest number of steps.",
}


class Journal(Protocol):
    """Takes log lines (`termal.log.Log`)."""

    def warning(self, event: str, **keys: Any) -> None: ...
    def repeating(self, event: str, **keys: Any) -> None: ...


_FOREIGN = "{agent} runs code that its folder or one above holds ({file}), though it is told not to."


class _Turn:
    def __init__(self, agent: AcpAgent, emit: Emit, updates: Updates) -> None:
        self.emit = emit
        self.updates = updates
        self.permissions = Permissions(in_order=agent.answers_in_order)
        self.cancelled = False
        self.over = asyncio.Event()


class AcpAdapter:
    """An `Adapter` that `HoldsBack` and `HasModes`."""

    def __init__(self, name: str, place: Place, times: LoadTimes, log: Journal) -> None:
        self._name = name
        self._place = place
        self._times = times
        self._log = log
        self._spec: SessionSpec | None = None
        self._lines: JsonLines | None = None
        self._session: AcpSession | None = None
        self._agent = AcpAgent(name=name)
        self._takes_images = False
        self._turn: _Turn | None = None

    @property
    def pid(self) -> int | None:
        return self._lines.pid if self._lines is not None else None

    @property
    def alive(self) -> bool:
        return self._lines is not None and self._lines.alive and self._session is not None

    @property
    def modes(self) -> ModesKnown | None:
        return self._session.modes if self._session is not None and self.alive else None

    # --------------------------------------------------------------------- start

    async def start(self, spec: SessionSpec) -> Started:
        self._spec = spec
        lines = self._lines = JsonLines(self, self._log, self._name)
        try:
            await self._spawn(lines, spec)
            version, capabilities = await self._initialize(lines)
            session = AcpSession(self._agent, capabilities, lines.request, self._times)
            await session.open(spec)
        except (Refused, NoAnswer, AgentFailed) as error:
            sentence, exited = self._start_failure(lines, error), lines.has_exited
            await lines.stop()
            raise AgentFailed(sentence, exited=exited) from error
        self._session = session
        warning = _FOREIGN.format(agent=self._name, file=self._agent.foreign_code) if self._agent.foreign_code else ""
        note = " ".join(text for text in (session.note, warning) if text)
        return Started(session.id, version, session.models, session.current_model, note)

    async def _spawn(self, lines: JsonLines, spec: SessionSpec) -> None:
        place = self._place
        command = find_command(self._name, place.config, place.environ)
        if command is None:
            raise AgentFailed(readiness(self._name, place.config, place.environ).detail)
        _need_folder(spec.workdir)
        environment = agent_environment(self._name, place.config, place.environ)
        agent = self._agent = acp_agent(self._name, config_of(self._name, place.config), spec, environment)
        if agent.foreign_code and is_closed(spec):
            raise AgentFailed(_FOREIGN.format(agent=self._name, file=agent.foreign_code) + " It was not started.")
        program = [word for word in command.argv if word not in agent.unwanted]
        try:
            await lines.start(
                shim_argv(program, grace_s=EXIT_S, portable=place.portable),
                folder=spec.workdir,
                environment={**environment, **agent.environment},
            )
        except OSError as error:
            raise AgentFailed(f"{self._name} cannot be started: {error.strerror or error}") from error

    async def _initialize(self, lines: JsonLines) -> tuple[str, dict[str, Any]]:
        """The agent's version and capabilities."""
        answer = await lines.request(
            "initialize",
            {
                "protocolVersion": PROTOCOL_VERSION,
                "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False},
                "clientInfo": {"name": "termal", "version": __version__},
            },
            INITIALIZE_S,
        )
        answer = answer if isinstance(answer, dict) else {}
        if answer.get("protocolVersion") != PROTOCOL_VERSION:
            raise AgentFailed(
                f"{self._name} speaks another version of the agent protocol ({answer.get('protocolVersion')!r})"
            )
        info, capabilities = answer.get("agentInfo"), answer.get("agentCapabilities")
        capabilities = capabilities if isinstance(capabilities, dict) else {}
        await self._sign_in(lines, answer)
        prompts = capabilities.get("promptCapabilities")
        self._takes_images = isinstance(prompts, dict) and prompts.get("image") is True
        return str(info.get("version") or "") if isinstance(info, dict) else "", capabilities

    async def _sign_in(self, lines: JsonLines, initialized: dict[str, Any]) -> None:
        method = self._agent.auth_method
        if not any(offered.get("id") == method for offered in records(initialized.get("authMethods")) if method):
            return
        try:
            await lines.request("authenticate", {"methodId": method}, SIGN_IN_S)
        except Refused as error:
            raise AgentFailed(f"{self._name} is not signed in: {_sentence(error)}") from error
        except NoAnswer as error:
            if lines.alive:
                # It waits for somebody at a browser.
                raise AgentFailed(f"{self._name} is not signed in: sign in with its own program first") from error
            raise

    def _start_failure(self, lines: JsonLines, error: Exception) -> str:
        if isinstance(error, AgentFailed):
            return error.text
        if isinstance(error, Refused):
            return f"{self._name} refused to start: {_sentence(error)}"
        if lines.broke_rules:
            return lines.broke_rules
        if lines.has_exited:
            return _with_last_words(f"the {self._name} process ended right after its start", lines)
        return _with_last_words(f"{self._name} did not come up: {error}", lines)

    # ---------------------------------------------------------------------- turn

    async def prompt(self, text: str, images: list[PromptImage], emit: Emit) -> None:
        if self._lines is None or self._session is None or self._spec is None or not self._lines.alive:
            raise AgentFailed(f"the {self._name} process is not running")
        if images and not self._takes_images:
            raise AgentFailed(f"{self._name} takes no images")
        blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
        blocks += [
            {"type": "image", "mimeType": image.media_type, "data": base64.b64encode(image.data).decode()}
            for image in images
        ]
        updates = Updates(self._agent, emit, folder=self._spec.workdir, on_unknown=self._unknown_update)
        self._turn = _Turn(self._agent, emit, updates)
        self._lines.call("session/prompt", {"sessionId": self._session.id, "prompt": blocks}, self._prompted)

    def _prompted(self, answer: Any, error: Exception | None) -> None:
        turn = self._turn
        if turn is None or isinstance(error, NoAnswer):
            # Without an answer the process is gone; `gone` comes next and says why.
            return
        if isinstance(error, Refused):
            self._end("interrupted" if turn.cancelled else "failed", "" if turn.cancelled else _sentence(error))
            return
        answer = answer if isinstance(answer, dict) else {}
        usage = usage_of(answer)
        if usage is not None:
            turn.emit(usage)
        reason = answer.get("stopReason")
        if reason == "refusal":
            self._end("failed", f"{self._name} refused to go on")
            return
        if reason in _STOPS:
            turn.emit(Notice(_STOPS[reason].format(agent=self._name)))
        # Some agents end a cancelled turn as any other, for example between two tries at a provider in trouble.
        self._end("interrupted" if turn.cancelled or reason == "cancelled" else "completed")

    def _end(self, outcome: TurnOutcome, detail: str = "") -> None:
        turn, self._turn = self._turn, None
        if turn is None:
            return
        self._withdraw(turn)
        turn.updates.close("success" if outcome == "completed" else "error")
        turn.emit(TurnEnded(outcome, detail))
        turn.over.set()

    def _withdraw(self, turn: _Turn) -> None:
        for request in turn.permissions.withdraw_all():
            # Some agents do not end a cancelled turn before each of their questions has an answer.
            self._answer(request.wire_id, None)
            turn.emit(ApprovalWithdrawn(request.request))

    async def interrupt(self) -> None:
        turn = self._turn
        if turn is None or self._lines is None or self._session is None:
            return
        turn.cancelled = True
        self._lines.notify("session/cancel", {"sessionId": self._session.id})
        self._withdraw(turn)
        try:
            async with asyncio.timeout(CANCEL_S):
                await turn.over.wait()
        except TimeoutError:
            await self._lines.stop(patience_s=CANCEL_S / 2)
            self._end("interrupted")

    async def answer(self, request: str, option: str) -> None:
        if self._turn is None:
            raise AgentFailed("the request is not open any more")
        found, chosen = self._turn.permissions.take(request, option)
        self._answer(found.wire_id, chosen.id)
        if chosen.decision == "rejected":
            # Some agents say nothing more of a call that was refused.
            found.tool.end("error", "Refused.")

    def _answer(self, wire_id: object, option: str | None) -> None:
        outcome = {"outcome": "cancelled"} if option is None else {"outcome": "selected", "optionId": option}
        if self._lines is not None:
            self._lines.answer(wire_id, {"outcome": outcome})

    async def apply(self, spec: SessionSpec) -> bool:
        old = self._spec
        if old is None or self._session is None or not self.alive or _needs_new_process(old, spec, self._session.id):
            return False
        try:
            await self._session.settle(spec)
        except (Refused, NoAnswer) as error:
            text = f"{self._name} did not take over the session's settings: {error}"
            raise AgentFailed(text, unanswered=isinstance(error, NoAnswer)) from error
        self._spec = spec
        return True

    def hold_back(self, held: bool) -> None:
        if self._lines is not None:
            self._lines.hold_back(held)

    async def close(self) -> None:
        if self._lines is not None:
            await self._lines.stop()
        self._end("interrupted")

    # -------------------------------------------------- what comes from the process

    def told(self, method: str, params: dict[str, Any]) -> None:
        turn, update = self._turn, params.get("update")
        if method != "session/update" or self._session is None or not isinstance(update, dict):
            return
        if params.get("sessionId") != self._session.id:
            return
        changed = self._session.notice(update)
        if turn is not None:
            if changed and (modes := self._session.modes) is not None:
                turn.emit(modes)
            # What an agent repeats of an old conversation while it loads it is nobody's: no turn runs then.
            turn.updates.take(update)

    def asked(self, request: object, method: str, params: dict[str, Any]) -> None:
        if method != "session/request_permission":
            if self._lines is not None:
                self._lines.refuse(request, METHOD_NOT_FOUND, f"{method} is not offered")
            return
        turn, fields = self._turn, params.get("toolCall")
        if turn is None or turn.cancelled or not isinstance(fields, dict):
            self._answer(request, None)
            return
        tool = turn.updates.tool(fields)
        turn.updates.pause_text()
        options = offered_options(params.get("options"))
        if self._spec is not None and self._spec.read_only and leaves_mode(tool, fields):
            # Leaving the mode that keeps it from writing is not for a person to allow by a click.
            refusal = next((option.id for option in options if option.decision == "rejected"), None)
            self._answer(request, refusal)
            tool.end("error", "Refused: this session is read-only.")
            return
        if self._spec is not None and self._spec.delegated and may_commit(tool):
            options = once_only(options)
        opened = turn.permissions.open(request, options, tool)
        detail = "\n".join(change.unified() for change in tool.changes)
        title = tool.title or f"{self._name} asks for permission"
        turn.emit(ApprovalAsked(opened.request, title, tool.command, detail, opened.options))

    def gone(self, reason: str) -> None:
        turn = self._turn
        if turn is None or self._lines is None:
            return
        if turn.cancelled:
            self._end("interrupted")
        elif reason:
            self._end("failed", reason)
        else:
            self._end("lost", _with_last_words(f"the {self._name} process ended before the turn did", self._lines))

    def _unknown_update(self, kind: str) -> None:
        self._log.repeating("agent.unknown_update", agent=self._name, kind=kind[:64])


def _needs_new_process(old: SessionSpec, new: SessionSpec, conversation: str) -> bool:
    return (
        old.workdir != new.workdir
        or old.read_only != new.read_only
        or old.mcp_servers != new.mcp_servers
        or new.external_session_id not in (None, conversation)
    )


def _need_folder(folder: str) -> None:
    # What starts the agent would only say that there is no such file, and not which one.
    if not Path(folder).is_dir():
        raise AgentFailed(f"the folder of the session is not there: {folder}")


def _sentence(error: Refused) -> str:
    """What the agent says, with the details that some agents keep beside a message of no content."""
    details = error.data.get("details") if isinstance(error.data, dict) else None
    if isinstance(details, str) and details and details not in error.message:
        return f"{error.message}: {details}"
    return error.message


def _with_last_words(sentence: str, lines: JsonLines) -> str:
    words = lines.last_words()
    return f"{sentence}: {words}" if words else sentence
