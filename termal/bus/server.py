"""The ROUTER of a worker: receives, checks deadlines before anything starts, decodes, hands to the handler, replies."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import zmq

from termal.bus.loop import Loop
from termal.bus.sockets import DRAIN, HIGH_WATER_REQUESTS, RoleLock, configure, endpoint
from termal.wire.codec import decode, encode
from termal.wire.envelope import FAILED, OK, Answer, Envelope, MalformedFrame, pack_answers, unpack_requests
from termal.wire.errors import Busy, Internal, InvalidRequest, TermalError
from termal.wire.operations import OPERATIONS, Operation

PACK = 256
"""Replies packed into one message at most."""


class Recorder(Protocol):
    """Takes the figures of each finished operation (`termal.worker.stats.Stats`)."""

    def record(self, op: str, outcome: str, elapsed_s: float) -> None: ...


class Journal(Protocol):
    """Takes log lines (`termal.log.Log`)."""

    def error(self, event: str, **keys: Any) -> None: ...
    def repeating(self, event: str, **keys: Any) -> None: ...


class Request:
    """One request under way. Exactly one of `reply` and `refuse` is called, now or later, on the loop's thread."""

    __slots__ = ("_peer", "_server", "_started", "answered", "caller", "deadline_s", "id", "op", "trace")

    def __init__(self, server: "Server", peer: bytes, envelope: Envelope, op: Operation[Any, Any]) -> None:
        self._server = server
        self._peer = peer
        self._started = time.monotonic()
        self.answered = False
        self.id = envelope.id
        self.op = op
        self.caller = envelope.caller
        self.trace = envelope.trace
        self.deadline_s: float | None = envelope.deadline or None

    def reply(self, value: object) -> None:
        """Answer with a record of the operation's reply type. A second answer is ignored."""
        self._answer(OK, encode(value), "ok")

    def refuse(self, error: TermalError) -> None:
        self._answer(FAILED, encode(error.body()), error.code)

    def expired(self, now: float | None = None) -> bool:
        return self.deadline_s is not None and (now or time.monotonic()) > self.deadline_s

    def _answer(self, status: int, body: bytes, outcome: str) -> None:
        if self.answered:
            return
        self.answered = True
        self._server.finish(self._peer, Answer(self.id, status, body), self.op.name, outcome, self._started)


Handler = Callable[[Request, Any], None]


class Server:
    """Serves one role. Raises `RoleTaken` when another live process does.

    A handler gets the request and its decoded record; it answers by the request, or raises a `TermalError`. Anything
    else that it raises is a fault of ours: logged, answered as `Internal`.
    """

    def __init__(
        self,
        loop: Loop,
        run_dir: str | Path,
        role: str,
        handlers: Mapping[str, Handler],
        *,
        log: Journal,
        stats: Recorder | None = None,
    ) -> None:
        self._lock = RoleLock(run_dir, role)
        self._loop = loop
        self._handlers = dict(handlers)
        self._log = log
        self._stats = stats
        self._out: dict[bytes, list[Answer]] = {}
        self._draining: TermalError | None = None
        self.open_requests = 0
        self._socket: zmq.Socket[bytes] = loop.context.socket(zmq.ROUTER)
        configure(self._socket, HIGH_WATER_REQUESTS)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._socket.bind(endpoint(run_dir, role))
        loop.add(self._socket, self._pump)
        loop.on_flush(self._flush)

    def drain(self, error: TermalError) -> None:
        """From now on every new request is refused with ``error``; what is under way goes on."""
        self._draining = error

    def close(self) -> None:
        self._flush()
        self._loop.remove(self._socket)
        self._loop.off(self._flush)
        self._socket.close(linger=0)
        self._lock.release()

    def finish(self, peer: bytes, answer: Answer, op: str, outcome: str, started: float) -> None:
        """Queue a reply for the end of this pass (called by `Request`)."""
        self.open_requests -= 1
        if self._stats is not None:
            self._stats.record(op, outcome, time.monotonic() - started)
        self._out.setdefault(peer, []).append(answer)
        self._loop.request_pass()

    def _pump(self) -> None:
        receive = self._socket.recv_multipart
        for _ in range(DRAIN):
            try:
                frames = receive(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._message(frames)
        self._loop.touched(self._socket)

    def _message(self, frames: list[bytes]) -> None:
        try:
            if len(frames) != 2:
                raise MalformedFrame("not two frames")
            envelopes = unpack_requests(frames[1])
        except MalformedFrame as error:
            self._log.repeating("bus.malformed", detail=str(error))
            return
        for envelope in envelopes:
            self._dispatch(frames[0], envelope)

    def _dispatch(self, peer: bytes, envelope: Envelope) -> None:
        op = OPERATIONS.get(envelope.op)
        handler = self._handlers.get(envelope.op)
        self.open_requests += 1
        if op is None or handler is None:
            answer = InvalidRequest(f"this worker has no operation {envelope.op!r}", reason="unknown_operation")
            self.finish(
                peer, Answer(envelope.id, FAILED, encode(answer.body())), "unknown", answer.code, time.monotonic()
            )
            return
        request = Request(self, peer, envelope, op)
        try:
            if self._draining is not None:
                raise self._draining
            if request.expired():
                raise not_started(op)
            handler(request, decode(envelope.body, op.request))
        except TermalError as error:
            request.refuse(error)
        except Exception as error:  # noqa: BLE001 - the border of the bus: our own fault, answered and logged
            self._log.error("bus.handler_failed", operation=op.name, requestId=request.trace, error=repr(error))
            request.refuse(Internal("a fault inside the daemon; its log names it under the request id"))

    def _flush(self) -> None:
        if not self._out:
            return
        out, self._out = self._out, {}
        for peer, answers in out.items():
            for start in range(0, len(answers), PACK):
                self._send(peer, pack_answers(answers[start : start + PACK]))
        self._loop.touched(self._socket)

    def _send(self, peer: bytes, frame: bytes) -> None:
        try:
            self._socket.send_multipart((peer, frame), zmq.NOBLOCK)
        except zmq.ZMQError as error:
            # The caller is gone, or has not read a thousand messages: it learns it by itself and asks again.
            self._log.repeating("bus.reply_dropped", detail=str(error))


def not_started(op: Operation[Any, Any]) -> Busy:
    """The answer to a request that surely never started."""
    if op.kind == "read":
        return Busy("the deadline passed before the read started", code="no_mutation_attempted")
    return Busy("the deadline passed before the write started; nothing was written")
