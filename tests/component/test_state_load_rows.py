"""What a start reads: the newest messages of each session, whatever history weighs. Counted, not timed."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from termal.log import Log
from tests.support.older_store import OlderStore, session
from workers.state.load import load
from workers.state.store_schema import open_store

MANY = """
WITH RECURSIVE series(value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM series WHERE value < ? - 1)
INSERT INTO messages SELECT ?, value, 'message-' || (? + value), json_object('type', 'text', 'id', 'message-' ||
  (? + value), 'timestamp', '', 'author', 'assistant', 'text', 'x'), 0, 0 FROM series
"""


class Counts:
    """What all connections did: rows that came out of `messages`, and steps of SQLite's machine in all statements."""

    def __init__(self) -> None:
        self.message_rows = 0
        self.steps = 0

    def hook(self, connection: apsw.Connection) -> None:
        connection.row_trace = self._row
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._profile)

    def _row(self, cursor: apsw.Cursor, row: Any) -> Any:
        if "FROM messages" in cursor.expanded_sql:
            self.message_rows += 1
        return row

    def _profile(self, event: dict[str, Any]) -> None:
        self.steps += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]


@contextmanager
def counted() -> Iterator[Counts]:
    counts = Counts()
    apsw.connection_hooks.append(counts.hook)
    try:
        yield counts
    finally:
        apsw.connection_hooks.remove(counts.hook)


def store(path: Path, sessions: int, messages: int) -> Path:
    """A file with ``messages`` in all, spread evenly."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    open_store(path, durability="normal")
    each = messages // sessions
    filling = OlderStore.reopen(path)
    for number in range(1, sessions + 1):
        values = {"messageCount": each, "messagesLoaded": False}
        filling.add(f"session-{number}", json.dumps(session(f"session-{number}", session=values)))
        first = number * each
        filling.run(MANY, each, f"session-{number}", first, first)
        filling.run("INSERT INTO session_overviews VALUES (?, ?)", f"session-{number}", bytes(each))
    filling.close()
    return path


def start(path: Path, sessions: int) -> Counts:
    """Open and load as the worker does."""
    log = Log("state", path.parent / "log")
    with counted() as counts:
        open_store(path, durability="normal", log=log)
        registry = load(path, log, fresh=False)
    log.close()
    assert {len(record.messages) for record in registry.sessions.values()} == {64}
    assert len(registry.sessions) == sessions
    return counts


def test_a_start_reads_64_messages_of_each_session(home_dir: Path) -> None:
    few = start(store(home_dir / "few.sqlite", 5, 500), 5)
    many = start(store(home_dir / "many.sqlite", 5, 50_000), 5)
    assert few.message_rows == many.message_rows == 5 * 64
    assert few.steps == many.steps


@pytest.mark.slow
@pytest.mark.case("S111")
def test_a_start_on_a_million_messages_reads_as_much_as_on_five_thousand(home_dir: Path) -> None:
    few = start(store(home_dir / "few.sqlite", 20, 5_000), 20)
    many = start(store(home_dir / "many.sqlite", 20, 1_000_000), 20)
    assert few.message_rows == many.message_rows == 20 * 64
    assert few.steps == many.steps
