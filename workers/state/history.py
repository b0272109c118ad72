"""Reading transcripts: the tail from memory, older pages from the file on a reader's thread; memory goes first."""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw

from termal.bus.server import Request
from termal.log import Log
from termal.model.message import Message
from termal.model.reply import HistoryResponse
from termal.rules import history_page
from termal.rules.history_page import Span
from termal.rules.size import fitting
from termal.rules.verdicts import Stale
from termal.store.connection import Cursorlike
from termal.store.reader import Reader
from termal.wire.codec import encode_json
from termal.wire.errors import Conflict, Internal, TermalError
from termal.wire.session_operations import ReadHistory, ReadSession
from termal.wire.turns import JsonReply
from workers.state.change import Book
from workers.state.rows import decode_message
from workers.state.session_record import SessionRecord

Row = tuple[bytes | None, bytes | None]
"""A stored message: its id column and its JSON; None in place of what is no text."""
_READS = 3
"""A page is read again when messages left memory while its snapshot was older than their rows; once is the rule."""


class _Page:
    """What one request asks of one session, and the state of the session that it is answered for."""

    __slots__ = ("body", "count", "record", "revision", "stamp", "start")

    def __init__(self, record: SessionRecord, body: ReadHistory, revision: int) -> None:
        self.record = record
        self.body = body
        self.start = record.start
        self.count = record.count
        self.revision = revision
        self.stamp = record.stamp

    def cursor(self) -> str | None:
        return self.body.before if self.body.before is not None else self.body.after

    @property
    def forwards(self) -> bool:
        """The page is read from its start on: when it is too large for a reply, its end is left for the next one."""
        return self.body.after is not None or self.body.from_start

    def span(self, position: int | None) -> Span:
        """``position``: that of the cursor. Raises `Stale` where a cursor or a position is not there."""
        body, count = self.body, self.count
        if self.cursor() is not None:
            if position is None or position >= count:
                raise Stale("the message of this cursor is not in the transcript; read the tail again")
            find = history_page.before if body.before is not None else history_page.after
            return find(position, count, body.limit)
        if body.around is not None:
            return history_page.around(body.around, count, body.limit)
        return (history_page.oldest if body.from_start else history_page.newest)(count, body.limit)


class History:
    def __init__(self, book: Book, reader: Reader, log: Log) -> None:
        self._book = book
        self._reader = reader
        self._log = log

    def tail(self, request: Request, body: ReadSession) -> None:
        """The handler of ``session.read``."""
        history_page.check_tail(body.tail)
        record = self._book.registry.find(body.session_id)
        reply = JsonReply(self._book.projections.session(record, body.tail))
        self._book.journal.settle(lambda: request.reply(reply))

    def page(self, request: Request, body: ReadHistory) -> None:
        """The handler of ``session.history``."""
        history_page.check_selectors(
            before=body.before,
            after=body.after,
            around=body.around,
            from_start=body.from_start,
            limit=body.limit,
        )
        record = self._book.registry.find(body.session_id)
        page = _Page(record, body, self._book.registry.revision)
        cursor = page.cursor()
        position = record.positions.get(cursor) if cursor is not None else None
        if cursor is None or position is not None:
            span = page.span(position)
            if span.start >= record.start or span.start == span.end:
                self._reply(request, page, span, {})
                return
        self._read(request, page, position, _READS)

    def _read(self, request: Request, page: _Page, position: int | None, reads: int) -> None:
        def job(connection: Cursorlike) -> tuple[Span, dict[int, Row]]:
            found = position
            cursor = page.cursor()
            if cursor is not None and found is None:
                found = _position(connection, page.record.id, cursor)
            span = page.span(found)
            return span, _rows(connection, page.record.id, span)

        def done(result: tuple[Span, dict[int, Row]] | None, error: Exception | None) -> None:
            if result is None:
                request.refuse(self._failure(error))
                return
            span, rows = result
            missing = [at for at in range(span.start, span.end) if at not in rows and not page.record.resident(at)]
            if missing and missing[-1] >= page.start and reads > 1:
                self._read(request, page, position, reads - 1)
                return
            try:
                self._reply(request, page, span, rows)
            except TermalError as problem:
                request.refuse(problem)

        self._reader.submit(job, done, deadline_s=request.deadline_s)

    def _failure(self, error: Exception | None) -> TermalError:
        if isinstance(error, Stale):
            return Conflict(error.text, reason="staleCursor")
        if isinstance(error, TermalError):
            return error
        self._log.error("history.unreadable", error=repr(error))
        return Internal("the transcript cannot be read; the log of the daemon says why")

    def _reply(self, request: Request, page: _Page, span: Span, rows: dict[int, Row]) -> None:
        keep: Literal["start", "end"] = "start" if page.forwards else "end"
        messages = [self._message(page.record, at, rows) for at in range(span.start, span.end)]
        encoded = [Raw(encode_json(message)) for message in messages]
        part = fitting([len(raw) for raw in encoded], keep)
        span = span._replace(start=span.start + part.start, end=span.start + part.stop)
        messages = messages[part]
        reply = encode_json(
            HistoryResponse(
                messages=encoded[part],
                has_more=span.has_more,
                has_newer=span.has_newer,
                next_before=messages[0].id if span.has_more else UNSET,
                next_after=messages[-1].id if span.has_newer else UNSET,
                message_start_index=span.start,
                message_count=page.count,
                revision=page.revision,
                session_mutation_stamp=page.stamp,
                server_instance_id=self._book.registry.instance_id,
            )
        )
        self._book.journal.settle(lambda: request.reply(JsonReply(reply)))

    def _message(self, record: SessionRecord, position: int, rows: dict[int, Row]) -> Message:
        """Raises `Conflict` naming a position that is missing, unreadable, or another message than its row says."""
        if record.resident(position):
            return record.at(position)
        row = rows.get(position)
        problem = "is not stored"
        if row is not None:
            try:
                message: Message = decode_message(row[1] or b"")
            except (msgspec.MsgspecError, ValueError, TypeError, RecursionError):
                problem = "cannot be read"
            else:
                if message.id.encode() == row[0]:
                    return message
                problem = "is stored under another id"
        self._log.repeating("history.hole", sessionId=record.id, position=position, problem=problem)
        raise Conflict(f"the message at position {position} {problem}", reason="messageUnavailable")


def _position(connection: Cursorlike, session_id: str, message_id: str) -> int | None:
    row = connection.execute(
        "SELECT position FROM messages WHERE session_id = ? AND message_id = ?", (session_id, message_id)
    ).fetchone()
    return int(row[0]) if row is not None else None


def _rows(connection: Cursorlike, session_id: str, span: Span) -> dict[int, Row]:
    # As bytes: one text that is no UTF-8 would fail the whole page.
    found: list[Any] = connection.execute(
        "SELECT position, CASE typeof(message_id) WHEN 'text' THEN CAST(message_id AS BLOB) END,"
        " CASE typeof(value_json) WHEN 'text' THEN CAST(value_json AS BLOB) END"
        " FROM messages WHERE session_id = ? AND position >= ? AND position < ?",
        (session_id, span.start, span.end),
    ).fetchall()
    return {int(position): (message_id, text) for position, message_id, text in found}
