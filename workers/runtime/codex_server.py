"""The one Codex app-server of this worker: started on first use, shared by all threads, ended with the last of them.

A process and an attachment (one start or resume of a thread in it) have identities of their own: what belongs to an
older attachment reaches nobody, and what no attachment waits for is refused.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from termal import __version__
from termal.config import AgentConfig
from termal.procs.agent import shim_argv
from termal.procs.agents import find_command, readiness
from termal.procs.environment import agent_environment, config_of
from workers.runtime import codex_news
from workers.runtime.adapter import AgentFailed
from workers.runtime.codex_leftovers import end_leftovers
from workers.runtime.codex_models import Models, read_models
from workers.runtime.codex_settings import workspace_settings
from workers.runtime.lines import EXIT_S, METHOD_NOT_FOUND, JsonLines, NoAnswer, Refused
from workers.runtime.place import Place

INITIALIZE_S = 30.0
OPEN_S = 60.0
"""Starting a thread may wait for what the user has configured."""
FACT_S = 10.0
UNLOAD_S = 2.0
CLEAN_S = 2.0
STARTUP = "mcpServer/startupStatus/updated"
EARLY_THREADS = 100
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
    @property
    def running(self) -> str:
        """The id of its running turn, empty without one."""

    def sub_agent(self, root_turn: str) -> "Thread | None":
        """Who listens to the thread of a sub-agent that ``root_turn`` began; None when that is no turn of this one."""


class Attachment:
    """A thread as one start or resume of it is known to one process."""

    def __init__(
        self, process: "AppServer", thread_id: str, listener: Thread, above: "Attachment | None" = None
    ) -> None:
        """``above``: that of the session whose sub-agent works in the thread."""
        self.process = process
        self.thread_id = thread_id
        self.listener = listener
        self.above = above

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
        self.on_news: Callable[[str, Json], None] = _no_news
        self._environ: Mapping[str, str] = {}
        self._portable = False

    async def open(self, method: str, params: Json, listener: Thread) -> Attachment:
        """Start, resume or fork a thread and listen to it from its first word. Raises `Refused`, `NoAnswer`."""

        def attached(result: Any) -> Attachment:
            thread = result.get("thread") if isinstance(result, dict) else None
            number = thread.get("id") if isinstance(thread, dict) else None
            if not isinstance(number, str):
                raise Refused(0, f"{method} was answered without a thread")
            return self.attach(number, listener)

        attachment: Attachment = await self.lines.request(method, params, OPEN_S, attached)
        return attachment

    def attach(self, thread_id: str, listener: Thread) -> Attachment:
        attachment = Attachment(self, thread_id, listener)
        self.threads[thread_id] = attachment
        for params in self._early.pop(thread_id, []):
            listener.told(STARTUP, params)
        self._early.clear()
        return attachment

    def detach(self, attachment: Attachment) -> None:
        """Nobody listens to it any more, nor to its sub-agents."""
        if self.threads.get(attachment.thread_id) is attachment:
            del self.threads[attachment.thread_id]
        for one in self._cut_below(attachment):
            del self.threads[one.thread_id]

    async def end_below(self, attachment: Attachment) -> None:
        """Sub-agents work on when the turn that began them is interrupted: end their turns and commands too."""
        await asyncio.gather(*(one.clean() for one in self._cut_below(attachment)))

    def _cut_below(self, attachment: Attachment) -> list[Attachment]:
        below = [one for one in self.threads.values() if one.above is attachment]
        for one in below:
            if one.listener.running:
                one.cut(one.listener.running)
        return below

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

    async def end_leftovers(self, thread_id: str, *, delegated: bool) -> None:
        """End what commands of a thread, of a ``delegated`` session or not, left that Codex does not know any more."""
        ended = await end_leftovers(thread_id, self._environ, delegated=delegated, portable=self._portable)
        if ended:
            self._log.info("codex.leftovers", threadId=thread_id, ended=len(ended))

    # ------------------------------------------------------------------------ start

    async def start(self, place: Place, folder: str) -> None:
        """Raises `AgentFailed` with nothing left running."""
        lines = self.lines
        self._environ, self._portable = place.environ, place.portable
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
            sentence, exited = self._failure(error), lines.has_exited
            await lines.stop()
            raise AgentFailed(sentence, exited=exited) from error
        except BaseException:
            await lines.stop()
            raise

    async def _spawn(self, place: Place, folder: str) -> None:
        command = find_command(NAME, place.config, place.environ)
        if command is None:
            raise AgentFailed(readiness(NAME, place.config, place.environ).detail)
        program = command.argv if _COMMAND in command.argv else [*command.argv, _COMMAND]
        environment = agent_environment(NAME, place.config, place.environ)
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
        attachment = self.threads.get(str(params.get("threadId"))) or self._adopted(method, params)
        if attachment is not None:
            attachment.listener.told(method, params)
        elif method == STARTUP and len(self._early) < EARLY_THREADS:
            # Some of it comes before the answer that tells of the thread.
            self._early.setdefault(str(params.get("threadId")), []).append(params)
        elif method in codex_news.METHODS and params.get("threadId") is None:
            self.on_news(method, params)

    def _adopted(self, method: str, params: Json) -> Attachment | None:
        """A thread that nobody listens to begins a turn: that of a sub-agent, if the turn comes of a known one."""
        turn = params.get("turn")
        root = turn.get("rootTurnId") if method == "turn/started" and isinstance(turn, dict) else None
        if not isinstance(root, str):
            return None
        for above in self.threads.values():
            if (listener := above.listener.sub_agent(root)) is not None:
                number = str(params.get("threadId"))
                self.threads[number] = Attachment(self, number, listener, above)
                return self.threads[number]
        return None

    def asked(self, request: object, method: str, params: Json) -> None:
        attachment = self.threads.get(str(params.get("threadId")))
        if attachment is not None:
            attachment.listener.asked(request, method, params)
        else:
            self._log.repeating("agent.refused_request", agent=NAME, method=method[:64])
            self.lines.refuse(request, METHOD_NOT_FOUND, f"nobody here answers {method}")

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
        self._failures = 0
        self._failed: AgentFailed | None = None
        self.on_news: Callable[[str, Json], None] = _no_news
        self._ends: set[asyncio.Task[None]] = set()

    async def use(self, who: object) -> AppServer:
        """The process, started unless it runs; it lives at least until ``who`` leaves. Raises `AgentFailed`, and the
        same to all that waited for the start that failed."""
        self._users.add(who)
        failures = self._failures
        async with self._starting:
            if self._process is not None and self._process.lines.alive:
                return self._process
            if self._failed is not None and self._failures != failures:
                self._users.discard(who)
                raise AgentFailed(self._failed.text, exited=self._failed.exited)
            if self._process is not None:
                await self.end(self._process)
            for ending in [*self._ends]:
                # A thread has one writer: the next process would be refused while the old one is there.
                await asyncio.wait([ending])
            place = self._place()
            process = AppServer(self._log)
            process.on_news = self.on_news
            try:
                await process.start(place, str(place.run_dir))
            except BaseException as error:
                self._users.discard(who)
                if isinstance(error, AgentFailed):
                    # Not the error itself, which holds on to the process that ended.
                    self._failed = AgentFailed(error.text, exited=error.exited)
                    self._failures += 1
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


def _no_news(_: str, __: Json) -> None:
    """Nobody asked for it."""


def _ignore(_: object, __: Exception | None) -> None:
    """An answer that changes nothing."""
