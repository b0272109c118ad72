"""Wiring of the wake worker: its links to state and coordination, its operations. It owns no file."""

from termal.bus.client import Client
from termal.bus.server import Handler, Request
from termal.wire.coordination_operations import WAKE_FACTS, WAKE_PING
from termal.wire.facts import WorkerFacts
from termal.wire.turns import Anything
from termal.worker.process import Duties, Process


def start(process: Process) -> Duties:
    worker = Wake(process)
    process.serve(worker.handlers())
    worker.connect()
    return Duties(idle=lambda: True, close=worker.close, depth=worker.depth)


class Wake:
    """READY once both of its peers are there: nothing that it does can be done with one of them alone."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._links: list[Client] = []
        self._ready = False

    def handlers(self) -> dict[str, Handler]:
        return {WAKE_PING.name: self._ping, WAKE_FACTS.name: self._facts}

    def connect(self) -> None:
        launch = self._process.launch
        for peer in ("state", "coordination"):
            link = Client(self._process.loop, launch.run_dir, peer, launch.name)
            link.on_up.append(self._linked)
            self._links.append(link)

    def depth(self) -> int:
        return sum(link.pending for link in self._links)

    def close(self, _: float) -> None:
        for link in self._links:
            link.close()

    def _linked(self) -> None:
        if self._ready or not all(link.up for link in self._links):
            return
        self._ready = True
        self._process.control.ready()
        if self._process.launch.start == "boot":
            self._process.control.boot_done()

    @staticmethod
    def _ping(request: Request, _: Anything) -> None:
        request.reply(Anything())

    def _facts(self, request: Request, _: Anything) -> None:
        request.reply(WorkerFacts(self._process.stats.operations()))
