"""The adapter of Codex: one thread of the shared app-server, one prompt at a time.

A prompt during a turn would change that turn's course: whoever calls waits for the end of one before the next.
"""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from termal.bridge.descriptor import SERVER
from termal.wire.session_operations import PromptImage
from termal.wire.thread_operations import CALL_S, ThreadCommand, ThreadDone
from termal.wire.turns import Notice, SessionSpec
from workers.runtime import codex_threads
from workers.runtime.adapter import AgentFailed, CommandRefused, Emit, Started
from workers.runtime.bridge import NO_BRIDGE
from workers.runtime.codex_asking import Asking
from workers.runtime.codex_below import SubAgent
from workers.runtime.codex_delivery import Delivery, turn_id
from workers.runtime.codex_doubts import Doubts
from workers.runtime.codex_server import NAME, STARTUP, AppServer, Attachment, Journal, SharedCodex
from workers.runtime.codex_settings import thread_params, turn_params
from workers.runtime.codex_startups import Startups
from workers.runtime.codex_turn import CodexTurn
from workers.runtime.lines import METHOD_NOT_FOUND, NoAnswer, Refused
from workers.runtime.write_locks import IsLocked

NAME_S = 2.0
END_S = 4.0
"""A turn that has not ended this long after an interrupt is given up, and its thread with it."""
COMMANDS_S = 0.5
"""After they were cleaned up, the ends of commands are told within a moment."""
ALIVE_S = 2.0
"""A process that does not answer a question this simple does not answer any."""
COMPACT_S = 300.0
"""How long a prompt waits for the end of a compaction."""
FRESH_NOTE = "Codex does not know the earlier conversation any more. This is a new one: it remembers nothing of it."
_GONE = "no rollout found"
_MALFORMED = "invalid session id"

Json = dict[str, Any]


class CodexAdapter:
    """An `Adapter` that `HoldsBack`, `TakesAnswers` and `HasThreads`."""

    def __init__(self, codex: SharedCodex, log: Journal, is_locked: IsLocked) -> None:
        self._doubts = Doubts(is_locked)
        self._asking_person = Asking(self._doubts)
        self._codex = codex
        self._log = log
        self._spec: SessionSpec | None = None
        self._process: AppServer | None = None
        self._attachment: Attachment | None = None
        self._turn: CodexTurn | None = None
        self._compacting: CodexTurn | None = None
        self._startups = Startups(())

    @property
    def pid(self) -> int | None:
        return self._process.lines.pid if self._process is not None else None

    @property
    def alive(self) -> bool:
        return self._attachment is not None and self._attachment.live

    # ------------------------------------------------------------------------ start

    async def start(self, spec: SessionSpec) -> Started:
        """Begin or resume the thread. One that Codex does not know is replaced by a fresh one, which the note says."""
        try:
            return await self._start(spec)
        except BaseException:
            await self._leave()
            raise

    async def _start(self, spec: SessionSpec) -> Started:
        _need_folder(spec.workdir)
        process = self._process = await self._codex.use(self)
        self._spec = spec
        self._startups = Startups(server.name for server in spec.mcp_servers)
        note = ""
        try:
            attachment = await self._resumed(process, spec) if spec.external_session_id else None
            if attachment is None:
                note = FRESH_NOTE if spec.external_session_id else ""
                attachment = await process.open("thread/start", thread_params(spec, process.own), self)
        except (Refused, NoAnswer) as error:
            raise AgentFailed(self._sentence(process, error)) from error
        self._attachment = attachment
        models = process.models
        return Started(
            external_session_id=attachment.thread_id,
            version=process.version,
            models=models.options,
            current_model=models.current,
            note=note,
            details=models.details,
        )

    async def _resumed(self, process: AppServer, spec: SessionSpec) -> Attachment | None:
        """None: Codex has no such thread."""
        params = {"threadId": spec.external_session_id, "excludeTurns": True, **thread_params(spec, process.own)}
        try:
            return await process.open("thread/resume", params, self)
        except Refused as error:
            if _GONE in error.message or _MALFORMED in error.message:
                return None
            raise

    def _sentence(self, process: AppServer, error: Exception) -> str:
        if isinstance(error, Refused):
            return f"{NAME} refuses: {error.message}"
        return process.lines.broke_rules or f"{NAME} did not begin the conversation: {error}"

    # ------------------------------------------------------------------------- turn

    async def prompt(self, text: str, images: list[PromptImage], emit: Emit) -> None:
        """Raises `AgentFailed` when Codex did not take the prompt; the turn then has no end of its own."""
        attachment, spec = self._attachment, self._spec
        if attachment is None or spec is None or not attachment.live or self._turn is not None:
            raise AgentFailed(f"{NAME} cannot take a prompt now")
        await self._compacted()
        await self._startups.settled()
        if not attachment.live:
            raise AgentFailed(f"the {NAME} process ended before it took the prompt")
        if spec.submits_review and (reason := self._startups.why(SERVER)) is not None:
            raise AgentFailed(f"{reason} {NO_BRIDGE}")
        process = attachment.process
        turn = CodexTurn(emit, folder=spec.workdir, unknown=self._unknown)
        self._turn = turn
        while self._startups.failures:
            turn.tell(Notice(self._startups.failures.pop(0)))
        params = turn_params(spec, text, images, process.workspace, process.models.details)
        try:
            await Delivery(attachment, turn).made(params)
        except AgentFailed:
            self._turn = None
            raise

    async def _compacted(self) -> None:
        """A compaction is a turn of Codex itself, which a prompt must not run into."""
        if self._compacting is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(COMPACT_S):
                    await self._compacting.ended.wait()
            self._compacting = None

    async def interrupt(self) -> None:
        """Raises `AgentFailed` with `conversation_lost` when Codex did not end the turn though its process answers."""
        turn, attachment = self._turn, self._attachment
        if turn is None or attachment is None:
            return
        turn.stopping = True
        for event in turn.requests.withdraw_all():
            # Codex withdraws them itself, and ignores what it is told of them meanwhile.
            turn.tell(event)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(NAME_S):
                await turn.named.wait()
        attachment.cut(turn.id)
        try:
            async with asyncio.timeout(END_S):
                await turn.completed.wait()
        except TimeoutError:
            await self._give_up(attachment, turn)
            return
        await attachment.process.end_below(attachment)
        await attachment.clean()
        if attachment.live:
            await turn.commands_ended(COMMANDS_S)
        turn.finish()
        self._turn = None

    async def _give_up(self, attachment: Attachment, turn: CodexTurn) -> None:
        process = attachment.process
        try:
            await process.lines.request("thread/loaded/list", {}, ALIVE_S)
        except NoAnswer:
            self._log.warning("codex.hangs", pid=process.lines.pid)
            await self._codex.end(process)
            turn.end("interrupted")
            self._turn = None
            return
        except Refused:
            pass
        process.detach(attachment)
        turn.end("interrupted")
        self._turn = None
        raise AgentFailed(f"{NAME} did not end the turn", conversation_lost=True)

    async def answer(self, request: str, option: str) -> None:
        turn, process = self._asking()
        wire_id, result = turn.requests.answer(request, option)
        process.lines.answer(wire_id, result)

    async def answer_with(self, request: str, option: str, payload: bytes) -> None:
        turn, process = self._asking()
        wire_id, result = turn.requests.answer_with(request, option, payload)
        process.lines.answer(wire_id, result)

    def _asking(self) -> tuple[CodexTurn, AppServer]:
        turn, attachment = self._turn, self._attachment
        if turn is None or attachment is None or not attachment.live:
            raise AgentFailed("the request is not open any more")
        return turn, attachment.process

    async def apply(self, spec: SessionSpec) -> bool:
        """Most settings go with each turn; these belong to the thread as it was attached."""
        old, attachment = self._spec, self._attachment
        if old is None or attachment is None or not attachment.live:
            return False
        if (old.workdir, old.read_only, old.delegated, old.mcp_servers) != (
            spec.workdir,
            spec.read_only,
            spec.delegated,
            spec.mcp_servers,
        ) or spec.external_session_id not in (None, attachment.thread_id):
            return False
        self._spec = spec
        return True

    def hold_back(self, held: bool) -> None:
        if self._process is not None:
            self._process.hold_back(self, held)

    async def close(self) -> None:
        """Leave the app-server; what the thread still runs ends."""
        attachment, turn = self._attachment, self._turn
        self._attachment = self._turn = self._compacting = None
        if attachment is not None:
            attachment.process.detach(attachment)
            if turn is not None and turn.id:
                attachment.cut(turn.id)
        if turn is not None:
            turn.end("interrupted")
        if not await self._leave() and attachment is not None and attachment.process.lines.alive:
            await attachment.clean()
            await attachment.process.unload(attachment.thread_id)
            delegated = self._spec is not None and self._spec.delegated
            await attachment.process.end_leftovers(attachment.thread_id, delegated=delegated)

    async def _leave(self) -> bool:
        process, self._process = self._process, None
        if process is not None:
            process.hold_back(self, False)
        return await self._codex.leave(self)

    # ---------------------------------------------------------------------- threads

    async def thread(self, command: ThreadCommand, begun: Callable[[Started], None]) -> ThreadDone:
        """See `HasThreads`."""
        try:
            return await self._thread(command, begun)
        except Refused as error:
            raise CommandRefused(f"{NAME} refuses: {error.message}") from error
        except NoAnswer as error:
            raise AgentFailed(f"{NAME} did not answer: {error}") from error
        except codex_threads.Unusable as error:
            raise AgentFailed(str(error)) from error

    async def _thread(self, command: ThreadCommand, begun: Callable[[Started], None]) -> ThreadDone:
        spec = command.spec
        if command.action in ("archive", "unarchive"):
            process = self._process = await self._codex.use(self)
            self._detach()
            assert spec.external_session_id is not None
            await codex_threads.put_away(process, spec.external_session_id, away=command.action == "archive")
            return ThreadDone()
        if not await self.apply(spec):
            self._detach()
            started = await self.start(spec)
            begun(started)
            if started.note:
                raise CommandRefused("Codex does not know this thread any more")
        assert self._attachment is not None
        return await self._on_thread(self._attachment, command)

    def _detach(self) -> None:
        attachment, self._attachment = self._attachment, None
        if attachment is not None:
            attachment.process.detach(attachment)

    async def _on_thread(self, attachment: Attachment, command: ThreadCommand) -> ThreadDone:
        thread_id = attachment.thread_id
        await self._compacted()
        if command.action != "compact":
            return await codex_threads.carry_out(attachment.process, thread_id, command)
        turn = self._compacting = CodexTurn(lambda _: None, folder=command.spec.workdir, unknown=self._unknown)
        try:
            await attachment.process.lines.request("thread/compact/start", {"threadId": thread_id}, CALL_S)
        except (Refused, NoAnswer):
            turn.end("failed")
            raise
        return ThreadDone()

    # ------------------------------------------------------ what comes from the process

    def told(self, method: str, params: Json) -> None:
        if method == STARTUP:
            self._startups.told(params)
            self._check_bridge()
            return
        turn = self._turn or self._compacting
        if turn is None:
            return
        if method == "serverRequest/resolved":
            self.resolved(params.get("requestId"))
            return
        number = turn_id(params) or str(params.get("turnId") or "")
        if method == "turn/started" and number:
            turn.name(number)
        if number and number != turn.id:
            return
        if number or method == "warning":
            turn.told(method, params)
        if turn.ended.is_set() and self._turn is turn:
            self._turn = None

    def _check_bridge(self) -> None:
        """A required review that cannot be submitted ends at once: whoever waits for it would wait in vain."""
        turn, attachment, spec = self._turn, self._attachment, self._spec
        reason = self._startups.why(SERVER)
        if turn is None or attachment is None or spec is None or not spec.submits_review or reason is None:
            return
        self._turn = None
        attachment.process.detach(attachment)
        if turn.id:
            attachment.cut(turn.id)
        turn.end("failed", f"{reason} {NO_BRIDGE}")

    def asked(self, request: object, method: str, params: Json) -> None:
        turn, number = self._turn, params.get("turnId")
        fits = turn is not None and number in (None, turn.id)
        self.asked_below(request, method, params, turn if fits else None)

    def asked_below(self, request: object, method: str, params: Json, there: CodexTurn | None) -> None:
        """``there``: the turn that asks, of this thread or of a sub-agent's; None for one that does not run."""
        turn, attachment, spec = self._turn, self._attachment, self._spec
        if attachment is None:
            return
        lines = attachment.process.lines
        if turn is None or there is None or spec is None or turn.stopping:
            lines.refuse(request, METHOD_NOT_FOUND, "no turn runs here that could ask")
            return
        self._asking_person.ask(request, method, params, spec=spec, lines=lines, turn=turn, there=there)

    def resolved(self, request: object) -> None:
        """Codex does not wait for an answer any more."""
        self._doubts.forget(request)
        if self._turn is not None:
            for event in self._turn.requests.resolved(request):
                self._turn.tell(event)

    @property
    def running(self) -> str:
        return "" if self._turn is None else self._turn.id

    def sub_agent(self, root_turn: str) -> SubAgent | None:
        turn, spec = self._turn, self._spec
        if turn is None or spec is None or turn.id != root_turn:
            return None
        return SubAgent(self, spec.workdir, self._unknown)

    def gone(self, reason: str) -> None:
        if self._compacting is not None:
            self._compacting.end("lost")
        turn, self._turn = self._turn, None
        if turn is None:
            return
        turn.named.set()
        turn.end("interrupted") if turn.stopping else turn.end("lost", reason)

    def _unknown(self, kind: str) -> None:
        self._log.repeating("agent.unknown_update", agent=NAME, kind=kind[:64])


def _need_folder(folder: str) -> None:
    if not Path(folder).is_dir():
        raise AgentFailed(f"the folder of the session is not there: {folder}")
