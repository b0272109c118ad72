"""Importing a session: messages stored in slices under a hidden row, shown by one commit when all of it is there."""

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from termal.bus.loop import Loop
from termal.bus.server import Handler, Request
from termal.log import Log
from termal.model.ids import new_instance_id
from termal.model.message import Message
from termal.model.session import Session
from termal.rules import wording
from termal.rules.exported import imported, renumbered, stored_as
from termal.rules.history_page import RESIDENT_MESSAGES
from termal.rules.overview import byte_of, kind_of
from termal.rules.preview import preview_of
from termal.rules.prompt_history import bounded, prompt_in
from termal.store.writer import Writer
from termal.wire import transcript_operations as ops
from termal.wire.codec import encode_json
from termal.wire.errors import Busy, Conflict, Internal, TermalError, TooMany, Unprocessable
from termal.wire.turns import Anything, JsonReply
from workers.state import import_rows
from workers.state.change import Book
from workers.state.import_rows import MessageRow
from workers.state.indexer import Indexer
from workers.state.rows import decode_message
from workers.state.session_record import SessionRecord

UNDER_WAY = 2
GONE = "importGone"
IDLE_S = 60.0
"""Nothing came for so long: whoever sent it is gone."""

_decode_header = msgspec.json.Decoder(dict[str, Any]).decode


class _Import:
    """What is known of a session on its way in. ``working``: a slice of it is being written."""

    __slots__ = ("count", "history", "id", "key", "newest", "preview", "seen_s", "session", "working")

    def __init__(self, key: str, session: Session) -> None:
        self.id = new_instance_id()
        self.key = key
        self.session = session
        self.count = 0
        self.newest: deque[Message] = deque(maxlen=RESIDENT_MESSAGES)
        self.history: list[str] = []
        self.preview = wording.READY
        self.seen_s = time.monotonic()
        self.working = True

    def take(self, message: Message) -> MessageRow:
        """The row of the next message."""
        position = self.count
        self.count += 1
        self.newest.append(message)
        prompt = prompt_in(message)
        if prompt is not None:
            self.history = bounded([*self.history, prompt])
        self.preview = preview_of(message) or self.preview
        text = encode_json(message).decode()
        return self.session.id, position, message.id, text, kind_of(message), int(message.author == "you")

    def record(self) -> SessionRecord:
        session = msgspec.structs.replace(self.session, preview=self.preview)
        record = SessionRecord(session, stored_as(session, self.key))
        record.start = self.count - len(self.newest)
        record.messages = list(self.newest)
        record.positions = {message.id: at for at, message in enumerate(record.messages, record.start)}
        record.history = self.history
        record.dirty_history = bool(self.history)
        return record


class Imports:
    def __init__(
        self, book: Book, writer: Writer, indexer: Indexer, *, loop: Loop, default_workdir: str, log: Log
    ) -> None:
        self._book = book
        self._writer = writer
        self._indexer = indexer
        self._loop = loop
        self._default_workdir = default_workdir
        self._log = log
        self._imports: dict[str, _Import] = {}
        self._cleaned = False
        book.journal.on_room.append(self._started)

    def table(self) -> dict[str, Handler]:
        return {
            ops.IMPORT_BEGIN.name: self.begin,
            ops.IMPORT_MESSAGES.name: self.messages,
            ops.IMPORT_FINISH.name: self.finish,
            ops.IMPORT_ABORT.name: self.abort,
        }

    # --------------------------------------------------------------------- requests

    def begin(self, request: Request, body: ops.BeginImport) -> None:
        """The handler of ``import.begin``. A key whose import is complete is answered with its session."""
        created = self._created(body.key)
        if created is not None:
            begun = ops.ImportBegun("", created.json)
            self._book.journal.stored(lambda: request.reply(begun))
            return
        if any(running.key == body.key for running in self._imports.values()):
            raise Conflict("an import with this key is under way", reason="importUnderWay")
        if len(self._imports) >= UNDER_WAY:
            raise TooMany(f"{UNDER_WAY} imports are under way; try again in a moment", reason="imports")
        running = _Import(body.key, self._session(body.session))
        self._imports[running.id] = running
        self._book.registry.hidden.add(running.session.id)
        self._loop.later(IDLE_S, lambda: self._end_if_idle(running))
        session_id = running.session.id
        begun = ops.ImportBegun(running.id)
        self._write(request, running, lambda connection: import_rows.begin(connection, session_id), begun)

    def messages(self, request: Request, body: ops.ImportMessages) -> None:
        """The handler of ``import.messages``. A line that is no message ends the whole import."""
        running = self._running(body.import_id)
        if running.working:
            raise Busy("the slice before is still being written", reason="importUnderWay")
        if body.first + len(body.lines) == running.count:
            request.reply(Anything())
            return
        if body.first != running.count or not body.lines:
            raise Conflict(f"the next message is at position {running.count}", reason="importPosition")
        running.working = True
        try:
            rows, overview = self._rows(running, body)
        except TermalError:
            running.working = False
            self._drop(running)
            raise
        session_id = running.session.id
        self._book.journal.touch_metadata()
        self._write(
            request, running, lambda connection: import_rows.append(connection, session_id, rows, overview), Anything()
        )

    def finish(self, request: Request, body: ops.FinishImport) -> None:
        """The handler of ``import.finish``: one commit makes the session one like all others."""
        created = self._created(body.key)
        if created is not None:
            known = created
            self._book.journal.stored(lambda: request.reply(known))
            return
        running = self._running(body.import_id)
        if running.working or body.count != running.count:
            raise Conflict(f"{running.count} messages are stored, not {body.count}", reason="importPosition")
        del self._imports[running.id]
        record = running.record()
        change = self._book.change()
        change.create(record)
        change.commit()
        reply = JsonReply(self._book.projections.created(record))

        def shown() -> None:
            self._book.registry.hidden.discard(record.id)
            request.reply(reply)

        self._book.journal.after(shown)

    def abort(self, request: Request, body: ops.AbortImport) -> None:
        """The handler of ``import.abort``: its rows go in the background."""
        running = self._imports.get(body.import_id)
        if running is not None:
            self._drop(running)
        request.reply(Anything())

    # ------------------------------------------------------------------------ parts

    def _created(self, key: str) -> JsonReply | None:
        registry = self._book.registry
        known = registry.created_by_key.get(key)
        record = registry.sessions.get(known) if known is not None else None
        return JsonReply(self._book.projections.created(record)) if record is not None else None

    def _running(self, import_id: str) -> _Import:
        running = self._imports.get(import_id)
        if running is None:
            # No `Busy`: of a repeated request the caller would take it for an outcome that nobody knows.
            raise Conflict("the import was interrupted and nothing of it is kept", reason=GONE)
        running.seen_s = time.monotonic()
        return running

    def _session(self, header: bytes) -> Session:
        """Everything is checked before a number is taken. Raises `Unprocessable`, `Bad`."""
        try:
            fields = _decode_header(header)
            workdir = self._workdir(fields.get("workdir"))
            imported(fields, "", workdir)
            return imported(fields, self._book.registry.new_session_id(), workdir)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise Unprocessable(f"the header has no usable session: {error}", reason="importHeader") from error

    def _workdir(self, wanted: Any) -> str:
        """The exported directory where there is one here, else the daemon's own."""
        try:
            if isinstance(wanted, str) and Path(wanted).is_absolute() and Path(wanted).is_dir():
                return str(Path(wanted).resolve())
        except (OSError, ValueError):
            # A path that this machine cannot even have is no directory of it.
            pass
        return self._default_workdir

    def _rows(self, running: _Import, body: ops.ImportMessages) -> tuple[list[MessageRow], bytes]:
        messages = []
        for number, line in enumerate(body.lines, body.first + 2):
            try:
                messages.append(decode_message(line))
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                raise Unprocessable(f"line {number} is no message: {error}", reason="importLine") from error
        new_id = self._book.registry.new_message_id
        taken = [renumbered(message, new_id()) for message in messages]
        return [running.take(message) for message in taken], bytes(byte_of(message) for message in taken)

    def _write(self, request: Request, running: _Import, job: Callable[[Any], None], reply: Any) -> None:
        def done(_: None, error: Exception | None) -> None:
            running.working = False
            if error is not None:
                self._log.error("import.failed", error=repr(error))
                self._drop(running)
                failed = Internal("the import cannot be stored; nothing of it is kept")
                request.refuse(error if isinstance(error, TermalError) else failed)
            elif running.id in self._imports:
                self._indexer.poke()
                request.reply(reply)
            else:
                request.refuse(Conflict("the import was ended; nothing of it is kept", reason=GONE))
                self._remove(running.session.id)

        self._writer.submit(job, done)

    # ---------------------------------------------------------------------- removal

    def _end_if_idle(self, running: _Import) -> None:
        if running.id not in self._imports:
            return
        left_s = running.seen_s + IDLE_S - time.monotonic()
        if left_s > 0:
            self._loop.later(left_s, lambda: self._end_if_idle(running))
        else:
            self._log.warning("import.abandoned", messages=running.count)
            self._drop(running)

    def _drop(self, running: _Import) -> None:
        self._imports.pop(running.id, None)
        self._book.registry.hidden.discard(running.session.id)
        if not running.working:
            self._remove(running.session.id)

    def _remove(self, session_id: str) -> None:
        def done(more: bool | None, error: Exception | None) -> None:
            if error is not None:
                # Its rows are hidden, and the next start tries again.
                self._log.error("import.not_removed", sessionId=session_id, error=repr(error))
            elif more:
                self._remove(session_id)
            else:
                self._book.registry.quarantined.discard(session_id)
                self._indexer.poke()

        self._writer.submit(lambda connection: import_rows.remove(connection, session_id), done)

    def _started(self) -> None:
        """The first commit of a start: what an earlier life left unfinished may be removed now."""
        if self._cleaned:
            return
        self._cleaned = True
        set_aside = sorted(self._book.registry.quarantined)

        def done(found: list[str] | None, error: Exception | None) -> None:
            if error is not None:
                self._log.error("import.not_removed", error=repr(error))
            for session_id in found or []:
                self._remove(session_id)

        if set_aside:
            self._writer.submit(lambda connection: import_rows.abandoned(connection, set_aside), done)
