"""Markers of transcripts: kept in the session record, never messages; their anchors must be in the transcript."""

from collections.abc import Callable

from msgspec import UNSET, Struct
from msgspec.structs import replace

from termal.bus.server import Handler, Request
from termal.log import Log
from termal.model import delta
from termal.model.marker import Marker, MarkerGoneResponse, MarkerResponse, MarkersResponse
from termal.rules.marker import anchored, anchors, checked_body, checked_color, checked_kind, checked_name
from termal.rules.verdicts import Bad, Missing, Refused
from termal.store.connection import Cursorlike
from termal.store.reader import Reader
from termal.wire.codec import encode_json
from termal.wire.errors import Conflict, Internal, NotFound, TermalError
from termal.wire.session_operations import CreateMarker, OneMarker, OneSession, UpdateMarker
from termal.wire.turns import JsonReply
from termal.wire.verdict_errors import error_of
from workers.state.change import Book
from workers.state.clock import now_text
from workers.state.session_record import SessionRecord

Found = Callable[[dict[str, int]], None]
"""Goes on with the positions of the messages that were looked up; an id that is nowhere is not among them."""


class Markers:
    def __init__(self, book: Book, reader: Reader, log: Log) -> None:
        self._book = book
        self._reader = reader
        self._log = log

    def table(self) -> dict[str, Handler]:
        return {
            "marker.list": self.show,
            "marker.create": self.create,
            "marker.update": self.update,
            "marker.delete": self.delete,
        }

    # ---------------------------------------------------------------------- handlers

    def show(self, request: Request, body: OneSession) -> None:
        """The handler of ``marker.list``."""
        record = self._book.registry.find(body.session_id)
        registry = self._book.registry
        reply = JsonReply(
            encode_json(
                MarkersResponse(
                    markers=markers_of(record),
                    revision=registry.revision,
                    server_instance_id=registry.instance_id,
                )
            )
        )
        self._book.journal.settle(lambda: request.reply(reply))

    def create(self, request: Request, body: CreateMarker) -> None:
        """The handler of ``marker.create``: answered once it is stored; a repeat finds the first attempt's marker."""
        record = self._writable(body.session_id)
        known = _find(record, body.marker_id)
        if known is not None:
            self._reply(request, record, known)
            return
        now = now_text()
        marker = Marker(
            id=body.marker_id,
            session_id=record.id,
            kind=checked_kind(body.kind),
            name=checked_name(body.name),
            color=checked_color(body.color),
            body=checked_body(body.body),
            message_id=body.message_id,
            message_index_hint=0,
            end_message_id=UNSET if body.end_message_id is None else body.end_message_id,
            created_at=now,
            updated_at=now,
        )

        def found(positions: dict[str, int]) -> None:
            again = _find(record, marker.id)
            if again is not None:
                self._reply(request, record, again)
                return
            placed = anchored(marker, positions)
            self._store(request, record, [*markers_of(record), placed], placed, delta.ConversationMarkerCreated)

        self._locate(request, record, marker, found)

    def update(self, request: Request, body: UpdateMarker) -> None:
        """The handler of ``marker.update``. A change that came in between, while anchors were looked up, wins."""
        record = self._writable(body.session_id)
        before = self._find(record, body.marker_id)
        after = _patched(before, body)
        if body.message_id is UNSET and not isinstance(body.end_message_id, str):
            self._replace(request, record, before, after)
            return

        def found(positions: dict[str, int]) -> None:
            if _find(record, before.id) is not before:
                raise Conflict("the marker was changed meanwhile; read it again", reason="markerChanged")
            self._replace(request, record, before, anchored(after, positions))

        self._locate(request, record, after, found)

    def delete(self, request: Request, body: OneMarker) -> None:
        """The handler of ``marker.delete``."""
        record = self._writable(body.session_id)
        gone = self._find(record, body.marker_id)
        registry = self._book.registry
        change = self._book.change()
        _put(record, [marker for marker in markers_of(record) if marker is not gone])
        change.event(
            record,
            lambda revision: delta.ConversationMarkerDeleted(
                revision=revision,
                session_id=record.id,
                marker_id=gone.id,
                session_mutation_stamp=record.stamp,
            ),
        )
        revision = change.commit()
        reply = MarkerGoneResponse(
            marker_id=gone.id,
            revision=revision,
            server_instance_id=registry.instance_id,
            session_mutation_stamp=record.stamp,
        )
        self._after(request, reply)

    # ----------------------------------------------------------------------- anchors

    def _locate(self, request: Request, record: SessionRecord, marker: Marker, found: Found) -> None:
        """Look up the anchors of ``marker``, in memory first; what ``found`` raises is the answer."""
        positions = {name: record.positions[name] for name in anchors(marker) if name in record.positions}
        missing = [name for name in anchors(marker) if name not in positions]
        if not missing:
            found(positions)
            return

        def done(stored: dict[str, int] | None, error: Exception | None) -> None:
            try:
                if stored is None:
                    raise self._failure(error)
                if record.removed:
                    raise NotFound("the session was removed")
                # What came into memory meanwhile is newer than the snapshot that was read.
                fresh = {name: record.positions[name] for name in anchors(marker) if name in record.positions}
                found({**stored, **positions, **fresh})
            except (Refused, TermalError) as refused:
                request.refuse(error_of(refused))

        self._reader.submit(
            lambda connection: _stored(connection, record.id, missing), done, deadline_s=request.deadline_s
        )

    def _failure(self, error: Exception | None) -> TermalError:
        if isinstance(error, TermalError):
            return error
        self._log.error("markers.unreadable", error=repr(error))
        return Internal("the transcript cannot be read; the log of the daemon says why")

    # ----------------------------------------------------------------------- changes

    def _replace(self, request: Request, record: SessionRecord, before: Marker, after: Marker) -> None:
        if after == before:
            self._reply(request, record, before)
            return
        after = replace(after, updated_at=now_text())
        markers = [after if marker is before else marker for marker in markers_of(record)]
        self._store(request, record, markers, after, delta.ConversationMarkerUpdated)

    def _store(
        self,
        request: Request,
        record: SessionRecord,
        markers: list[Marker],
        marker: Marker,
        kind: type[delta.MarkerDelta],
    ) -> None:
        change = self._book.change()
        _put(record, markers)
        change.event(
            record,
            lambda revision: kind(
                revision=revision, session_id=record.id, marker=marker, session_mutation_stamp=record.stamp
            ),
        )
        change.commit()
        self._after(request, self._response(record, marker))

    def _response(self, record: SessionRecord, marker: Marker) -> MarkerResponse:
        registry = self._book.registry
        return MarkerResponse(
            marker=marker,
            revision=registry.revision,
            server_instance_id=registry.instance_id,
            session_mutation_stamp=record.stamp,
        )

    def _after(self, request: Request, response: Struct) -> None:
        reply = JsonReply(encode_json(response))
        self._book.journal.after(lambda: request.reply(reply))

    def _reply(self, request: Request, record: SessionRecord, marker: Marker) -> None:
        """``marker`` as it is: nothing is changed, but it may not be stored yet."""
        reply = JsonReply(encode_json(self._response(record, marker)))
        self._book.journal.after(lambda: request.reply(reply))

    def _writable(self, session_id: str) -> SessionRecord:
        """Raises `Missing`, and `Bad` for a session that lives on another daemon."""
        record = self._book.registry.find(session_id)
        if record.remote:
            raise Bad("markers of a session of another daemon cannot be changed from here", reason="remoteSession")
        return record

    @staticmethod
    def _find(record: SessionRecord, marker_id: str) -> Marker:
        marker = _find(record, marker_id)
        if marker is None:
            raise Missing("there is no such marker")
        return marker


def markers_of(record: SessionRecord) -> list[Marker]:
    return [] if record.session.markers is UNSET else record.session.markers


def _put(record: SessionRecord, markers: list[Marker]) -> None:
    record.session = replace(record.session, markers=markers or UNSET)


def _find(record: SessionRecord, marker_id: str) -> Marker | None:
    return next((marker for marker in markers_of(record) if marker.id == marker_id), None)


def _patched(marker: Marker, body: UpdateMarker) -> Marker:
    """``marker`` with what ``body`` sets; the hints are still the old ones. Raises `Bad`."""
    return replace(
        marker,
        kind=marker.kind if body.kind is UNSET else checked_kind(body.kind),
        name=marker.name if body.name is UNSET else checked_name(body.name),
        color=marker.color if body.color is UNSET else checked_color(body.color),
        body=marker.body if body.body is UNSET else checked_body(body.body),
        message_id=marker.message_id if body.message_id is UNSET else body.message_id,
        end_message_id=marker.end_message_id if body.end_message_id is UNSET else body.end_message_id or UNSET,
        end_message_index_hint=UNSET if body.end_message_id is None else marker.end_message_index_hint,
    )


def _stored(connection: Cursorlike, session_id: str, message_ids: list[str]) -> dict[str, int]:
    rows = [
        connection.execute(
            "SELECT message_id, position FROM messages WHERE session_id = ? AND message_id = ?", (session_id, name)
        ).fetchone()
        for name in message_ids
    ]
    return {str(row[0]): int(row[1]) for row in rows if row is not None}
