"""``python -m workers.runtime acp|claude|codex``: the process that talks to agents. Asyncio, one loop, one thread."""

import asyncio
import os
import sys
import time
from pathlib import Path

import msgspec

from termal.bus.aio import AioLoop
from termal.bus.client import Client
from termal.bus.loop import fault_logger
from termal.bus.server import Server
from termal.config import Config, ConfigRefused, read_config
from termal.home import find_home
from termal.log import Log
from termal.model.ids import new_instance_id
from termal.procs.death import worker_signals
from termal.wire.agent_operations import AGENTS_TROUBLE, TellTroubles
from termal.wire.codex_operations import CODEX_NEWS, CodexNews
from termal.wire.control import EXIT_INTERNAL, EXIT_OK, EXIT_USAGE, Stop
from termal.wire.errors import Busy, TermalError
from termal.wire.launch import Launch
from termal.wire.turns import Anything
from termal.worker.control import Control
from termal.worker.launched import launched
from termal.worker.stats import Stats
from workers.runtime.agents import Agents
from workers.runtime.bridge import bridge_of
from workers.runtime.claude_files import sweep
from workers.runtime.codex_news import News
from workers.runtime.place import Place
from workers.runtime.reporter import Link
from workers.runtime.service import Service
from workers.runtime.workspaces import Workspaces
from workers.runtime.write_locks import locks_of

KINDS = ("acp", "claude", "codex")
_CLOSE_SHARE = 0.3
"""Of the time for a stop, so much is kept for ending the agents' processes."""
_MARGIN_S = 0.2
STOPPING = Busy("the daemon is stopping; nothing was started", reason="stopping")


class Worker:
    """Made while the loop runs. `ended` is set when a stop was ordered and carried out."""

    def __init__(self, launch: Launch, config: Config, log: Log) -> None:
        self.ended = asyncio.Event()
        self._launch = launch
        self._log = log
        self._stats = Stats()
        self._loop = AioLoop(on_fault=fault_logger(log))
        self._deadline_s: float | None = None
        self._draining: asyncio.Task[None] | None = None
        self.control = Control(self._loop, launch.control_fd, on_stop=self._stop, on_reload=self._reload)
        self._state = Client(self._loop, launch.run_dir, "state", launch.name)
        place = Place(config, dict(os.environ), Path(launch.run_dir), launch.portable)
        self._agents = Agents(place, log, locks_of(self._state))
        link = Link(self._loop, self._state, f"{launch.name}/{new_instance_id()}", log)
        home = find_home(launch.home)
        self._workspaces = Workspaces(link, lambda: self._agents.place, home.root, home.worktrees, log)
        link.watches = self._workspaces
        self._service = Service(link, self._agents.make, self._stats, log, bridge_of(launch).added_to)
        if launch.name == "runtime-codex":
            self._agents.codex_news = News(self._loop, self._tell_news)
        self._service.starts.on_changed.append(self._tell_troubles)
        self._state.on_up.append(self._tell_troubles)
        self._server = Server(
            self._loop, launch.run_dir, launch.name, self._service.handlers, log=log, stats=self._stats
        )

    def serve(self) -> None:
        # Behind the role's lock: no other life of this worker uses them any more.
        swept = sweep(Path(self._launch.run_dir)) if self._launch.name == "runtime-claude" else 0
        if swept:
            self._log.info("worker.swept", files=swept)
        self.control.ready()
        self.control.boot_done()
        self.control.beat_with(self._stats, self._depth, self._facts)
        self._log.info("worker.ready", start=self._launch.start)

    def close(self) -> None:
        self._workspaces.close()
        self._server.close()
        self._state.close()
        self._loop.close()

    def _depth(self) -> int:
        return self._server.open_requests

    def _facts(self) -> dict[str, int | float | str | None]:
        return {
            "runningTurns": self._service.running_turns,
            "heldTurns": self._service.held_turns,
            "watchedFolders": self._workspaces.watched,
        }

    def _reload(self) -> None:
        try:
            config = read_config(find_home(self._launch.home).config)
        except ConfigRefused as error:
            # The old configuration stays: a running daemon does not end for a slip of the pen.
            self._log.warning("config.refused", error=str(error))
            return
        self._agents.place = msgspec.structs.replace(self._agents.place, config=config)
        self._service.starts.forgive_all()
        self._log.info("config.reloaded")

    def _tell_news(self, news: CodexNews) -> None:
        self._state.call(CODEX_NEWS, news, self._told)

    def _tell_troubles(self) -> None:
        self._state.call(AGENTS_TROUBLE, TellTroubles(self._launch.name, self._service.troubles), self._told)

    def _told(self, _: Anything | None, error: TermalError | None) -> None:
        if error is not None:
            self._log.warning("agents.untold", error=error.message)

    def _stop(self, order: Stop) -> None:
        self._deadline_s = order.deadline
        if self._draining is None:
            self._server.drain(STOPPING)
            self._draining = asyncio.create_task(self._drain())

    async def _drain(self) -> None:
        """Interrupt the turns, have their ends confirmed, end the agents; what time does not allow their shims do."""
        self._log.info("worker.draining", turns=self._service.running_turns)
        assert self._deadline_s is not None
        left_s = self._deadline_s - time.monotonic()
        try:
            async with asyncio.timeout(left_s * (1.0 - _CLOSE_SHARE)):
                await self._service.interrupt_all()
                await self._service.all_confirmed()
        except TimeoutError:
            self._log.warning("worker.unconfirmed", turns=self._service.held_turns)
        try:
            async with asyncio.timeout_at(self._deadline_s - _MARGIN_S):
                await self._service.close_all()
        except TimeoutError:
            self._log.warning("worker.cut_off")
        except Exception as error:  # noqa: BLE001 - the border of the process: what could not be ended dies with it
            self._log.error("worker.close_failed", error=repr(error))
        self.ended.set()


async def serve(launch: Launch, config: Config, log: Log) -> None:
    worker = Worker(launch, config, log)
    worker.serve()
    try:
        await worker.ended.wait()
    finally:
        worker.close()


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in KINDS:
        sys.stderr.write(f"usage: python -m workers.runtime {'|'.join(KINDS)} (started by the supervisor)\n")
        return EXIT_USAGE
    launch = launched(os.environ, worker_signals)
    if launch is None:
        return EXIT_USAGE
    home = find_home(launch.home)
    log = Log(launch.name, home.log(launch.name))
    try:
        asyncio.run(serve(launch, read_config(home.config), log))
    except ConfigRefused as error:
        log.error("worker.refused", error=str(error))  # noqa: TRY400 - a sentence for a person, not a fault
        sys.stderr.write(f"{error}\n")
        return EXIT_USAGE
    except Exception as error:  # noqa: BLE001 - the outermost frame: logged, and the supervisor starts a new one
        return _fail(log, error)
    log.info("worker.stopped")
    return EXIT_OK


def _fail(log: Log, error: Exception) -> int:
    import traceback  # noqa: PLC0415 - only when something is wrong

    text = "".join(traceback.format_exception(error))
    log.error("worker.failed", error=repr(error), stack=text)
    sys.stderr.write(text)
    return EXIT_INTERNAL


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
