"""A transcript in pages of whole lines, for a file: each page is one short read, so no transaction stays open."""

from typing import Any

import msgspec

from termal.bus.server import Handler, Request
from termal.log import Log
from termal.model.message import Message
from termal.model.search import ExportHeader
from termal.rules.exported import exported
from termal.rules.verdicts import Bad, Stale
from termal.store.connection import Cursorlike
from termal.store.reader import Reader
from termal.wire import transcript_operations as ops
from termal.wire.codec import encode_json
from termal.wire.errors import Conflict, Internal, TermalError
from workers.state.change import Book
from workers.state.rows import decode_message
from workers.state.session_record import SessionRecord

PAGE_ROWS = 256
PAGE_BYTES = 512 << 10
"""A page ends with the message that reaches this; one message always fits."""

_ROWS = (
    "SELECT position, message_id, CAST(value_json AS BLOB) FROM messages"
    " WHERE session_id = ? AND position >= ? AND position < ? ORDER BY position"
)


class _Lines:
    """The lines of one page, in order from ``position`` on."""

    __slots__ = ("_after", "last", "lines", "position", "size_bytes")

    def __init__(self, position: int, after: str | None) -> None:
        self.position = position
        self.last = after
        self.lines: list[bytes] = []
        self.size_bytes = 0
        self._after = after

    @property
    def full(self) -> bool:
        return len(self.lines) >= PAGE_ROWS or self.size_bytes >= PAGE_BYTES

    def add(self, position: int, message_id: str, line: bytes) -> None:
        """Raises `Stale` where the transcript is another than that of the page before."""
        if self._after is not None and position == self.position - 1:
            if message_id != self._after:
                raise Stale("the transcript was replaced while it was read", reason="transcriptReplaced")
            return
        if position != self.position:
            raise Stale(f"the message at position {self.position} is not stored", reason="messageUnavailable")
        self.lines.append(line)
        self.size_bytes += len(line)
        self.position += 1
        self.last = message_id


class Export:
    def __init__(self, book: Book, reader: Reader, log: Log) -> None:
        self._book = book
        self._reader = reader
        self._log = log

    def table(self) -> dict[str, Handler]:
        return {ops.EXPORT_READ.name: self.page}

    def page(self, request: Request, body: ops.ReadExport) -> None:
        """The handler of ``export.page``. What is in memory is taken now, what is older was stored long ago."""
        record = self._book.registry.find(body.session_id)
        count = record.count if body.count is None else body.count
        if not 0 <= body.position <= count:
            raise Bad("there is no such position")
        if count > record.count:
            raise Stale("the transcript was replaced while it was read", reason="transcriptReplaced")
        first = body.position - (body.after is not None)
        stored_end = min(count, record.start, body.position + PAGE_ROWS)
        resident = range(max(first, record.start), min(count, body.position + PAGE_ROWS))
        newest = [(position, record.at(position)) for position in resident]
        header = _header(record) if body.count is None else b""
        lines = _Lines(body.position, body.after)

        def job(connection: Cursorlike) -> None:
            _stored(connection, record.id, range(first, stored_end), lines)

        def done(_: None, error: Exception | None) -> None:
            try:
                if error is not None:
                    raise error
                if lines.position >= stored_end:
                    _resident(newest, lines)
            except Exception as problem:  # noqa: BLE001 - the border of the request: whatever it is, it is answered
                request.refuse(self._failure(record, problem))
                return
            page = ops.ExportPage(header, count, b"".join(lines.lines), lines.position, lines.last)
            self._book.journal.settle(lambda: request.reply(page))

        if first < stored_end:
            self._reader.submit(job, done, deadline_s=request.deadline_s)
        else:
            done(None, None)

    def _failure(self, record: SessionRecord, error: Exception) -> TermalError:
        if isinstance(error, Stale):
            return Conflict(error.text, reason=error.reason)
        if isinstance(error, TermalError):
            return error
        self._log.error("export.failed", sessionId=record.id, error=repr(error))
        return Internal("the transcript cannot be read; the log of the daemon says why")


def _header(record: SessionRecord) -> bytes:
    return encode_json(ExportHeader(session=exported(record.session)))


def _stored(connection: Cursorlike, session_id: str, positions: range, lines: _Lines) -> None:
    cursor = connection.execute(_ROWS, (session_id, positions.start, positions.stop))
    for position, message_id, value in cursor:
        lines.add(position, message_id, _line(position, message_id, value))
        if lines.full:
            cursor.close()
            return
    if lines.position < positions.stop:
        raise Stale(f"the message at position {lines.position} is not stored", reason="messageUnavailable")


def _line(position: int, message_id: str, value: Any) -> bytes:
    """The stored JSON as one line, byte for byte where it is one. Raises `Stale` for a damaged row."""
    try:
        message: Message = decode_message(value)
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise Stale(f"the message at position {position} cannot be read", reason="messageUnavailable") from error
    if message.id != message_id:
        raise Stale(f"the message at position {position} is stored under another id", reason="messageUnavailable")
    text: bytes = value
    return (encode_json(message) if b"\n" in text else text) + b"\n"


def _resident(messages: list[tuple[int, Message]], lines: _Lines) -> None:
    for position, message in messages:
        if lines.full:
            return
        lines.add(position, message.id, encode_json(message) + b"\n")
