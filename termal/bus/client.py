"""The DEALER to one worker: correlation, deadlines, loss noticed through the socket monitor, repeats after a restart.

Every call ends exactly once, on the loop's thread: with the reply, with the worker's error, or with what the
client itself can prove when the worker is gone or late.
"""

import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import zmq

from termal.bus.call import GRACE_S, Call, Deadlines, Done
from termal.bus.loop import Loop, Timer, readable
from termal.bus.refusal import unanswered
from termal.bus.sockets import DRAIN, HIGH_WATER_REQUESTS, configure, configure_caller, endpoint, settle
from termal.wire.codec import decode, encode
from termal.wire.envelope import (
    OK,
    Answer,
    Envelope,
    MalformedFrame,
    Unsendable,
    messages,
    pack_request,
    unpack_answers,
)
from termal.wire.errors import Busy, ErrorBody, Internal, InvalidRequest, OutcomeUnknown, TermalError, error_from
from termal.wire.operation import Operation

__all__ = ["GRACE_S", "Call", "Client", "Done"]

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")

EARLY = 32
"""PERF: so many calls of one pass go at once, and the worker begins while the rest is still being made: with 64 clients
of the gateway 10 % more requests in a second. Smaller packs cost more than they gain."""
RETRY_S = 0.02
"""Calls that a connected socket did not take (a thousand messages wait) are tried again this often."""
_MONITORED = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED


class Client:
    """Calls to one worker. Nothing here blocks; made and used on the loop's thread.

    ``up`` tells whether the worker is connected; the listeners of ``on_up`` run each time that it came (also after a
    restart), those of ``on_down`` each time that it went.
    """

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
        self._deadlines = Deadlines(loop, self._calls, self._expire)
        self._retry: Timer | None = None
        self._socket: zmq.Socket[bytes] = loop.context.socket(zmq.DEALER)
        configure(self._socket, HIGH_WATER_REQUESTS)
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

        ``deadline_s`` is absolute (CLOCK_MONOTONIC; infinity for none); left out it is now plus the operation's own
        time, and none for operations without one. ``absent_s``: wait no longer than this for a worker that is not
        there. Raises `InvalidRequest`, and sends nothing, for a request that is too large to travel.
        """
        if deadline_s is None and op.timeout_s is not None:
            deadline_s = time.monotonic() + op.timeout_s
        if deadline_s == math.inf:
            deadline_s = None
        self._number += 1
        number = self._number
        envelope = Envelope(number, op.name, float(deadline_s or 0.0), self._caller, trace, encode(request))
        try:
            packed = pack_request(envelope)
        except Unsendable as error:
            raise InvalidRequest(f"{op.name}: {error}", reason="wireLimit") from error
        call = Call(self, number, op, packed, done)
        call.deadline_s = deadline_s
        call.absent_s = absent_s
        self._calls[number] = call
        if self.up:
            self._out.append(call)
            self._loop.request_pass()
        elif absent_s is not None:
            call.patience_s = time.monotonic() + absent_s
        self._deadlines.watch(call)
        if len(self._out) >= EARLY:
            self._flush()
        return call

    def forget(self, number: int) -> None:
        self._calls.pop(number, None)

    def close(self) -> None:
        """Drop every call without its callback, and the socket."""
        self.up = False
        self._calls.clear()
        self._out.clear()
        self._deadlines.close()
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        self._loop.off(self._flush)
        if self._socket.closed:
            return
        self._loop.remove(self._monitor)
        self._loop.remove(self._socket)
        self._socket.disable_monitor()
        self._monitor.close(linger=0)
        self._socket.close(linger=0)

    # ------------------------------------------------------------------ sending

    def _flush(self) -> None:
        if self._out:
            calls, self._out = self._out, []
            # While earlier calls wait for room nothing overtakes them: the next try takes all, in order.
            if self._retry is None:
                self._push([call for call in calls if call.id in self._calls])

    def _push(self, calls: list[Call[Any]]) -> None:
        # First: a fault in between must not leave it deaf.
        self._loop.touched(self._socket)
        sent = 0
        for count, frame in messages([call.packed for call in calls]):
            try:
                self._socket.send(frame, zmq.NOBLOCK)
            except zmq.Again:
                if self._retry is None:
                    self._retry = self._loop.later(RETRY_S, self._send_waiting)
                break
            for call in calls[sent : sent + count]:
                call.sent = True
            sent += count

    def _send_waiting(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self.up:
            self._out.clear()
            settle(self._socket)
            self._push([call for call in self._calls.values() if not call.sent])

    # ---------------------------------------------------------------- receiving

    def _pump(self) -> None:
        for _ in range(DRAIN):
            if self._socket.closed:
                return
            try:
                frame = self._socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._take(frame)
            if not readable(self._socket):
                return
        self._loop.touched(self._socket)

    def _take(self, frame: bytes) -> None:
        try:
            answers = unpack_answers(frame)
        except MalformedFrame as error:
            # The calls that it may have answered end at their deadlines.
            self._loop.fault(error)
            return
        for answer in answers:
            self._answered(answer)

    def _answered(self, answer: Answer) -> None:
        call = self._calls.pop(answer.id, None)
        if call is None:
            return
        reply, error = None, None
        try:
            if answer.status == OK:
                reply = decode(answer.body, call.op.reply)
            else:
                error = _honest(call, error_from(decode(answer.body, ErrorBody)))
        except TermalError as fault:
            error = Internal(f"the reply to {call.op.name} does not match its type: {fault.message}")
        self._done(call, reply, error)

    def _done(self, call: Call[Any], reply: object, error: TermalError | None) -> None:
        try:
            call.done(reply, error)
        except Exception as fault:  # noqa: BLE001 - the callback's fault must not take the other answers with it
            self._loop.fault(fault)

    # -------------------------------------------------------------- up and down

    def _watch(self) -> None:
        while not self._monitor.closed:
            try:
                frames = self._monitor.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            if int.from_bytes(frames[0][:2], sys.byteorder) == zmq.EVENT_DISCONNECTED:
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
        self._tell(self.on_up)

    def _went_down(self) -> None:
        if not self.up:
            return
        self.up = False
        self._out.clear()
        ended = []
        for call in self._calls.values():
            if call.sent and not call.op.repeatable:
                ended.append(call)
                continue
            call.lost = call.lost or call.sent
            call.sent = False
            if call.absent_s is not None:
                call.patience_s = time.monotonic() + call.absent_s
                self._deadlines.watch(call)
        for call in ended:
            self._end(call, "the worker ended while it was under way")
        self._tell(self.on_down)

    def _tell(self, listeners: list[Callable[[], None]]) -> None:
        for listener in tuple(listeners):
            try:
                listener()
            except Exception as fault:  # noqa: BLE001 - one listener's fault must not keep it from the others
                self._loop.fault(fault)

    # ---------------------------------------------------------------- deadlines

    def _expire(self, call: Call[Any]) -> None:
        why = f"{self.worker} gave no answer in time" if self.up else f"{self.worker} is not there"
        self._end(call, why)

    def _end(self, call: Call[Any], why: str) -> None:
        if self._calls.pop(call.id, None) is not None:
            error = unanswered(call.op, why, may_have_started=call.sent or call.lost)
            self._done(call, None, error)


def _honest(call: Call[Any], error: TermalError) -> TermalError:
    """'Nothing was written' is the word of one attempt; an earlier one, lost with its worker, may have written."""
    if call.lost and call.op.kind == "write" and isinstance(error, Busy) and error.code == "no_write_committed":
        return OutcomeUnknown("an earlier attempt may have been carried out before its worker ended")
    return error
