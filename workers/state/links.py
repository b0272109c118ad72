"""The links to the other workers that own data: made when the first of their users needs them, then kept."""

from termal.bus.client import Client
from termal.bus.loop import Loop


class Links:
    def __init__(self, loop: Loop, run_dir: str) -> None:
        self._loop = loop
        self._run_dir = run_dir
        self._clients: dict[str, Client] = {}

    def to(self, worker: str) -> Client:
        """The link to ``worker``, which may not be there."""
        client = self._clients.get(worker)
        if client is None:
            client = self._clients[worker] = Client(self._loop, self._run_dir, worker, "state")
        return client

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
