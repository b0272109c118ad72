"""Wiring of the wake worker: its links to state and coordination, its operations, its passes. It owns no file."""

from termal.bus.client import Client
from termal.bus.server import Handler, Request
from termal.wire.coordination_operations import WAKE_FACTS, WAKE_PING
from termal.wire.facts import WorkerFacts
from termal.wire.turns import Anything
from termal.wire.wake_operations import WAKE_NOTIFY
from termal.worker.patience import Patience
from termal.worker.process import Duties, Process
from workers.wake.boot_pass import BootPass
from workers.wake.late_pass import LatePass
from workers.wake.offers import Offers
from workers.wake.requests import Requests

PASS_S = 5.0
"""A boot pass that takes longer asks the supervisor for its patience, page by page."""


def start(process: Process) -> Duties:
    worker = Wake(process)
    process.serve(worker.handlers())
    return Duties(idle=lambda: worker.offers.open == 0, close=worker.close, depth=worker.depth)


class Wake:
    """READY once both of its peers are there, and at a start of the daemon once every unread mailbox has its wake.

    Its operations are served from the beginning: what state starts meanwhile must not wait for that.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._ready = False
        loop, launch, log = process.loop, process.launch, process.log
        self._state = Client(loop, launch.run_dir, "state", launch.name)
        self._coordination = Client(loop, launch.run_dir, "coordination", launch.name)
        self._links = (self._state, self._coordination)
        self._late = LatePass(loop, self._state, self._coordination, log)
        self.offers = Offers(loop, self._state, log, failed=self._late.soon)
        self._requests = Requests(self._state, self._coordination)
        for link in self._links:
            link.on_up.append(self._linked)

    def handlers(self) -> dict[str, Handler]:
        return {
            WAKE_PING.name: self._ping,
            WAKE_FACTS.name: self._facts,
            WAKE_NOTIFY.name: self.offers.notify,
            **self._requests.table(),
        }

    def depth(self) -> int:
        return sum(link.pending for link in self._links)

    def close(self, _: float) -> None:
        for link in self._links:
            link.close()

    def _linked(self) -> None:
        if not all(link.up for link in self._links):
            return
        if self._ready:
            self._late.now()
            return
        self._ready = True
        if self._process.launch.start == "boot":
            process = self._process
            boot = BootPass(
                process.loop,
                self._state,
                self._coordination,
                process.log,
                going_on=Patience(process.control.extend, "putting wakes into queues", after_s=PASS_S).ask,
                done=self._booted,
            )
            boot.begin()
            return
        self._process.control.ready()
        self._late.allow()
        self._late.now()

    def _booted(self, started: bool) -> None:
        """``started``: some session was at work before its mail was looked at, as in a late start of this worker."""
        self._process.control.ready()
        self._process.control.boot_done()
        self._late.allow()
        if started:
            self._late.now()

    @staticmethod
    def _ping(request: Request, _: Anything) -> None:
        request.reply(Anything())

    def _facts(self, request: Request, _: Anything) -> None:
        request.reply(WorkerFacts(self._process.stats.operations()))
