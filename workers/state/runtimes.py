"""The links to the runtime workers: made on first use, their workers started through the supervisor."""

from collections.abc import Callable, Sequence

from termal.bus.client import Client
from termal.bus.loop import Loop
from workers.state.troubles import Troubles

PREFIX = "runtime-"


class Runtimes:
    """``need`` asks the supervisor for a worker; ``on_down`` learns that one that was there ended, and which."""

    def __init__(self, loop: Loop, run_dir: str, running: Sequence[str], *, need: Callable[[str], None]) -> None:
        self.on_down: list[Callable[[str], None]] = []
        self.running = {name for name in running if name.startswith(PREFIX)}
        self.troubles = Troubles(loop)
        self._loop = loop
        self._run_dir = run_dir
        self._need = need
        self._clients: dict[str, Client] = {}

    def client(self, worker: str) -> Client:
        """The link to ``worker``, which may not be there."""
        client = self._clients.get(worker)
        if client is None:
            client = self._clients[worker] = Client(self._loop, self._run_dir, worker, "state")
            client.on_down.append(lambda: self._ended(worker))
        return client

    def _ended(self, worker: str) -> None:
        self.troubles.forget(worker)
        for hook in self.on_down:
            hook(worker)

    def wanted(self, worker: str) -> Client:
        """The same, and the supervisor is told to start it unless it is there."""
        client = self.client(worker)
        if not client.up:
            self._need(worker)
        return client

    def up(self) -> list[Client]:
        return [client for client in self._clients.values() if client.up]

    def peers(self, names: Sequence[str]) -> None:
        self.running = {name for name in names if name.startswith(PREFIX)}
        # One that ended before the link to it was there is not heard to end.
        self.troubles.keep(self.running)

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
