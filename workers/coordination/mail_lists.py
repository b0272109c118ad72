"""Lists of mailboxes as they were last read, with what was written since: only that is read again.

A mailbox is marked from the callback of each commit that changes it, so a list that is asked for after the answer to
a write has that write. Belongs to the loop's thread.
"""

import time
from collections.abc import Callable, Iterable, Sequence

from termal.store.reader import Reader
from workers.coordination.mail_counts import UnreadCounts
from workers.coordination.mail_reads import Piece, pieces

KEPT = 20_000
"""Mailboxes in all lists that are remembered, each about half a KiB."""

Listed = Callable[[bytes | None, Exception | None], None]
Changed = Callable[[str, tuple[str, ...]], None]
"""Told of a mailbox that was written, and of its participants."""


class Lists:
    def __init__(self, reader: Callable[[], Reader], counts: UnreadCounts) -> None:
        self._reader = reader
        self._counts = counts
        self._lists: dict[str, _List] = {}

    def changed(self, mailbox_id: str, session_ids: Iterable[str]) -> None:
        """A commit changed what these sessions see of a mailbox."""
        for session_id in session_ids:
            known = self._lists.get(session_id)
            if known is not None:
                known.changed.add(mailbox_id)

    def forget(self) -> None:
        """Participants were changed in ways that nobody told one by one."""
        for known in self._lists.values():
            known.whole = False

    def list(self, session_id: str, limit_s: float, listed: Listed) -> None:
        """The final JSON of the list, newest mail first."""
        known = self._lists.pop(session_id, None) or _List()
        # Used last, dropped last.
        self._lists[session_id] = known
        if known.joined is not None and not known.stale and not known.reading:
            listed(known.joined, None)
            return
        known.waiting.append((limit_s, listed))
        if not known.reading:
            self._read(session_id, known)

    def _read(self, session_id: str, known: "_List") -> None:
        waiting, known.waiting = known.waiting, []
        changed, known.changed = known.changed, set()
        only = list(changed) if known.whole else None
        known.whole, known.reading = True, True

        def done(found: Sequence[Piece] | None, error: Exception | None) -> None:
            known.reading = False
            if found is None:
                known.whole = False
            else:
                known.take(found, only is None)
            for _, listed in waiting:
                listed(None if found is None else known.joined, error)
            if known.waiting:
                self._read(session_id, known)
            self._trim()

        self._reader().submit(
            lambda connection: pieces(connection, self._counts, session_id, only),
            done,
            deadline_s=max(time.monotonic(), *(limit_s for limit_s, _ in waiting)),
        )

    def _trim(self) -> None:
        kept = sum(len(known.pieces) for known in self._lists.values())
        for session_id, known in list(self._lists.items()):
            if kept <= KEPT:
                return
            if not known.reading:
                kept -= len(known.pieces)
                del self._lists[session_id]


class _List:
    """The mailboxes of one session. ``whole``: all but the ``changed`` ones are as they were read."""

    __slots__ = ("changed", "joined", "pieces", "reading", "waiting", "whole")

    def __init__(self) -> None:
        self.pieces: dict[str, tuple[str, bytes]] = {}
        self.changed: set[str] = set()
        self.joined: bytes | None = None
        self.whole = False
        self.reading = False
        self.waiting: list[tuple[float, Listed]] = []

    @property
    def stale(self) -> bool:
        return bool(self.changed) or not self.whole

    def take(self, found: Sequence[Piece], everything: bool) -> None:
        if everything:
            self.pieces.clear()
        for piece in found:
            if piece.json is None:
                self.pieces.pop(piece.mailbox_id, None)
            else:
                self.pieces[piece.mailbox_id] = (piece.latest_at, piece.json)
        by_id = sorted(self.pieces.items())
        by_id.sort(key=lambda item: item[1][0], reverse=True)
        self.joined = b"[" + b",".join([json for _, (_, json) in by_id]) + b"]"
