"""The writes of boards, on the writer's thread: receipts, compare-and-swap, history, generations. Asks nobody.

Nothing is changed before everything was checked, so a refused write is a result of its job and no failure of it.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from termal.model.board import BoardReceipt
from termal.rules.board_write import HISTORY, RECEIPTS, Known, Verdict, decide
from termal.store.connection import Cursorlike
from termal.wire.board_operations import BoardWritten
from termal.wire.codec import encode_json
from termal.wire.errors import TermalError
from workers.coordination import board_refusal
from workers.coordination.board_clock import now_text
from workers.coordination.board_rows import COLUMNS, is_fenced, read_generation, read_head

MOST_SCOPES = 16
"""Whose figures are remembered, some 170 KiB each."""
_receipts = msgspec.json.Decoder(BoardReceipt)

_RECEIPT = (
    "SELECT request_hash, receipt_json FROM coordination_board_idempotency"
    " WHERE scope_id = ? AND author_session_id = ? AND idempotency_key = ?"
)
_SCOPE = (
    "INSERT INTO coordination_board_scopes (scope_id, generation) VALUES (?, ?)"
    " ON CONFLICT (scope_id) DO UPDATE SET generation = excluded.generation"
)
_KEEP_HEAD = (
    f"INSERT INTO coordination_board_history (scope_id, {COLUMNS})"  # noqa: S608 - constants
    f" SELECT scope_id, {COLUMNS} FROM coordination_board_entries WHERE scope_id = ? AND key = ?"
)
_HEAD = (
    f"INSERT OR REPLACE INTO coordination_board_entries (scope_id, {COLUMNS})"  # noqa: S608 - constants
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_FORGET_HISTORY = "DELETE FROM coordination_board_history WHERE scope_id = ? AND key = ? AND revision <= ?"
_KEEP_RECEIPT = (
    "INSERT INTO coordination_board_idempotency"
    " (scope_id, author_session_id, idempotency_key, request_hash, receipt_json, created_at) VALUES (?, ?, ?, ?, ?, ?)"
)
_FORGET_RECEIPT = "DELETE FROM coordination_board_idempotency WHERE rowid = ?"


class Intent(NamedTuple):
    """One write, checked. ``value`` is canonical JSON, None for a delete."""

    scope_id: str
    key: str
    expected_revision: int
    idempotency_key: str
    value: bytes | None
    state_stamp: str | None
    author_id: str
    author_name: str
    request_hash: str


class BoardStore:
    """What the only writer remembers of its scopes. ``now`` is the text of this moment; nothing is ordered by it."""

    def __init__(self, now: Callable[[], str] = now_text) -> None:
        self._now = now
        self._scopes: dict[str, _Scope] = {}

    def forget(self) -> None:
        """A write was rolled back: what is remembered may be of it."""
        self._scopes.clear()

    def write(self, connection: Cursorlike, intent: Intent) -> BoardWritten | TermalError:
        """The receipt, new or as it was, or why there is none. Nothing was changed in the last case."""
        if is_fenced(connection, intent.scope_id):
            self._scopes.pop(intent.scope_id, None)
            return board_refusal.scope_gone()
        scope = self._scope(connection, intent.scope_id)
        known = connection.execute(_RECEIPT, (intent.scope_id, intent.author_id, intent.idempotency_key)).fetchone()
        if known is not None:
            request_hash, receipt = known
            if request_hash != intent.request_hash:
                return board_refusal.key_reused(scope.generation)
            return BoardWritten(encode_json(replace(_receipts.decode(receipt), duplicate=True)), created=False)
        head = read_head(connection, intent.scope_id, intent.key)
        verdict = decide(
            None if head is None else Known(head.revision, not head.deleted),
            intent.expected_revision,
            delete=intent.value is None,
            names=scope.names,
            live=scope.live,
        )
        if verdict is not Verdict.WRITE:
            return board_refusal.not_written(verdict, intent.key, intent.expected_revision, head, scope.generation)
        if head is None:
            scope.names += 1
        scope.live += (intent.value is not None) - (head is not None and not head.deleted)
        scope.generation += 1
        return self._put(connection, intent, scope, replaces=head is not None)

    def _put(self, connection: Cursorlike, intent: Intent, scope: "_Scope", *, replaces: bool) -> BoardWritten:
        revision = intent.expected_revision + 1
        receipt = BoardReceipt(
            key=intent.key,
            revision=revision,
            prior_revision=intent.expected_revision,
            generation=scope.generation,
            value=Raw(b"null" if intent.value is None else intent.value),
            deleted=intent.value is None,
            author_session_id=intent.author_id,
            author_name=intent.author_name,
            updated_at=self._now(),
            state_stamp=UNSET if intent.state_stamp is None else intent.state_stamp,
        )
        connection.execute(_SCOPE, (intent.scope_id, scope.generation))
        self._put_head(connection, intent, receipt, replaces=replaces)
        final = encode_json(receipt)
        self._put_receipt(connection, intent, scope, final.decode(), receipt.updated_at)
        return BoardWritten(final, created=not replaces)

    @staticmethod
    def _put_head(connection: Cursorlike, intent: Intent, receipt: BoardReceipt, *, replaces: bool) -> None:
        place = (intent.scope_id, intent.key)
        if replaces and intent.value is not None:
            connection.execute(_KEEP_HEAD, place)
        value = None if intent.value is None else intent.value.decode()
        author = (intent.author_id, intent.author_name, receipt.updated_at, intent.state_stamp)
        connection.execute(_HEAD, (*place, receipt.revision, receipt.generation, value, *author))
        gone = receipt.prior_revision if intent.value is None else receipt.prior_revision - HISTORY
        if gone > 0:
            connection.execute(_FORGET_HISTORY, (*place, gone))

    @staticmethod
    def _put_receipt(connection: Cursorlike, intent: Intent, scope: "_Scope", receipt: str, at: str) -> None:
        by = (intent.scope_id, intent.author_id, intent.idempotency_key)
        connection.execute(_KEEP_RECEIPT, (*by, intent.request_hash, receipt, at))
        scope.receipts.append(connection.last_insert_rowid())
        while len(scope.receipts) > RECEIPTS:
            connection.execute(_FORGET_RECEIPT, (scope.receipts.popleft(),))

    def _scope(self, connection: Cursorlike, scope_id: str) -> "_Scope":
        # PERF: counted once; a count of 4,096 receipts at each write would cost more than the write.
        scope = self._scopes.pop(scope_id, None)
        if scope is None:
            scope = _read_scope(connection, scope_id)
            while len(self._scopes) >= MOST_SCOPES:
                del self._scopes[next(iter(self._scopes))]
        self._scopes[scope_id] = scope
        return scope


class _Scope:
    """``receipts`` are row ids, oldest first: they grow in the order of insertion, whatever the clock does."""

    __slots__ = ("generation", "live", "names", "receipts")

    def __init__(self, generation: int, names: int, live: int, receipts: deque[int]) -> None:
        self.generation = generation
        self.names = names
        self.live = live
        self.receipts = receipts


def _read_scope(connection: Cursorlike, scope_id: str) -> _Scope:
    names, live = connection.execute(
        "SELECT count(*), count(value_json) FROM coordination_board_entries WHERE scope_id = ?", (scope_id,)
    ).get
    rows = connection.execute(
        "SELECT rowid FROM coordination_board_idempotency WHERE scope_id = ? ORDER BY rowid", (scope_id,)
    )
    return _Scope(read_generation(connection, scope_id), names, live, deque(row[0] for row in rows))
