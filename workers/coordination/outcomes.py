"""The receipts of mail that was stored before receipts were: worked out once from what had become of each message."""

from termal.store.connection import Cursorlike
from workers.coordination.schema import read_meta, write_meta

MARKER = "mailbox_dispatch_outcome_backfill_v1"
DONE = "complete"
_DOMAIN = "('durableButNotWoken', 'queuedBehindActiveTurn', 'deliveredToIdleSession')"
# The state of a row may have come from a recovery, so this is what is known best, never what a figure may be made of.
_FROM_STATE = (
    "CASE WHEN notification_disposition IN ('queuedBehindActiveTurn', 'deliveredToIdleSession')"
    " THEN notification_disposition ELSE 'durableButNotWoken' END"
)
_FROM_BOTH = f"CASE WHEN dispatch_outcome IN {_DOMAIN} THEN dispatch_outcome ELSE {_FROM_STATE} END"


def outcome_of_row(*, has_column: bool) -> str:
    """The SQL expression of a message's outcome: the stored one where it is valid, else what its state says."""
    return _FROM_BOTH if has_column else _FROM_STATE


def has_outcome(connection: Cursorlike, schema: str = "main") -> bool:
    columns = connection.execute("SELECT name FROM pragma_table_info('mailbox_messages', ?)", (schema,))
    return ("dispatch_outcome",) in columns.fetchall()


def add_outcome_column(connection: Cursorlike) -> None:
    if not has_outcome(connection):
        connection.execute("ALTER TABLE mailbox_messages ADD COLUMN dispatch_outcome TEXT")


def complete_outcomes(connection: Cursorlike) -> None:
    """Give every row an outcome, once in the life of a file: later a row without one is a send under way."""
    if read_meta(connection, MARKER) == DONE:
        return
    connection.execute(
        f"UPDATE mailbox_messages SET dispatch_outcome = {_FROM_STATE}"  # noqa: S608 - parts of ours
        f" WHERE dispatch_outcome IS NULL OR dispatch_outcome NOT IN {_DOMAIN}"
    )
    write_meta(connection, MARKER, DONE)
