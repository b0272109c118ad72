"""Rows of mailboxes and boards put into a file while nobody works on it; ids and times are those of the arguments."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from termal.home import find_home, prepare
from termal.log import Log
from termal.store.connection import Cursorlike, open_writer
from workers.coordination.bootstrap import bootstrap

TIME = "2026-01-01T00:00:00.000000000+00:00"
BOARD_TIME = "2026-01-01T00:00:00.000Z"


@contextmanager
def coordination_file(home_dir: Path) -> Iterator[Cursorlike]:
    """``coordination.sqlite`` of a home as a first start leaves it, in one transaction of the block."""
    home = find_home(str(home_dir))
    prepare(home)
    with closing(Log("test", home_dir / "logs" / "test.log")) as log:
        bootstrap(home, durability="normal", log=log)
    connection = open_writer(home.coordination_db, durability="normal")
    try:
        with connection:
            yield connection
    finally:
        connection.close()


def add_mailbox(connection: Cursorlike, first: str, second: str, *, cursors: tuple[int, int] = (0, 0)) -> str:
    """An empty mailbox of two sessions; its id."""
    first, second = sorted((first, second))
    mailbox_id = f"mailbox-{first}-{second}"
    connection.execute(
        "INSERT INTO mailboxes (id, participant_key, created_at, next_sequence) VALUES (?, ?, ?, 1)",
        (mailbox_id, f'["{first}","{second}"]', TIME),
    )
    for session_id, cursor in zip((first, second), cursors, strict=True):
        connection.execute(
            "INSERT INTO mailbox_participants (mailbox_id, session_id, display_name, joined_at, processed_through)"
            " VALUES (?, ?, ?, ?, ?)",
            (mailbox_id, session_id, session_id, TIME, cursor),
        )
    return mailbox_id


def add_message(
    connection: Cursorlike,
    mailbox_id: str,
    sender: str,
    target: str,
    *,
    body: str = "hello",
    topic: str | None = None,
    state: str = "durableButNotWoken",
    outcome: str | None = None,
) -> str:
    """The next message of a mailbox; its id."""
    sequence = connection.execute("SELECT next_sequence FROM mailboxes WHERE id = ?", (mailbox_id,)).get
    message_id = f"mailbox-message-{mailbox_id}-{sequence}"
    columns = {
        "id": message_id,
        "mailbox_id": mailbox_id,
        "sequence": sequence,
        "sender_session_id": sender,
        "sender_name": sender,
        "target_session_id": target,
        "target_name": target,
        "created_at": TIME,
        "class": "routine",
        "topic": topic,
        "body": body,
        "idempotency_key": message_id,
        "unread_depth_at_append": 1,
        "notification_disposition": state,
    }
    if outcome is not None:
        columns["dispatch_outcome"] = outcome
    names, marks = ", ".join(columns), ", ".join("?" * len(columns))
    connection.execute(f"INSERT INTO mailbox_messages ({names}) VALUES ({marks})", tuple(columns.values()))
    connection.execute("UPDATE mailboxes SET next_sequence = next_sequence + 1 WHERE id = ?", (mailbox_id,))
    return message_id


def add_board(connection: Cursorlike, scope_id: str, *, keys: int) -> None:
    """A scope with ``keys`` heads at revision 2, each with its revision 1 behind it and the receipt of one write."""
    connection.execute("INSERT INTO coordination_board_scopes (scope_id, generation) VALUES (?, ?)", (scope_id, keys))
    for table, revision in (("entries", 2), ("history", 1)):
        connection.executemany(
            f"INSERT INTO coordination_board_{table} (scope_id, key, revision, generation, value_json,"
            " author_session_id, author_name, updated_at) VALUES (?, ?, ?, ?, '1', 'session-1', 'One', ?)",
            ((scope_id, f"key-{number}", revision, number + 1, BOARD_TIME) for number in range(keys)),
        )
    connection.executemany(
        "INSERT INTO coordination_board_idempotency (scope_id, author_session_id, idempotency_key, request_hash,"
        " receipt_json, created_at) VALUES (?, 'session-1', ?, '', '{}', ?)",
        ((scope_id, f"key-{number}", BOARD_TIME) for number in range(keys)),
    )
