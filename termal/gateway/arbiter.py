"""The process that the supervisor knows: gunicorn's arbiter around one worker. It serves nothing and stays small.

It never imports the application; a worker that keeps dying is not its to judge: it gives up and the supervisor decides.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.errors import HaltServer

from termal.gateway.journal import GunicornJournal
from termal.gateway.settings import WORKER_GRACE_S, gunicorn_settings
from termal.log import Log
from termal.procs.death import tie_to_parent
from termal.wire.control import EXIT_INTERNAL
from termal.wire.launch import Launch

EXITS = 5
EXITS_S = 30.0
"""More exits of the worker than this in this time end the arbiter."""
WORKER_CLASS = "termal.gateway.worker.GatewayWorker"


class Exits:
    """Counts a worker's ends."""

    def __init__(self) -> None:
        self._at: deque[float] = deque(maxlen=EXITS)

    def too_many(self, now_s: float) -> bool:
        """Note an exit at ``now_s`` (monotonic); True when it was one of `EXITS` within `EXITS_S`."""
        self._at.append(now_s)
        return len(self._at) == EXITS and now_s - self._at[0] <= EXITS_S


class GatewayArbiter(Arbiter):  # type: ignore[misc]  # gunicorn has no types
    """Obeys SIGTERM and SIGQUIT alone: everything else that an arbiter does on a signal is the supervisor's affair."""

    stopping = False

    def setup(self, app: "GatewayApplication") -> None:
        self.log = app.journal
        super().setup(app)

    def stop(self, graceful: bool = True) -> None:
        self.stopping = True
        super().stop(graceful)

    def _ignored(self) -> None:
        """A terminal's Ctrl-C and hang-up reach the supervisor, which then tells us."""

    handle_hup = handle_int = handle_ttin = handle_ttou = handle_usr2 = handle_winch = _ignored


class GatewayApplication(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """Hands the settings and, in the worker, the application to gunicorn."""

    def __init__(self, launch: Launch, log: Log) -> None:
        self.launch = launch
        self.journal = GunicornJournal(log)
        self._exits = Exits()
        super().__init__()

    def load_config(self) -> None:
        hooks: dict[str, Callable[..., Any]] = {
            "post_fork": self._forked,
            "child_exit": self._worker_ended,
            # Its default would write a debug line per request.
            "pre_request": _nothing,
        }
        for name, value in gunicorn_settings(self.launch, WORKER_CLASS, hooks).items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        """Runs in the worker. Its imports cost 150 ms and 15 MiB, which the arbiter has no use for."""
        from termal.gateway.serve import load_app  # noqa: PLC0415

        app = load_app(self.launch)
        self.journal.log = app.gateway.log
        return app

    def run(self) -> None:
        GatewayArbiter(self).run()

    def _forked(self, _: Any, worker: Any) -> None:
        tie_to_parent(self.launch.control_fd, self.launch.portable)
        worker.cfg.set("graceful_timeout", WORKER_GRACE_S)

    def _worker_ended(self, arbiter: GatewayArbiter, worker: Any) -> None:
        if arbiter.stopping:
            return
        self.journal.log.warning("gateway.worker_ended", worker=worker.pid)
        if self._exits.too_many(time.monotonic()):
            raise HaltServer("the worker keeps ending", EXIT_INTERNAL)


def _nothing(worker: Any, request: Any) -> None:
    pass
