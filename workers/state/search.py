"""Searching the transcripts: the request checked, the index caught up, one read at a time, hits as final JSON bytes."""

from collections import deque
from collections.abc import Callable
from typing import Any

from msgspec import UNSET

from termal.bus.server import Handler, Request
from termal.log import Log
from termal.model.search import Hit, SearchResponse
from termal.rules.search_query import Term, expression, scope_of, terms_of
from termal.rules.search_text import search_text
from termal.rules.snippet import snippet_of
from termal.rules.verdicts import Bad
from termal.store.connection import BROKEN, Cursorlike
from termal.store.reader import Reader
from termal.store.time_limit import time_limit
from termal.wire import transcript_operations as ops
from termal.wire.codec import encode_json
from termal.wire.errors import Busy, Internal, TermalError, TooMany
from termal.wire.turns import JsonReply
from workers.state.change import Book
from workers.state.indexer import Indexer
from workers.state.search_index import Place, find

UNDER_WAY = 4
LIMIT = 64
LIMIT_S = 1.0
"""For one search on its thread; four of them take longer than a read may wait, and say so."""

Hits = tuple[list[tuple[Place, Hit]], bool, bool]
"""The hits, whether there are older ones, whether the index is complete."""


class Search:
    """One search reads at a time: the other thread of the reader is left for transcripts."""

    def __init__(self, book: Book, reader: Reader, indexer: Indexer, log: Log) -> None:
        self._book = book
        self._reader = reader
        self._indexer = indexer
        self._log = log
        self._under_way = 0
        self._reading = False
        self._queue: deque[Callable[[], None]] = deque()

    def table(self) -> dict[str, Handler]:
        return {ops.SEARCH.name: self.search}

    def search(self, request: Request, body: ops.Search) -> None:
        """The handler of ``search.find``."""
        if not 1 <= body.limit <= LIMIT:
            raise Bad(f"limit must be from 1 to {LIMIT}", reason="query")
        terms = terms_of(body.query)
        before = _document(body.cursor)
        scope = None
        if body.session_id is not None:
            scope = scope_of(self._book.registry.find(body.session_id).id)
        if self._under_way >= UNDER_WAY:
            raise TooMany(f"{UNDER_WAY} searches are under way; try again in a moment", reason="searches")
        self._under_way += 1
        match = expression(terms, scope)
        self._indexer.catch_up(lambda: self._enqueue(request, lambda: self._read(request, terms, match, before, body)))

    def _enqueue(self, request: Request, read: Callable[[], None]) -> None:
        self._queue.append(read)
        self._next()

    def _next(self) -> None:
        if self._queue and not self._reading:
            self._reading = True
            self._queue.popleft()()

    def _read(self, request: Request, terms: list[Term], match: str, before: int | None, body: ops.Search) -> None:
        names = {record.id: record.session.name for record in self._book.registry.sessions.values()}

        def job(connection: Cursorlike) -> Hits:
            with time_limit(connection, LIMIT_S):
                found = find(connection, match, before, body.limit, names.keys())
            return [(place, _hit(place, terms, names)) for place in found.places], found.more, found.complete

        def done(hits: Hits | None, error: Exception | None) -> None:
            self._under_way -= 1
            self._reading = False
            self._next()
            if hits is None:
                request.refuse(self._failure(error))
            else:
                request.reply(JsonReply(self._reply(*hits)))

        self._reader.submit(job, done, deadline_s=request.deadline_s)

    def _reply(self, hits: list[tuple[Place, Hit]], more: bool, complete: bool) -> bytes:
        # A session may have been removed while its rows were read.
        sessions = self._book.registry.sessions
        return encode_json(
            SearchResponse(
                hits=[hit for _, hit in hits if hit.session_id in sessions],
                complete=complete,
                next_cursor=str(hits[-1][0].document) if more and hits else UNSET,
            )
        )

    def _failure(self, error: Exception | None) -> TermalError:
        if isinstance(error, TermalError):
            return error
        if isinstance(error, BROKEN):
            self._indexer.rebuild()
            return Busy(
                "the index is damaged and is made anew; nothing else is", code="no_mutation_attempted", reason="index"
            )
        self._log.error("search.failed", error=repr(error))
        return Internal("the search failed; the log of the daemon says why")


def _hit(place: Place, terms: list[Term], names: dict[str, Any]) -> Hit:
    message = place.message
    return Hit(
        session_id=place.session_id,
        session_name=names[place.session_id],
        message_id=message.id,
        position=place.position,
        author=message.author,
        type=str(type(message).__struct_config__.tag),
        timestamp=message.timestamp or UNSET,
        snippet=snippet_of(search_text(message), terms),
    )


def _document(cursor: str | None) -> int | None:
    """Raises `Bad`."""
    if cursor is None:
        return None
    digits = cursor.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
        raise Bad("the cursor is none that a search has given", reason="query")
    return int(cursor)
