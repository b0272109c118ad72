"""What must be equal between the old rows and their copy before the copy counts. Reads only."""

from typing import NamedTuple

from termal.store.connection import Cursorlike


class Check(NamedTuple):
    """``select`` is asked of both files, with the schema's name for ``{}``; the two answers must be the same set."""

    subject: str
    table: str
    select: str


_CHECKS = (
    Check("mailboxes", "mailboxes", "SELECT id, next_sequence FROM {}.mailboxes"),
    Check(
        "participants",
        "mailbox_participants",
        "SELECT mailbox_id, session_id, processed_through FROM {}.mailbox_participants",
    ),
    Check(
        "messages",
        "mailbox_messages",
        "SELECT mailbox_id, count(*), max(sequence) FROM {}.mailbox_messages GROUP BY mailbox_id",
    ),
    Check(
        "messages of each sender",
        "mailbox_messages",
        "SELECT sender_session_id, count(*) FROM {}.mailbox_messages GROUP BY sender_session_id",
    ),
    # Not the texts themselves: comparing lengths finds what a conversion would change, without sorting every body.
    Check(
        "identity of messages",
        "mailbox_messages",
        "SELECT id, mailbox_id, sequence, idempotency_key, length(CAST(body AS BLOB)) FROM {}.mailbox_messages",
    ),
    Check(
        "board scopes",
        "coordination_board_scopes",
        "SELECT scope_id, generation FROM {}.coordination_board_scopes",
    ),
    Check(
        "board heads",
        "coordination_board_entries",
        "SELECT scope_id, key, revision, generation, value_json IS NULL FROM {}.coordination_board_entries",
    ),
    Check(
        "board history",
        "coordination_board_history",
        "SELECT scope_id, key, count(*), max(revision), max(generation) FROM {}.coordination_board_history"
        " GROUP BY scope_id, key",
    ),
    Check(
        "board receipts",
        "coordination_board_idempotency",
        "SELECT scope_id, author_session_id, count(*) FROM {}.coordination_board_idempotency"
        " GROUP BY scope_id, author_session_id",
    ),
    Check(
        "deleted scopes",
        "coordination_board_deleted_scopes",
        "SELECT scope_id, deleted_at FROM {}.coordination_board_deleted_scopes",
    ),
)


def differences(connection: Cursorlike, tables: tuple[str, ...], schema: str) -> list[str]:
    """The subjects in which the attached ``schema`` and this file differ, of the ``tables`` that it has."""
    return [check.subject for check in _CHECKS if check.table in tables and _differ(connection, check.select, schema)]


def _differ(connection: Cursorlike, select: str, schema: str) -> bool:
    one, other = select.format(schema), select.format("main")
    return bool(
        connection.execute(
            # The parts are those above.
            f"SELECT EXISTS (SELECT * FROM ({one}) EXCEPT SELECT * FROM ({other}))"  # noqa: S608
            f" OR EXISTS (SELECT * FROM ({other}) EXCEPT SELECT * FROM ({one}))"
        ).get
    )
