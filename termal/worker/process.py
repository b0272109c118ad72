"""The life of a worker with a poll loop: from its launch over READY and heartbeats to an orderly stop or a refusal.

It knows nothing of what a worker does; each worker's ``__main__`` hands its own start to `main`.
"""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from termal.bus.loop import PollLoop, Timer, fault_logger
from termal.bus.server import Handler, Server
from termal.config import Config, ConfigRefused, read_config
from termal.home import Home, find_home
from termal.log import Log
from termal.procs.death import worker_signals
from termal.wire.control import EXIT_INTERNAL, EXIT_OK, EXIT_REFUSED, EXIT_USAGE, Go, Stop
from termal.wire.envelope import MalformedFrame
from termal.wire.errors import Busy
from termal.wire.launch import Launch
from termal.worker import garbage
from termal.worker.control import Control, Facts, no_facts
from termal.worker.launched import launched
from termal.worker.stats import Stats

_TICK_S = 0.02
_LONGEST_PASS_S = 60.0
_CLOSE_SHARE = 0.5
_CLOSE_S = 2.0
"""Of the time to stop, half is kept for closing (a writer that retries, a checkpoint), two seconds at most."""

_LAST_WORDS_S = 0.05

STOPPING = Busy("the daemon is stopping; nothing was written", reason="stopping")


def _ignore(_: object) -> None:
    pass


class Duties(NamedTuple):
    """What a worker gives to its process; everything runs on the loop's thread.

    ``idle``: nothing is under way, neither a request nor a write. ``close(deadline_s)`` ends everything, at the
    latest at that time (CLOCK_MONOTONIC); it runs once, with the loop still there and the server still bound.
    ``serving``: the daemon's port listens since now.
    ``depth`` and ``facts`` go into each heartbeat. ``reload`` gets a configuration that was read without fault.
    """

    idle: Callable[[], bool]
    close: Callable[[float], None]
    depth: Callable[[], int]
    drain: Callable[[], None] = lambda: None
    facts: Facts = no_facts
    peers: Callable[[Sequence[str]], None] = _ignore
    reload: Callable[[Config], None] = _ignore
    serving: Callable[[], None] = lambda: None


class Process:
    """What every worker starts from. A worker says `Control.ready` itself, from its start or later from the loop."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.home: Home = find_home(launch.home)
        self.log = Log(launch.name, self.home.log(launch.name))
        self.loop = PollLoop(self._faulted)
        self._report = fault_logger(self.log)
        self.ends_on_fault = False
        """Set by a worker whose memory must be what its file says: a callback that failed half-way leaves it neither
        as it was nor as it should be, and a new start reads the truth."""
        self.stats = Stats()
        self.control = Control(
            self.loop,
            launch.control_fd,
            on_stop=self._stop,
            on_go=self._go,
            on_peers=self._peers,
            on_reload=self._reload,
            on_serving=self._serving,
        )
        self.config = Config()
        self._may_begin = not launch.wait
        self.clean = False
        """Everything was closed as it should be."""
        self._server: Server | None = None
        self._duties: Duties | None = None
        self._deadline_s: float | None = None
        self._cut_at = 0.0
        self._idle_ticks = 0
        self._ticker: Timer | None = None

    def configure(self) -> None:
        """Raises `ConfigRefused`."""
        self.config = read_config(self.home.config)

    def wait_for_go(self) -> bool:
        """Return when the work may begin; False when a stop was ordered before that. The supervisor's end of the
        control line closing ends the process here as everywhere."""
        while not self._may_begin and self._deadline_s is None:
            self.loop.one_pass(_LONGEST_PASS_S)
        return self._deadline_s is None

    def serve(self, handlers: Mapping[str, Handler]) -> Server:
        """Take the role and bind its socket; nothing is received before the loop runs. Raises `RoleTaken`."""
        self._server = Server(
            self.loop, self.launch.run_dir, self.launch.name, handlers, log=self.log, stats=self.stats
        )
        return self._server

    def run(self, duties: Duties) -> None:
        """Heartbeats and the loop, until a stop was ordered and carried out."""
        self._duties = duties
        self.control.beat_with(self.stats, duties.depth, duties.facts)
        garbage.settle()
        self.loop.run()

    # --------------------------------------------------------------------- faults

    def _faulted(self, error: Exception) -> None:
        self._report(error)
        # What a peer sent wrong has changed nothing here.
        if self.ends_on_fault and not isinstance(error, MalformedFrame):
            sys.stderr.write(f"a callback failed: {error!r}\n")
            sys.stderr.flush()
            os._exit(EXIT_INTERNAL)

    def end_after_replies(self) -> None:
        """End the process as for a fault, once the replies of this pass have left it."""
        self.loop.on_flush(self._leave)

    @staticmethod
    def _leave() -> None:
        # After the server's own flush. A caller drops what it has not read when the connection ends, so it gets time
        # to; nothing new is received meanwhile, and whoever asked is served by the next life.
        time.sleep(_LAST_WORDS_S)
        os._exit(EXIT_INTERNAL)

    # --------------------------------------------------------------------- orders

    def _go(self, order: Go) -> None:
        if not self._may_begin:
            self._may_begin = True
            self.launch = msgspec.structs.replace(self.launch, start=order.start, running=order.running)

    def _peers(self, running: Sequence[str]) -> None:
        if self._duties is not None:
            self._duties.peers(running)

    def _serving(self) -> None:
        if self._duties is not None:
            self._duties.serving()

    def _reload(self) -> None:
        try:
            self.configure()
        except ConfigRefused as error:
            # The old configuration stays: a running daemon does not end for a slip of the pen.
            self.log.warning("config.refused", error=str(error))
            return
        self.log.info("config.reloaded")
        if self._duties is not None:
            self._duties.reload(self.config)

    def _stop(self, order: Stop) -> None:
        first = self._deadline_s is None
        left_s = order.deadline - time.monotonic()
        self._deadline_s = order.deadline
        self._cut_at = order.deadline - min(_CLOSE_S, left_s * _CLOSE_SHARE)
        if not first or self._duties is None:
            return
        self.log.info("worker.draining", secondsLeft=round(left_s, 3))
        if self._server is not None:
            self._server.drain(STOPPING)
        self._duties.drain()
        self._ticker = self.loop.every(_TICK_S, self._drained)

    def _drained(self) -> None:
        """Close after two idle ticks in a row: the last replies have then left with a pass of their own."""
        assert self._duties is not None
        assert self._deadline_s is not None
        assert self._ticker is not None
        open_requests = self._server.open_requests if self._server is not None else 0
        self._idle_ticks = 0 if open_requests or not self._duties.idle() else self._idle_ticks + 1
        if self._idle_ticks < 2 and time.monotonic() < self._cut_at:
            return
        if self._idle_ticks < 2:
            self.log.warning("worker.cut_off", openRequests=open_requests)
        self._ticker.cancel()
        try:
            self._duties.close(self._deadline_s)
            if self._server is not None:
                self._server.close()
            self.clean = True
        finally:
            self.loop.stop()


Start = Callable[[Process], Duties]


def main(start: Start, *, refusals: tuple[type[Exception], ...] = ()) -> int:
    """The exit code of a worker whose work ``start`` sets up.

    ``refusals`` are the exceptions of ``start`` that mean "not with this file": their text goes to the operator and
    the worker is not started again. Everything else that it raises is a fault, and worth another try.
    """
    launch = launched(os.environ, worker_signals)
    if launch is None:
        return EXIT_USAGE
    process = Process(launch)
    try:
        if not process.wait_for_go():
            return EXIT_OK
        process.configure()
        process.log.info("worker.started", start=process.launch.start)
        process.run(start(process))
    except ConfigRefused as error:
        return _refuse(process, error, EXIT_USAGE)
    except refusals as error:
        return _refuse(process, error, EXIT_REFUSED)
    except Exception as error:  # noqa: BLE001 - the outermost frame: logged, and the supervisor starts a new one
        return _fail(process, error)
    else:
        process.log.info("worker.stopped", clean=process.clean)
        return EXIT_OK if process.clean else EXIT_INTERNAL
    finally:
        process.log.close()
        process.loop.close()


def _refuse(process: Process, error: Exception, code: int) -> int:
    process.log.error("worker.refused", error=str(error))
    process.control.refused(str(error))
    return code


def _fail(process: Process, error: Exception) -> int:
    import traceback  # noqa: PLC0415 - only when something is wrong; it is slow to import

    text = "".join(traceback.format_exception(error))
    process.log.error("worker.failed", error=repr(error), stack=text)
    sys.stderr.write(text)
    return EXIT_INTERNAL
