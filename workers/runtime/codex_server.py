"""The one Codex app-server of this worker: started on first use, shared by all threads, ended with the last of them.

A process and an attachment (one start or resume of a thread in it) have identities of their own: what belongs to an
older attachment reaches nobody, and what no attachment waits for is refused.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Protocol

from termal import __version__
from termal.config import AgentConfig
from termal.procs.agent import shim_argv
from termal.procs.agents import find_command, readiness
from termal.procs.environment import agent_environment, config_of
from termal.wire.launch import MARK_VARIABLE
from workers.runtime.adapter import AgentFailed
from workers.runtime.codex_models import Models, read_models
from workers.runtime.codex_settings import workspace_settings
from workers.runtime.lines import EXIT_S, JsonLines, NoAnswer, Refused
from workers.runtime.place import Place

INITIALIZE_S = 30.0
OPEN_S = 60.0
"""Starting a thread may wait for what the user has configured."""
FACT_S = 10.0
UNLOAD_S = 2.0
CLEAN_S = 2.0
STARTUP = "mcpServer/startupStatus/updated"
EARLY_THREADS = 100
_METHOD_NOT_FOUND = -32601
_COMMAND = "app-server"
NAME = "Codex"

Json = dict[str, Any]


class Journal(Protocol):
    """Takes log lines (`termal.log.Log`)."""

    def info(self, event: str, **keys: Any) -> None: ...
    def warning(self, event: str, **keys: Any) -> None: ...
    def repeating(self, event: str, **keys: Any) -> None: ...


class Thread(Protocol):
    """Who listens to one thread."""

    def told(self, method: str, params: Json) -> None: ...
    def asked(self, request: object, method: str, params: Json) -> None: ...
    def gone(self, reason: str) -> None: ...


class Attachment:
    """A thread as one start or resume of it is known to one process. ``number`` grows with every one of them."""

    def __init__(self, process: "AppServer", number: int, thread_id: str, listener: Thread) -> None:
        self.process = process
        self.number = number
        self.thread_id = thread_id
        self.listener = listener

    @property
    def live(self) -> bool:
        return self.process.lines.alive and self.process.threads.get(self.thread_id) is self

    def cut(self, turn_id: str) -> None:
        """Interrupt without waiting: an interrupt of a turn that was interrupted before is never answered."""
        self.process.lines.call("turn/interrupt", {"threadId": self.thread_id, "turnId": turn_id}, _ignore)

    async def clean(self) -> None:
        """End the commands, which outlive an interrupt; their ends are reported while this is carried out."""
        if self.process.lines.alive:
            with contextlib.suppress(Refused, NoAnswer):
                params = {"threadId": self.thread_id}
                await self.process.lines.request("thread/backgroundTerminals/clean", params, CLEAN_S)


class AppServer:
    """One process. ``threads`` are those that somebody listens to."""

    def __init__(self, log: Journal) -> None:
        self.lines = JsonLines(self, log, NAME, versioned=False)
        self.version = ""
        self.models = Models([], None, {})
        self.workspace: Json = {}
        self.own = AgentConfig()
        self.threads: dict[str, Attachment] = {}
        self._early: dict[str, list[Json]] = {}
        self._log = log
        self._holding: set[object] = set()
        self._attached = 0

    async def open(self, method: str, params: Json, listener: Thread) -> Attachment:
        """Start, resume or fork a thread and listen to it from its first word. Raises `Refused`, `NoAnswer`."""
        future: asyncio.Future[Attachment] = asyncio.get_running_loop().create_future()

        def answered(result: Any, error: Exception | None) -> None:
            thread = result.get("thread") if isinstance(result, dict) else None
            number = thread.get("id") if isinstance(thread, dict) else None
            if future.done():
                return
            if error is None and not isinstance(number, str):
                error = Refused(0, f"{method} was answered without a thread")
            if error is not None:
                future.set_exception(error)
                return
            future.set_result(self.attach(str(number), listener))

        self.lines.call(method, params, answered)
        try:
            async with asyncio.timeout(OPEN_S):
                return await future
        except TimeoutError:
            raise NoAnswer(f"no answer to {method} within {OPEN_S:g} s") from None

    def attach(self, thread_id: str, listener: Thread) -> Attachment:
        self._attached += 1
        attachment = Attachment(self, self._attached, thread_id, listener)
        self.threads[thread_id] = attachment
        for params in self._early.pop(thread_id, []):
            listener.told(STARTUP, params)
        self._early.clear()
        return attachment

    def detach(self, attachment: Attachment) -> None:
        """Nobody listens to it any more."""
        if self.threads.get(attachment.thread_id) is attachment:
            del self.threads[attachment.thread_id]

    def hold_back(self, who: object, held: bool) -> None:
        """Whoever is flooded slows down all: the process has one output for all its threads."""
        (self._holding.add if held else self._holding.discard)(who)
        self.lines.hold_back(bool(self._holding))

    async def unload(self, thread_id: str) -> None:
        """Have Codex end what a thread keeps running: its MCP servers and commands. Its history stays."""
        for method in ("thread/archive", "thread/unarchive"):
            # A thread without a turn has no history that could be put away.
            with contextlib.suppress(Refused, NoAnswer):
                await self.lines.request(method, {"threadId": thread_id}, UNLOAD_S)

    # ------------------------------------------------------------------------ start

    async def start(self, place: Place, folder: str) -> None:
        """Raises `AgentFailed` with nothing left running."""
        lines = self.lines
        self.own = config_of(NAME, place.config)
        try:
            await self._spawn(place, folder)
            answer = await lines.request(
                "initialize",
                {
                    "clientInfo": {"name": "termal", "title": "TermAl", "version": __version__},
                    "capabilities": {"experimentalApi": True},
                },
                INITIALIZE_S,
            )
            lines.notify("initialized", {})
            self.version = _version(answer)
            self.models = await read_models(lines)
            self.workspace = await self._workspace()
        except (Refused, NoAnswer, AgentFailed) as error:
            sentence = self._failure(error)
            await lines.stop()
            raise AgentFailed(sentence) from error
        except BaseException:
            await lines.stop()
            raise

    async def _spawn(self, place: Place, folder: str) -> None:
        command = find_command(NAME, place.config, place.environ)
        if command is None:
            raise AgentFailed(readiness(NAME, place.config, place.environ).detail)
        program = command.argv if _COMMAND in command.argv else [*command.argv, _COMMAND]
        environment = {**agent_environment(NAME, place.config, place.environ), MARK_VARIABLE: place.mark}
        try:
            await self.lines.start(
                shim_argv(program, grace_s=EXIT_S, portable=place.portable), folder=folder, environment=environment
            )
        except OSError as error:
            raise AgentFailed(f"{NAME} cannot be started: {error.strerror or error}") from error

    async def _workspace(self) -> Json:
        try:
            answer = await self.lines.request("config/read", {}, FACT_S)
        except Refused:
            return {}
        return workspace_settings(answer.get("config") if isinstance(answer, dict) else None)

    def _failure(self, error: Exception) -> str:
        lines = self.lines
        if isinstance(error, AgentFailed):
            return error.text
        if isinstance(error, Refused):
            return f"{NAME} refused to start: {error.message}"
        if lines.broke_rules:
            return lines.broke_rules
        if lines.has_exited:
            return with_last_words(f"the {NAME} process ended right after its start", lines)
        return with_last_words(f"{NAME} did not come up: {error}", lines)

    # ------------------------------------------------------ what comes from the process

    def told(self, method: str, params: Json) -> None:
        attachment = self.threads.get(str(params.get("threadId")))
        if attachment is not None:
            attachment.listener.told(method, params)
        elif method == STARTUP and len(self._early) < EARLY_THREADS:
            # Some of it comes before the answer that tells of the thread.
            self._early.setdefault(str(params.get("threadId")), []).append(params)

    def asked(self, request: object, method: str, params: Json) -> None:
        attachment = self.threads.get(str(params.get("threadId")))
        if attachment is not None:
            attachment.listener.asked(request, method, params)
        else:
            self._log.repeating("agent.refused_request", agent=NAME, method=method[:64])
            self.lines.refuse(request, _METHOD_NOT_FOUND, f"nobody here answers {method}")

    def gone(self, reason: str) -> None:
        sentence = reason or with_last_words(f"the {NAME} process ended before the turn did", self.lines)
        attachments, self.threads = list(self.threads.values()), {}
        for attachment in attachments:
            attachment.listener.gone(sentence)


class SharedCodex:
    """Hands out the running process, and ends it when nobody uses it. ``place`` is asked for at each start."""

    def __init__(self, place: Callable[[], Place], log: Journal) -> None:
        self._place = place
        self._log = log
        self._process: AppServer | None = None
        self._starting = asyncio.Lock()
        self._users: set[object] = set()
        self._ends: set[asyncio.Task[None]] = set()

    async def use(self, who: object) -> AppServer:
        """The process, started unless it runs; it lives at least until ``who`` leaves. Raises `AgentFailed`."""
        self._users.add(who)
        async with self._starting:
            if self._process is not None and self._process.lines.alive:
                return self._process
            if self._process is not None:
                await self.end(self._process)
            for ending in [*self._ends]:
                # A thread has one writer: the next process would be refused while the old one is there.
                await asyncio.wait([ending])
            place = self._place()
            process = AppServer(self._log)
            try:
                await process.start(place, str(place.run_dir))
            except BaseException:
                self._users.discard(who)
                raise
            self._process = process
            self._log.info("codex.started", pid=process.lines.pid, version=process.version)
            return process

    async def leave(self, who: object) -> bool:
        """``who`` needs it no more; True: it was the last one, and the process has ended."""
        self._users.discard(who)
        # Whoever leaves in the same moment has left then.
        await asyncio.sleep(0)
        if self._users or self._process is None:
            for ending in [*self._ends] if not self._users else []:
                await asyncio.wait([ending])
            return not self._users
        process, self._process = self._process, None
        await self.end(process)
        return True

    async def end(self, process: AppServer) -> None:
        """Stop ``process`` whoever uses it; a start waits for its end."""
        if self._process is process:
            self._process = None
        task = asyncio.create_task(process.lines.stop())
        self._ends.add(task)
        task.add_done_callback(self._ends.discard)
        await asyncio.shield(task)


def with_last_words(sentence: str, lines: JsonLines) -> str:
    words = lines.last_words()
    return f"{sentence}: {words}" if words else sentence


def _version(answer: object) -> str:
    agent = answer.get("userAgent") if isinstance(answer, dict) else None
    return agent.split(" ")[0].rpartition("/")[2] if isinstance(agent, str) else ""


def _ignore(_: object, __: Exception | None) -> None:
    """An answer that changes nothing."""
