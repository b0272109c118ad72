"""The ROUTER of a worker: receives, checks deadlines before anything starts, decodes, hands to the handler, replies."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import zmq

from termal.bus.loop import Journal, Loop, Timer, readable
from termal.bus.refusal import drained, not_started
from termal.bus.sockets import DRAIN, HIGH_WATER_REQUESTS, RoleLock, configure, endpoint
from termal.wire.codec import UNENCODABLE, decode, encode
from termal.wire.envelope import FAILED, OK, Answer, Envelope, MalformedFrame, messages, pack_answer, unpack_requests
from termal.wire.errors import Internal, InvalidRequest, TermalError
from termal.wire.operation import Operation
from termal.wire.operations import OPERATIONS

__all__ = ["Handler", "Journal", "Recorder", "Request", "Server", "not_started"]

RETRY_S = 0.02
"""Replies for a caller that does not read are tried again this often."""
HELD_BYTES = 64 << 20
"""Replies kept for one caller that does not read, beyond the messages that ZeroMQ holds; then they are dropped."""
LINGER_MS = 250
"""The last replies of a closing server may take this long to leave; a caller that does not read costs no more."""
_FAULT = "a fault inside the daemon; its log names it under the request id"


class Recorder(Protocol):
    """Takes the figures of each finished operation (`termal.worker.stats.Stats`)."""

    def record(self, op: str, outcome: str, elapsed_s: float) -> None: ...


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
        self._answer(OK, value, "ok")

    def refuse(self, error: TermalError) -> None:
        self._answer(FAILED, error.body(), error.code)

    def expired(self, now: float | None = None) -> bool:
        """Whether the deadline has passed: a handler that kept the request asks once more before it starts."""
        return self.deadline_s is not None and (time.monotonic() if now is None else now) > self.deadline_s

    def _answer(self, status: int, value: object, outcome: str) -> None:
        if self.answered:
            return
        self.answered = True
        try:
            pair = pack_answer(Answer(self.id, status, encode(value)))
        except UNENCODABLE as error:
            # Too large, or a record with a value that cannot travel: the caller must not wait for it in vain.
            pair, outcome = self._server.unsendable(self, error), Internal.code
        self._server.finish(self._peer, pair, self.op.name, outcome, self._started)


Handler = Callable[[Request, Any], None]


class Server:
    """Serves one role. Raises `RoleTaken` when another live process does.

    A handler gets the request and its decoded record; it answers by the request, or raises a `TermalError`. Anything
    else that it raises is a fault of ours: logged, answered as `Internal`.

    ``open_requests`` are under way at this moment (the queue depth of a heartbeat), ``handled`` were answered so far.
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
        self.open_requests = 0
        self.handled = 0
        self._loop = loop
        self._handlers = dict(handlers)
        self._log = log
        self._stats = stats
        self._out: dict[bytes, list[bytes]] = {}
        self._held: dict[bytes, list[bytes]] = {}
        self._retry: Timer | None = None
        self._draining: TermalError | None = None
        self._lock = RoleLock(run_dir, role)
        self._socket: zmq.Socket[bytes] = loop.context.socket(zmq.ROUTER)
        try:
            configure(self._socket, HIGH_WATER_REQUESTS)
            self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
            self._socket.bind(endpoint(run_dir, role))
        except BaseException:
            self._socket.close(linger=0)
            self._lock.release()
            raise
        loop.add(self._socket, self._pump)
        loop.on_flush(self._flush)

    def drain(self, error: TermalError) -> None:
        """From now on every new request is refused with ``error``; what is under way goes on."""
        self._draining = error

    def close(self) -> None:
        """Send the replies that wait and give the role free. A caller that has not read its reply yet may see its end
        as lost, so a worker that drains closes a moment after its last reply, not in the same pass."""
        if self._socket.closed:
            self._lock.release()
            return
        self._flush()
        self._loop.off(self._flush)
        self._loop.remove(self._socket)
        if self._retry is not None:
            self._retry.cancel()
        self._socket.close(linger=LINGER_MS)
        self._lock.release()

    def finish(self, peer: bytes, pair: bytes, op: str, outcome: str, started: float) -> None:
        """Queue a packed reply for the end of this pass (called by `Request`)."""
        self.open_requests -= 1
        self.handled += 1
        if self._stats is not None:
            self._stats.record(op, outcome, time.monotonic() - started)
        waiting = self._out.get(peer)
        if waiting is None:
            self._out[peer] = [pair]
            self._loop.request_pass()
        else:
            waiting.append(pair)

    def unsendable(self, request: Request, error: Exception) -> bytes:
        """What is answered in place of a reply that cannot be encoded or is too large (called by `Request`)."""
        self._log.error("bus.reply_unsendable", operation=request.op.name, requestId=request.trace, error=repr(error))
        return pack_answer(Answer(request.id, FAILED, encode(Internal(_FAULT).body())))

    def _pump(self) -> None:
        for _ in range(DRAIN):
            if self._socket.closed:
                return
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._message(frames)
            if not readable(self._socket):
                return
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
            error = InvalidRequest(f"this worker has no operation {envelope.op!r}", reason="unknownOperation")
            pair = pack_answer(Answer(envelope.id, FAILED, encode(error.body())))
            self.finish(peer, pair, "unknown", error.code, time.monotonic())
            return
        request = Request(self, peer, envelope, op)
        if self._draining is not None:
            request.refuse(drained(op, self._draining))
        elif request.expired():
            request.refuse(not_started(op))
        else:
            self._handle(handler, request, envelope.body)

    def _handle(self, handler: Handler, request: Request, body: bytes) -> None:
        try:
            handler(request, decode(body, request.op.request))
        except TermalError as error:
            request.refuse(error)
        except Exception as error:  # noqa: BLE001 - the border of the bus: our own fault, answered and logged
            self._log.error("bus.handler_failed", operation=request.op.name, requestId=request.trace, error=repr(error))
            request.refuse(Internal(_FAULT))

    def _flush(self) -> None:
        if not self._out or self._socket.closed:
            return
        out, self._out = self._out, {}
        # First: a fault in between must not leave it deaf.
        self._loop.touched(self._socket)
        for peer, pairs in out.items():
            # In order: nothing overtakes what is held for this caller.
            rest = pairs if peer in self._held else self._send(peer, pairs)
            if rest:
                self._hold(peer, rest)

    def _send(self, peer: bytes, pairs: list[bytes]) -> list[bytes]:
        """Send to one caller; returns what it does not take at the moment."""
        sent = 0
        try:
            for count, frame in messages(pairs):
                self._socket.send_multipart((peer, frame), zmq.NOBLOCK)
                sent += count
        except zmq.Again:
            return pairs[sent:]
        except zmq.ZMQError as error:
            # The caller is gone: it learns that by itself and asks again.
            self._log.repeating("bus.reply_dropped", detail=str(error))
        return []

    def _hold(self, peer: bytes, pairs: list[bytes]) -> None:
        """A caller that lives and does not read (stopped, or very slow) still gets its answers once it reads."""
        held = self._held.setdefault(peer, [])
        held.extend(pairs)
        if sum(map(len, held)) > HELD_BYTES:
            self._log.repeating("bus.reply_dropped", detail=f"a caller does not read: {len(held)} replies")
            del self._held[peer]
        elif self._retry is None:
            self._retry = self._loop.later(RETRY_S, self._send_held)

    def _send_held(self) -> None:
        self._retry = None
        held, self._held = self._held, {}
        self._loop.touched(self._socket)
        for peer, pairs in held.items():
            rest = self._send(peer, pairs)
            if rest:
                self._hold(peer, rest)
