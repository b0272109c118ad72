"""What the resources of one gateway process share: its links to the workers, its event streams, its figures."""

import time
from pathlib import Path
from typing import TypeVar

from termal.bus.aio import AioLoop
from termal.bus.ask import ask
from termal.bus.client import Client
from termal.bus.loop import fault_logger
from termal.config import Config, ConfigRefused, read_config
from termal.gateway.hub import Hub
from termal.gateway.meters import Meters
from termal.home import Home
from termal.log import Log
from termal.wire.errors import TermalError, Unprocessable
from termal.wire.launch import Launch
from termal.wire.operation import Operation
from termal.worker.stats import Stats

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")

CALLER = "gateway"


class Gateway:
    """Made before the event loop runs; `open` makes the sockets, on the loop."""

    def __init__(self, launch: Launch, config: Config, log: Log) -> None:
        self.launch = launch
        self.home = Home(Path(launch.home))
        self.config = config
        self.log = log
        self.meters = Meters()
        self.stats = Stats()
        self.draining = False
        self._loop: AioLoop | None = None
        self._hub: Hub | None = None
        self._clients: dict[str, Client] = {}

    @property
    def loop(self) -> AioLoop:
        assert self._loop is not None
        return self._loop

    @property
    def hub(self) -> Hub:
        assert self._hub is not None
        return self._hub

    def open(self) -> None:
        """Connect to the workers; called on the running loop, once."""
        self._loop = AioLoop(on_fault=fault_logger(self.log))
        self._hub = Hub(
            self._loop, self.launch.run_dir, self.client("state"), self.log, limit=self.config.max_event_streams
        )
        for worker in ("coordination", "wake"):
            self.client(worker)
        if self.draining:
            self._hub.drain()

    def drain(self) -> None:
        """End every event stream now and open none any more. Everything else is still answered."""
        self.draining = True
        if self._hub is not None:
            self._hub.drain()

    def close(self) -> None:
        """Drop every link; a second time does nothing."""
        if self._hub is not None:
            self._hub.close()
        for client in self._clients.values():
            client.close()
        if self._loop is not None:
            self._loop.close()
        self._hub, self._loop = None, None
        self._clients.clear()

    def reload(self) -> None:
        """Read the configuration again; a wrong one changes nothing."""
        try:
            self.config = read_config(self.home.config)
        except ConfigRefused as error:
            self.log.warning("config.refused", error=str(error))
            return
        self.log.info("config.reloaded")
        self.hub.limit = self.config.max_event_streams

    def client(self, worker: str) -> Client:
        """The link to ``worker``, made at its first use and kept: a worker that is away is simply not up."""
        client = self._clients.get(worker)
        if client is None:
            client = self._clients[worker] = Client(self.loop, self.launch.run_dir, worker, CALLER)
        return client

    def is_up(self, worker: str) -> bool:
        return self.client(worker).up

    async def ask(
        self,
        worker: str,
        op: Operation[RequestT, ReplyT],
        request: RequestT,
        *,
        trace: str,
        timeout_s: float | None = None,
        absent_s: float | None = None,
    ) -> ReplyT:
        """The worker's reply, within the operation's own time or ``timeout_s``. Raises its `TermalError`."""
        started_s = time.monotonic()
        deadline_s = None if timeout_s is None else started_s + timeout_s
        outcome = "ok"
        try:
            return await ask(self.client(worker), op, request, trace=trace, deadline_s=deadline_s, absent_s=absent_s)
        except TermalError as error:
            outcome = error.code
            raise
        except OverflowError as error:
            # JSON has numbers of any size, the bus has 64 bits.
            outcome = Unprocessable.code
            raise Unprocessable("a number of the body is beyond 64 bits", reason="number") from error
        finally:
            self.meters.operation(op.name, outcome, time.monotonic() - started_s)
