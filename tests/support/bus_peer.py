"""A worker's side of the bus inside the test: a real server on a real loop in a thread, and a blocking caller."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from termal.bus.client import Client
from termal.bus.loop import PollLoop
from termal.bus.server import Handler, Server
from termal.log import Log
from termal.wire.errors import TermalError
from termal.wire.operation import Operation

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")


@contextmanager
def serving(run_dir: Path, role: str, handlers: Mapping[str, Handler]) -> Iterator[None]:
    """Serve ``role`` with ``handlers`` (they run on the server's thread) for the length of the block."""
    loop = PollLoop()
    log = Log(role, run_dir / f"{role}-peer.log")
    server = Server(loop, run_dir, role, handlers, log=log)
    thread = threading.Thread(target=loop.run, name=f"{role}-peer")
    thread.start()
    try:
        yield
    finally:
        loop.threadsafe(loop.stop)
        thread.join()
        server.close()
        loop.close()
        log.close()


def call(
    run_dir: Path, worker: str, op: Operation[RequestT, ReplyT], request: RequestT, *, deadline_s: float | None = None
) -> ReplyT:
    """One call from a caller of its own. Raises the `TermalError` that ended it."""
    loop = PollLoop()
    client = Client(loop, run_dir, worker, "test")
    ended: list[tuple[ReplyT | None, TermalError | None]] = []
    try:
        client.call(op, request, lambda reply, error: ended.append((reply, error)), deadline_s=deadline_s)
        while not ended:
            loop.one_pass(0.05)
    finally:
        client.close()
        loop.close()
    reply, error = ended[0]
    if error is not None:
        raise error
    assert reply is not None
    return reply
