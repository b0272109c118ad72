"""Search, export and import put together: they share one index, and nothing else of the worker knows of it."""

from termal.bus.loop import Loop
from termal.bus.server import Handler
from termal.log import Log
from termal.store.reader import Reader
from termal.store.writer import Writer
from workers.state.change import Book
from workers.state.export import Export
from workers.state.import_session import Imports
from workers.state.indexer import Indexer
from workers.state.search import Search

TRANSCRIPTS = (
    "search.find",
    "export.page",
    "import.begin",
    "import.messages",
    "import.finish",
    "import.abort",
)
"""The operations that are served here."""


def transcript_handlers(
    book: Book, reader: Reader, writer: Writer, *, loop: Loop, default_workdir: str, log: Log
) -> dict[str, Handler]:
    indexer = Indexer(loop, writer, book.journal, log)
    imports = Imports(book, writer, indexer, loop=loop, default_workdir=default_workdir, log=log)
    return {
        **Search(book, reader, indexer, log).table(),
        **Export(book, reader, log).table(),
        **imports.table(),
    }
