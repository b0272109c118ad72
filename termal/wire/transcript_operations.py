"""Search over all transcripts; export and import of one session."""

import msgspec

from termal.wire.operation import read, write
from termal.wire.turns import Anything, JsonReply


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """``query`` is what a person typed; ``cursor`` the ``nextCursor`` of the page before."""

    query: str
    session_id: str | None = None
    limit: int = 20
    cursor: str | None = None


class ReadExport(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a transcript as lines. The first one has no ``count``; the following ones repeat the first's count and
    name the last message that was read: a transcript that was replaced meanwhile is found out."""

    session_id: str
    position: int = 0
    count: int | None = None
    after: str | None = None


class ExportPage(msgspec.Struct, frozen=True):
    """``lines`` are whole lines of JSON up to the position ``next``; ``header`` is empty after the first page."""

    header: bytes
    count: int
    lines: bytes
    next: int
    last: str | None


class BeginImport(msgspec.Struct, frozen=True):
    """``session`` is the JSON of a header's session. ``key`` makes a repeat find what the first attempt made."""

    key: str
    session: bytes


class ImportBegun(msgspec.Struct, frozen=True):
    """``created`` is the final reply where an earlier attempt with this key has come to its end."""

    import_id: str
    created: bytes | None = None


class ImportMessages(msgspec.Struct, frozen=True):
    """``first`` is the position of the first line: a slice that came before is known."""

    import_id: str
    first: int
    lines: list[bytes]


class FinishImport(msgspec.Struct, frozen=True):
    import_id: str
    key: str
    count: int


class AbortImport(msgspec.Struct, frozen=True):
    import_id: str


SEARCH = read("search.find", Search, JsonReply)
EXPORT_READ = read("export.page", ReadExport, ExportPage)
IMPORT_BEGIN = write("import.begin", BeginImport, ImportBegun, repeatable=True)
IMPORT_MESSAGES = write("import.messages", ImportMessages, Anything, repeatable=True)
IMPORT_FINISH = write("import.finish", FinishImport, JsonReply, repeatable=True)
IMPORT_ABORT = write("import.abort", AbortImport, Anything, repeatable=True)
