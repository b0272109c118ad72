"""A loop of the bus on its own thread, and what a test needs around it: outcomes of calls, captured log lines."""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import uvloop

from termal.bus.aio import AioLoop
from termal.bus.client import Call, Client
from termal.bus.loop import Loop, PollLoop
from termal.bus.publisher import Publisher, Subscriber
from termal.bus.server import Handler, Recorder, Server
from termal.wire.envelope import Event
from termal.wire.errors import TermalError
from termal.wire.operation import Operation
from tests.support.waiting import LIMIT_S, wait_until

T = TypeVar("T")
ReplyT = TypeVar("ReplyT")

LOOPS = ("poll", "asyncio", "uvloop")


class Lines:
    """A log that keeps what was written: event and keys."""

    def __init__(self) -> None:
        self.errors: list[tuple[str, dict[str, Any]]] = []
        self.repeated: list[tuple[str, dict[str, Any]]] = []

    def error(self, event: str, **keys: Any) -> None:
        self.errors.append((event, keys))

    def repeating(self, event: str, **keys: Any) -> None:
        self.repeated.append((event, keys))


class Outcome(Generic[ReplyT]):
    """Every end that one call had; a second one is a fault of the bus."""

    def __init__(self) -> None:
        self.ends: list[tuple[ReplyT | None, TermalError | None]] = []
        self.call: Call[ReplyT] | None = None

    def done(self, reply: ReplyT | None, error: TermalError | None) -> None:
        self.ends.append((reply, error))

    def wait(self, limit_s: float = LIMIT_S) -> tuple[ReplyT | None, TermalError | None]:
        return wait_until(lambda: self.ends, "the call to end", limit_s)[0]

    def reply(self, limit_s: float = LIMIT_S) -> ReplyT:
        reply, error = self.wait(limit_s)
        assert error is None, error
        assert reply is not None
        return reply

    def error(self) -> TermalError:
        reply, error = self.wait()
        assert reply is None
        assert error is not None
        return error


class BusThread:
    """One loop on its own thread, with the servers and clients that were made through it."""

    def __init__(self, kind: str, run_dir: Path) -> None:
        self.kind = kind
        self.run_dir = run_dir
        self.log = Lines()
        self.faults: list[Exception] = []
        self._outcomes: list[Outcome[Any]] = []
        self._made: list[Any] = []
        self._loop: Loop | None = None
        self._stop: Callable[[], None] = lambda: None
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._main, name=f"bus-{kind}", daemon=True)
        self._thread.start()
        assert self._started.wait(5.0)

    @property
    def loop(self) -> Loop:
        assert self._loop is not None
        return self._loop

    def run(self, action: Callable[[], T]) -> T:
        """The result of ``action`` on the loop's thread; what it raises is raised here."""
        ends: list[tuple[T | None, BaseException | None]] = []

        def act() -> None:
            try:
                ends.append((action(), None))
            except BaseException as error:
                ends.append((None, error))

        self.loop.threadsafe(act)
        value, error = wait_until(lambda: ends, "the loop's thread to act")[0]
        if error is not None:
            raise error
        return value  # type: ignore[return-value]

    def server(self, role: str, handlers: Mapping[str, Handler], stats: Recorder | None = None) -> Server:
        made = self.run(lambda: Server(self.loop, self.run_dir, role, handlers, log=self.log, stats=stats))
        self._made.append(made)
        return made

    def client(self, worker: str, caller: str = "test") -> Client:
        made = self.run(lambda: Client(self.loop, self.run_dir, worker, caller))
        self._made.append(made)
        return made

    def publisher(self, role: str, epoch: str) -> Publisher:
        made = self.run(lambda: Publisher(self.loop, self.run_dir, role, epoch))
        self._made.append(made)
        return made

    def subscriber(self, role: str, on_event: Callable[[Event], None], on_gap: Callable[[], None]) -> Subscriber:
        made = self.run(lambda: Subscriber(self.loop, self.run_dir, role, on_event=on_event, on_gap=on_gap))
        self._made.append(made)
        return made

    def start(self, client: Client, op: Operation[Any, ReplyT], request: object, **limits: Any) -> Outcome[ReplyT]:
        """A call under way."""
        return self.start_all(client, [(op, request)], **limits)[0]

    def start_all(
        self, client: Client, calls: Sequence[tuple[Operation[Any, Any], object]], **limits: Any
    ) -> list[Outcome[Any]]:
        """Calls that are made in one pass of the loop."""
        outcomes: list[Outcome[Any]] = [Outcome() for _ in calls]
        self._outcomes.extend(outcomes)

        def begin() -> None:
            for outcome, (op, request) in zip(outcomes, calls, strict=True):
                outcome.call = client.call(op, request, outcome.done, **limits)

        self.run(begin)
        return outcomes

    def ask(self, client: Client, op: Operation[Any, ReplyT], request: object, **limits: Any) -> ReplyT:
        """The reply, or the error raised."""
        reply, error = self.start(client, op, request, **limits).wait()
        if error is not None:
            raise error
        assert reply is not None
        return reply

    def wait_up(self, client: Client) -> None:
        wait_until(lambda: client.up, f"{client.worker} to be connected")

    def wait_down(self, client: Client) -> None:
        wait_until(lambda: not client.up, f"{client.worker} to be gone")

    def settle(self) -> None:
        """Return when everything that was handed to the loop before has run, and one pass after it."""
        for _ in range(3):
            self.run(lambda: None)

    def close(self) -> None:
        """End the loop, and check that no call ended twice and no callback raised in silence."""
        if self._thread.is_alive():
            try:
                for made in reversed(self._made):
                    self.run(made.close)
            finally:
                self._stop()
                self._thread.join(5.0)
        assert not self._thread.is_alive(), "the loop's thread does not end"
        assert [len(outcome.ends) for outcome in self._outcomes if len(outcome.ends) > 1] == []
        assert self.faults == []

    def _main(self) -> None:
        if self.kind == "poll":
            loop = PollLoop(on_fault=self.faults.append)
            self._loop, self._stop = loop, loop.stop
            self._started.set()
            loop.run()
            loop.close()
        elif self.kind == "asyncio":
            asyncio.run(self._async_main())
        else:
            uvloop.run(self._async_main())

    async def _async_main(self) -> None:
        loop = AioLoop(on_fault=self.faults.append)
        end = asyncio.Event()
        self._loop, self._stop = loop, lambda: loop.threadsafe(end.set)
        self._started.set()
        await end.wait()
        loop.close()


def soon(seconds: float = 0.05) -> float:
    """A deadline that passes within a test."""
    return time.monotonic() + seconds
