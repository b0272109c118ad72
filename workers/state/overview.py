"""The overview of one transcript: resident messages say what they are, the stored map speaks for all older ones."""

from itertools import repeat
from typing import Any, NamedTuple

from msgspec import UNSET, Raw

from termal.bus.server import Request
from termal.log import Log
from termal.model.overview import OverviewResponse
from termal.rules.overview import BadOverview, byte_of
from termal.rules.overview_buckets import bucketed, check_buckets, check_map, places
from termal.store.connection import Cursorlike
from termal.store.reader import Reader
from termal.wire.codec import encode_json
from termal.wire.errors import Conflict, Internal, NotFound, TermalError
from termal.wire.session_operations import ReadOverview
from termal.wire.turns import JsonReply
from workers.state.change import Book
from workers.state.session_record import SessionRecord

KEPT = 32
"""Overviews that are kept until their session changes, 20 KB each."""

_NOT_KNOWN = 0xFF


class _Kept(NamedTuple):
    stamp: int
    buckets: Raw


class _View:
    """The session as it was when it was asked for."""

    __slots__ = ("buckets", "count", "markers", "record", "revision", "stamp", "start")

    def __init__(self, record: SessionRecord, buckets: int, revision: int) -> None:
        self.record = record
        self.buckets = buckets
        self.revision = revision
        self.stamp = record.stamp
        self.start = record.start
        self.count = record.count
        self.markers = places([] if record.session.markers is UNSET else record.session.markers, record.count)


class Overview:
    def __init__(self, book: Book, reader: Reader, log: Log) -> None:
        self._book = book
        self._reader = reader
        self._log = log
        self._kept: dict[tuple[str, int], _Kept] = {}

    def overview(self, request: Request, body: ReadOverview) -> None:
        """The handler of ``session.overview``."""
        check_buckets(body.buckets)
        record = self._book.registry.find(body.session_id)
        view = _View(record, body.buckets, self._book.registry.revision)
        kept = self._kept.get((record.id, body.buckets))
        if kept is not None and kept.stamp == record.stamp:
            self._reply(request, view, kept.buckets)
        elif view.start == 0:
            self._reply(request, view, self._drawn(view, resident_map(record)))
        else:
            self._read(request, view, resident_map(record))

    def _read(self, request: Request, view: _View, resident: bytes) -> None:
        def job(connection: Cursorlike) -> Any:
            return connection.execute(
                "SELECT value_blob FROM session_overviews WHERE session_id = ?", (view.record.id,)
            ).get

        def done(stored: Any, error: Exception | None) -> None:
            try:
                if error is not None:
                    raise error
                self._reply(request, view, self._drawn(view, self._older(view, stored) + resident))
            except TermalError as problem:
                request.refuse(problem)
            except Exception as problem:  # noqa: BLE001 - the border to whoever waits for a reply
                self._log.repeating("overview.unreadable", sessionId=view.record.id, error=repr(problem))
                request.refuse(Internal("the overview cannot be read; the log of the daemon says why"))

        self._reader.submit(job, done, deadline_s=request.deadline_s)

    @staticmethod
    def _older(view: _View, stored: Any) -> bytes:
        """The map below the resident messages. Raises `BadOverview`, and `Conflict` where it does not fit to them."""
        record = view.record
        if record.removed:
            raise NotFound("the session was removed")
        if stored is not None and not isinstance(stored, bytes):
            raise BadOverview("the stored overview is no blob")
        stored = stored or b""
        known = len(stored)
        replaced = record.start < view.start or record.count < view.count
        if not view.start <= known <= record.count or replaced:
            raise Conflict(
                f"the stored overview has {known} of {view.count} messages; read the session again",
                reason="overviewMismatch",
            )
        older: bytes = stored[: view.start]
        check_map(older)
        return older

    def _drawn(self, view: _View, overview: bytes) -> Raw:
        """The buckets as final JSON. PERF: kept, so that looking again at what did not change costs 0.1 ms, not 1."""
        buckets = Raw(encode_json(bucketed(overview, view.buckets, view.markers)))
        key = (view.record.id, view.buckets)
        self._kept.pop(key, None)
        self._kept[key] = _Kept(view.stamp, buckets)
        if len(self._kept) > KEPT:
            del self._kept[next(iter(self._kept))]
        return buckets

    def _reply(self, request: Request, view: _View, buckets: Raw) -> None:
        reply = encode_json(
            OverviewResponse(
                session_id=view.record.id,
                message_count=view.count,
                session_mutation_stamp=view.stamp,
                buckets=buckets,
                markers=view.markers,
                latest_position=max(0, view.count - 1),
                revision=view.revision,
                server_instance_id=self._book.registry.instance_id,
            )
        )
        self._book.journal.settle(lambda: request.reply(JsonReply(reply)))


def resident_map(record: SessionRecord) -> bytes:
    """One byte per resident message, as it is now.

    PERF: what was stored since the last start is remembered by its byte; asking 25,000 messages takes 20 times longer.
    """
    start = record.start
    out = bytearray(map(record.stored_bytes.get, range(start, record.count), repeat(_NOT_KNOWN)))
    for position in record.dirty_positions:
        out[position - start] = byte_of(record.messages[position - start])
    at = out.find(_NOT_KNOWN)
    while at >= 0:
        out[at] = byte_of(record.messages[at])
        at = out.find(_NOT_KNOWN, at)
    return bytes(out)
