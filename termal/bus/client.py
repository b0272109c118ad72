"""The DEALER to one worker: correlation, deadlines, loss noticed through the socket monitor, repeats after a restart.

Every call ends exactly once, on the loop's thread: with the reply, with the worker's error, or with what the
client itself can prove when the worker is gone or late.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

import zmq
from zmq.utils.monitor import parse_monitor_message

from termal.bus.loop import Loop, Timer
from termal.bus.server import not_started
from termal.bus.sockets import DRAIN, configure, configure_caller, endpoint
from termal.wire.codec import decode, encode
from termal.wire.envelope import OK, Answer, Envelope, MalformedFrame, pack_requests, unpack_answers
from termal.wire.errors import Busy, ErrorBody, Internal, OutcomeUnknown, TermalError, error_from
from termal.wire.operations import Operation

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")

PACK = 256
SWEEP_S = 0.02
GRACE_S = 0.05
"""A worker says itself that it dropped a late request; this long its word is waited for after the deadline."""
_MONITORED = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED

Done = Callable[[ReplyT | None, TermalError | None], None]


class Call(Generic[ReplyT]):
    """One call under way. After `cancel` its callback never runs; the worker may still carry the request out."""

    __slots__ = ("_client", "absent_s", "deadline_s", "done", "envelope", "lost", "op", "patience_s", "sent")

    def __init__(self, client: "Client", op: Operation[Any, ReplyT], envelope: Envelope, done: Done[ReplyT]) -> None:
        self._client = client
        self.op = op
        self.envelope = envelope
        self.done = done
        self.deadline_s: float | None = envelope.deadline or None
        self.absent_s: float | None = None
        self.patience_s: float | None = None
        self.sent = False
        self.lost = False

    def cancel(self) -> None:
        self._client.forget(self.envelope.id)


class Client:
    """Calls to one worker. Nothing here blocks; made and used on the loop's thread."""

    def __init__(self, loop: Loop, run_dir: str | Path, worker: str, caller: str) -> None:
        self.worker = worker
        self.up = False
        self.on_up: list[Callable[[], None]] = []
        self.on_down: list[Callable[[], None]] = []
        self._loop = loop
        self._caller = caller
        self._number = 0
        self._calls: dict[int, Call[Any]] = {}
        self._out: list[Call[Any]] = []
        self._unsent = False
        self._sweeper: Timer | None = None
        self._socket: zmq.Socket[bytes] = loop.context.socket(zmq.DEALER)
        configure(self._socket)
        configure_caller(self._socket)
        self._monitor = self._socket.get_monitor_socket(_MONITORED)
        self._monitor.setsockopt(zmq.LINGER, 0)
        loop.add(self._monitor, self._watch)
        loop.add(self._socket, self._pump)
        loop.on_flush(self._flush)
        self._socket.connect(endpoint(run_dir, worker))

    @property
    def pending(self) -> int:
        return len(self._calls)

    def call(
        self,
        op: Operation[RequestT, ReplyT],
        request: RequestT,
        done: Done[ReplyT],
        *,
        trace: str = "",
        deadline_s: float | None = None,
        absent_s: float | None = None,
    ) -> Call[ReplyT]:
        """Send ``request``; ``done(reply, error)`` runs once, later, with exactly one of the two.

        ``deadline_s`` is absolute (CLOCK_MONOTONIC); left out it is now plus the operation's own time, and none for
        operations without one. ``absent_s``: wait no longer than this for a worker that is not there.
        """
        if deadline_s is None and op.timeout_s is not None:
            deadline_s = time.monotonic() + op.timeout_s
        self._number += 1
        envelope = Envelope(self._number, op.name, float(deadline_s or 0.0), self._caller, trace, encode(request))
        call = Call(self, op, envelope, done)
        call.absent_s = absent_s
        self._calls[self._number] = call
        if self.up:
            self._out.append(call)
            self._loop.request_pass()
        else:
            self._unsent = True
            self._lose_patience(call)
        self._arm()
        return call

    def forget(self, number: int) -> None:
        self._calls.pop(number, None)

    def close(self) -> None:
        """Drop every call without its callback, and the socket."""
        self._calls.clear()
        self._out.clear()
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._loop.off(self._flush)
        self._loop.remove(self._monitor)
        self._loop.remove(self._socket)
        self._socket.disable_monitor()
        self._monitor.close(linger=0)
        self._socket.close(linger=0)

    # ------------------------------------------------------------------ sending

    def _flush(self) -> None:
        if self._out:
            calls, self._out = self._out, []
            self._push([call for call in calls if call.envelope.id in self._calls])

    def _push(self, calls: list[Call[Any]]) -> None:
        for start in range(0, len(calls), PACK):
            part = calls[start : start + PACK]
            try:
                self._socket.send(pack_requests([call.envelope for call in part]), zmq.NOBLOCK)
            except zmq.Again:
                # Not connected yet, or a thousand messages wait: the sweep tries again.
                self._unsent = True
                self._arm()
                break
            for call in part:
                call.sent = True
        self._loop.touched(self._socket)

    def _send_waiting(self) -> None:
        self._unsent = False
        self._out.clear()
        self._push([call for call in self._calls.values() if not call.sent])

    # ---------------------------------------------------------------- receiving

    def _pump(self) -> None:
        for _ in range(DRAIN):
            try:
                frame = self._socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            try:
                answers = unpack_answers(frame)
            except MalformedFrame:
                continue
            for answer in answers:
                self._answered(answer)
        self._loop.touched(self._socket)

    def _answered(self, answer: Answer) -> None:
        call = self._calls.pop(answer.id, None)
        if call is None:
            return
        try:
            if answer.status == OK:
                call.done(decode(answer.body, call.op.reply), None)
                return
            error = error_from(decode(answer.body, ErrorBody))
        except TermalError as fault:
            error = Internal(f"the reply to {call.op.name} does not match its type: {fault.message}")
        call.done(None, self._honest(call, error))

    @staticmethod
    def _honest(call: Call[Any], error: TermalError) -> TermalError:
        """'Nothing was written' is the word of one attempt; an earlier one, lost with its worker, may have written."""
        if call.lost and call.op.kind == "write" and isinstance(error, Busy) and error.code == "no_write_committed":
            return OutcomeUnknown("an earlier attempt may have been carried out before its worker ended")
        return error

    # -------------------------------------------------------------- up and down

    def _watch(self) -> None:
        while True:
            try:
                frames = self._monitor.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            if parse_monitor_message(frames)["event"] == zmq.EVENT_DISCONNECTED:
                self._went_down()
            else:
                self._came_up()

    def _came_up(self) -> None:
        if self.up:
            return
        self.up = True
        for call in self._calls.values():
            call.patience_s = None
        self._send_waiting()
        for listener in tuple(self.on_up):
            listener()

    def _went_down(self) -> None:
        if not self.up:
            return
        self.up = False
        self._out.clear()
        self._unsent = bool(self._calls)
        ended = []
        for call in self._calls.values():
            if call.sent and not call.op.repeatable:
                ended.append(call)
                continue
            call.lost = call.lost or call.sent
            call.sent = False
            self._lose_patience(call)
        for call in ended:
            self._end(
                call,
                OutcomeUnknown(f"{self.worker} ended while {call.op.name} was under way; read before you repeat it"),
            )
        self._arm()
        for listener in tuple(self.on_down):
            listener()

    @staticmethod
    def _lose_patience(call: Call[Any]) -> None:
        if call.absent_s is not None:
            call.patience_s = time.monotonic() + call.absent_s

    # ---------------------------------------------------------------- deadlines

    def _arm(self) -> None:
        if self._sweeper is None and self._calls:
            self._sweeper = self._loop.later(SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        self._sweeper = None
        if self.up and self._unsent:
            self._send_waiting()
        now = time.monotonic()
        limited = self._unsent and self.up
        for call in list(self._calls.values()):
            limit = self._limit(call)
            if limit is None:
                continue
            limited = True
            if now > limit:
                self._end(call, self._late(call))
        if limited:
            self._arm()

    @staticmethod
    def _limit(call: Call[Any]) -> float | None:
        deadline = None if call.deadline_s is None else call.deadline_s + (GRACE_S if call.sent else 0.0)
        if call.patience_s is None:
            return deadline
        return call.patience_s if deadline is None else min(deadline, call.patience_s)

    def _late(self, call: Call[Any]) -> TermalError:
        if call.op.kind == "write" and (call.sent or call.lost):
            return OutcomeUnknown(
                f"{self.worker} gave no answer to {call.op.name} in time; it may have been carried out"
            )
        return not_started(call.op)

    def _end(self, call: Call[Any], error: TermalError) -> None:
        if self._calls.pop(call.envelope.id, None) is not None:
            call.done(None, error)
