"""The process that serves: gunicorn's asgi worker, with its own way to listen, to tell the supervisor, and to end.

What gunicorn's own does not: keep the long listen queue, end event streams at SIGTERM, refuse connections beyond a cap,
close idle ones at once, notice a stop between its ticks. A new gunicorn version passes the tests of this first.
"""

import asyncio
import contextlib
import faulthandler
import os
from typing import Any

from gunicorn.arbiter import Arbiter
from gunicorn.asgi.lifespan import LifespanManager
from gunicorn.workers.gasgi import ASGIWorker

from termal.gateway.connection import Connection
from termal.procs.limits import raise_descriptor_limit
from termal.procs.signals import HANG_UP, INTERRUPT, TERMINATE, send
from termal.wire.control import Stop
from termal.worker import garbage
from termal.worker.control import Control

TICK_S = 1.0
LINGER_S = 0.3
"""After a stop was asked for, new connections are still answered for this long: one that raced the signal is not left
hanging in the listen queue."""
STALLED_S = 1.0
"""An event stream whose client does not read cannot end in order; it is cut after this."""
POLL_S = 0.02
SPARE_DESCRIPTORS = 128
"""Kept out of the hands of clients: sockets of the bus, files, pipes."""


class GatewayWorker(ASGIWorker):  # type: ignore[misc]  # gunicorn has no types
    """``connections`` are the open ones, idle ones too."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.connections: set[Connection] = set()
        self._stop_asked = asyncio.Event()

    def load_wsgi(self) -> None:
        served = self.app.wsgi()
        self.gateway = served.gateway
        self.asgi = served.door
        descriptors = raise_descriptor_limit() - SPARE_DESCRIPTORS
        self.worker_connections = max(1, min(self.cfg.worker_connections, descriptors))

    def init_signals(self) -> None:
        super().init_signals()
        for number in (INTERRUPT, HANG_UP):
            self.loop.add_signal_handler(number, _nothing)
        # In place of gunicorn's handler, which a hanging loop would never run: the stacks go to stderr. Enabled
        # already in the arbiter, it would not take its signals back without being disabled first.
        faulthandler.disable()
        faulthandler.enable()

    def handle_exit_signal(self) -> None:
        super().handle_exit_signal()
        self.gateway.drain()
        self._stop_asked.set()

    def handle_quit_signal(self) -> None:
        super().handle_quit_signal()
        self._stop_asked.set()

    # --------------------------------------------------------------------- serving

    async def _serve(self) -> None:
        self.lifespan = LifespanManager(self.asgi, self.log, self.state)
        try:
            await self.lifespan.startup()
        except Exception as error:
            self.gateway.log.error("gateway.start_failed", error=str(error))  # noqa: TRY400
            raise SystemExit(Arbiter.WORKER_BOOT_ERROR) from error
        for listener in self.sockets:
            server = await self.loop.create_server(self._connect, sock=listener.sock, backlog=self.cfg.backlog)
            self.servers.append(server)
        self._announce()
        while self.alive and self.ppid == os.getppid():
            self.notify()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop_asked.wait(), TICK_S)
        await self._shutdown()

    def _connect(self) -> Connection:
        return Connection(self)

    def _announce(self) -> None:
        gateway, launch = self.gateway, self.gateway.launch
        self._control = Control(
            gateway.loop,
            launch.control_fd,
            on_stop=self._stop_ordered,
            on_reload=gateway.reload,
        )
        self._control.ready()
        self._control.boot_done()
        self._control.beat_with(gateway.stats, self._depth, self._facts)
        garbage.settle()
        gateway.log.info("gateway.serving", port=launch.port)

    def _stop_ordered(self, _: Stop) -> None:
        # The arbiter ends as a whole, this process with it; ending alone would only bring up the next one.
        self.gateway.drain()
        send(self.ppid, TERMINATE)

    def _depth(self) -> int:
        return int(self.gateway.meters.open_requests) - len(self.gateway.hub)

    def _facts(self) -> dict[str, int | float | str | None]:
        return {"connections": len(self.connections), "eventStreams": len(self.gateway.hub)}

    # ---------------------------------------------------------------------- ending

    async def _shutdown(self) -> None:
        """Ends in order within the graceful timeout; at once after SIGQUIT."""
        self.gateway.drain()
        deadline_s = self.loop.time() + self.cfg.graceful_timeout
        if not self._quick_shutdown:
            await self._while_busy(self.loop.time() + LINGER_S, at_least=True)
        for server in self.servers:
            server.close()
        if not self._quick_shutdown:
            await self._while_busy(self.loop.time() + STALLED_S - LINGER_S)
            for connection in [each for each in self.connections if each.stalled_stream]:
                connection.cut()
            await self._while_busy(deadline_s)
        if self.connections:
            self.gateway.log.warning("gateway.cut_off", connections=len(self.connections))
        await self.lifespan.shutdown()
        self.gateway.log.info("gateway.stopped")

    async def _while_busy(self, until_s: float, *, at_least: bool = False) -> None:
        """Until nobody is served any more or ``until_s`` (loop time) is over; idle connections are not waited for."""
        while self.loop.time() < until_s and not self._quick_shutdown:
            self.notify()
            if not at_least:
                for connection in [each for each in self.connections if each.idle]:
                    connection.end()
                if not self.connections:
                    return
            await asyncio.sleep(POLL_S)


def _nothing() -> None:
    pass
