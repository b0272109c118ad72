"""Files that change below the directories of sessions: hints for clients, and one message for each turn.

A hint is passed on and forgotten. The message comes with the end of the turn; what changes right after it is put into
the same message.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from termal.bus.server import Handler, Request
from termal.model.files import FilesChanged, WorkspaceChange
from termal.model.message import ChangedFile, FileChanges
from termal.rules.file_changes import FileKind, merged, title_of
from termal.wire.codec import encode_json
from termal.wire.events import Published
from termal.wire.turns import Anything, TouchedFile, TurnEnded, TurnReport
from termal.wire.workspace_operations import TURN_TOUCHED, WORKSPACE_CHANGED, TurnTouched, WorkspaceChanged
from workers.state.change import Book, Change
from workers.state.clock import now_text
from workers.state.registry import Registry
from workers.state.session_record import SessionRecord

FILE_OPERATIONS = (WORKSPACE_CHANGED.name, TURN_TOUCHED.name)
NO_END = TurnEnded("completed")


class Workspace:
    def __init__(self, book: Book, publish: Callable[[Published], None]) -> None:
        self._book = book
        self._publish = publish
        self._hints = 0

    def table(self) -> Mapping[str, Handler]:
        return {WORKSPACE_CHANGED.name: self._changed, TURN_TOUCHED.name: self._touched}

    def late(self, record: SessionRecord, turn_id: str, files: Sequence[TouchedFile], more: bool) -> None:
        """Files of a turn whose end is stored already; nothing once another prompt has come."""
        turn, last = record.turn, record.last_turn
        if turn is not None:
            belongs = turn.id == turn_id and turn.phase == "ended"
        else:
            belongs = last is not None and last.turn_id == turn_id
        if not belongs or not (files or more):
            return
        change = self._book.change()
        position = _of_newest_turn(record)
        if position is None:
            add_files(self._book.registry, change, record, files, more)
        else:
            message = record.at(position)
            assert isinstance(message, FileChanges)
            grown = _with(message, files, more)
            if grown != message:
                change.update(record, position, grown, preview=False)
        if not change.empty:
            change.commit()

    def _changed(self, request: Request, body: WorkspaceChanged) -> None:
        """The handler of ``workspace.changed``."""
        sessions = [session for session in body.session_ids if session in self._book.registry.sessions]
        if sessions:
            self._hints += 1
            # Of several sessions in one directory nobody knows whose agent it was.
            session: str | UnsetType = sessions[0] if len(sessions) == 1 else UNSET
            hint = FilesChanged(
                revision=self._hints,
                changes=[
                    WorkspaceChange(
                        path=f"{body.root}/{change.path}",
                        kind=change.kind,
                        root_path=body.root,
                        session_id=session,
                        mtime_ms=UNSET if change.mtime_ms is None else change.mtime_ms,
                        size_bytes=UNSET if change.size_bytes is None else change.size_bytes,
                    )
                    for change in body.changes
                ],
                overflow=[body.root] if body.overflow else UNSET,
            )
            self._publish(Published("workspaceFilesChanged", self._book.registry.revision, encode_json(hint)))
        request.reply(Anything())

    def _touched(self, request: Request, body: TurnTouched) -> None:
        """The handler of ``turn.touched``."""
        record = self._book.registry.sessions.get(body.session_id)
        if record is not None:
            self.late(record, body.turn_id, body.files, body.more)
        self._book.journal.stored(lambda: request.reply(Anything()))


def add_files(
    registry: Registry, change: Change, record: SessionRecord, files: Sequence[TouchedFile], more: bool
) -> None:
    """Append what a turn changed, if it changed anything."""
    if not (files or more):
        return
    message = FileChanges(
        id=registry.new_message_id(),
        timestamp=now_text(),
        author="assistant",
        title=title_of(len(files), more=more),
        files=[ChangedFile(path=file.path, kind=file.kind) for file in files],
    )
    change.append(record, message)


def end_among(reports: Iterable[TurnReport]) -> TurnEnded:
    """The end of the turn in ``reports`` that came while it was being stopped; one without files when it did not."""
    ends = (event for report in reports for event in report.events if isinstance(event, TurnEnded))
    return next(ends, NO_END)


def _of_newest_turn(record: SessionRecord) -> int | None:
    """Where its files are told, None when they are not."""
    for position in range(record.count - 1, record.start - 1, -1):
        message = record.at(position)
        if isinstance(message, FileChanges):
            return position
        if message.author == "you":
            return None
    return None


def _with(message: FileChanges, files: Sequence[TouchedFile], more: bool) -> FileChanges:
    known: dict[str, FileKind] = {file.path: file.kind for file in message.files}
    had_more = message.title == title_of(len(message.files), more=True)
    fits = merged(known, ((file.path, file.kind) for file in files))
    return replace(
        message,
        title=title_of(len(known), more=more or had_more or not fits),
        files=[ChangedFile(path=path, kind=kind) for path, kind in sorted(known.items())],
    )
