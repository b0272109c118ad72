"""Which sessions at rest have mail that they do not work on, and why, as ``termal doctor`` tells it."""

import json
from pathlib import Path
from typing import Any

import apsw
import pytest

from termal.cli.checks import check_waiting_mail
from termal.home import Home, prepare
from tests.support.coordination_rows import add_mailbox, add_message
from workers.coordination.schema import create_tables


@pytest.fixture
def home(home_dir: Path) -> Home:
    found = Home(home_dir)
    prepare(found)
    for path in (found.termal_db, found.coordination_db):
        apsw.Connection(str(path)).close()
        path.touch(mode=0o600)
    with apsw.Connection(str(found.termal_db)) as connection:
        connection.execute("CREATE TABLE sessions (id TEXT PRIMARY KEY, value_json TEXT NOT NULL)")
    connection.close()
    with apsw.Connection(str(found.coordination_db)) as connection:
        create_tables(connection)
        add_message(connection, add_mailbox(connection, "a", "b"), "a", "b", state="recoveredWake")
    connection.close()
    return found


def put(home: Home, status: str, *, queued: bool = False, blocked: bool = False, state: str = "recoveredWake") -> None:
    wake = {"source": "mailbox", "pending_prompt": {"source": {"mailbox": {"mailboxId": "mailbox-a-b"}}}}
    row: dict[str, Any] = {"session": {"name": "B", "status": status}}
    if queued:
        row["queuedPrompts"] = [wake, {"source": "user", "pending_prompt": {"text": "x"}}]
    if blocked:
        row["orchestratorAutoDispatchBlocked"] = True
    with apsw.Connection(str(home.termal_db)) as connection:
        connection.execute("INSERT INTO sessions VALUES ('b', ?)", (json.dumps(row),))
    connection.close()
    with apsw.Connection(str(home.coordination_db)) as connection:
        connection.execute("UPDATE mailbox_messages SET notification_disposition = ?", (state,))
    connection.close()


def told(home: Home) -> list[str]:
    return [finding.text for finding in check_waiting_mail(home)]


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"queued": True}, "a wake waits for its next prompt"),
        ({"queued": True, "blocked": True}, "its queue is stopped"),
        ({"state": "durableButNotWoken"}, "nobody told it of that"),
    ],
    ids=["queued", "blocked", "never woken"],
)
def test_a_session_at_rest_with_mail_is_named_with_the_reason(home: Home, how: dict[str, Any], why: str) -> None:
    put(home, "idle", **how)
    (finding,) = check_waiting_mail(home)
    assert finding.text == f"b has 1 unread since 2026-01-01T00:00:00.000000000+00:00: {why}"
    assert finding.level == "hint"
    assert "termal send b" in finding.advice


@pytest.mark.parametrize(
    ("status", "how"),
    [("active", {"queued": True}), ("idle", {"state": "deliveredToIdleSession"})],
    ids=["at work", "told and not done"],
)
def test_nothing_is_owed_to_who_works_or_was_told(home: Home, status: str, how: dict[str, Any]) -> None:
    put(home, status, **how)
    assert told(home) == []


def test_files_that_are_not_there_or_no_databases_are_other_checks_business(home_dir: Path, home: Home) -> None:
    assert told(Home(home_dir / "elsewhere")) == []
    home.coordination_db.write_bytes(b"no database" * 1000)
    assert told(home) == []
