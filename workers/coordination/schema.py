"""The tables of ``coordination.sqlite`` and the version they carry. Other files' tables are never touched here."""

from termal.model.mail import CONTROL_TOPIC, UNWOKEN
from termal.store.connection import Cursorlike
from termal.store.migration import Migrations, Version

VERSION_KEY = "coordination_schema_version"

IS_MAIL = f"topic IS NOT '{CONTROL_TOPIC}'"
NEVER_WOKEN = f"notification_disposition = '{UNWOKEN}'"
"""These two are the conditions of indexes: SQLite takes one only for a query that repeats them word by word."""

OLD_INDEX = "mailbox_messages_undelivered"
"""What earlier builds made in the place of the index of never-woken mail."""

MAILBOX_TABLES = ("mailboxes", "mailbox_participants", "mailbox_messages")
BOARD_TABLES = (
    "coordination_board_scopes",
    "coordination_board_entries",
    "coordination_board_history",
    "coordination_board_idempotency",
)
FENCE_TABLE = "coordination_board_deleted_scopes"
DATA_TABLES = (*MAILBOX_TABLES, *BOARD_TABLES, FENCE_TABLE)
"""All tables that are taken over from another file, parents before their children."""

# The body comes last: what is read of a row without it needs none of the pages that a long one spills into.
# The two indexes with a condition keep what is asked of unread and of never-woken mail from growing with history.
# PERF: the second holds a message only until somebody was told of it, so it is one page that all sends share; with all
# undelivered mail in it the writes of a send cost a third more.
_MAIL = f"""
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS mailboxes (
  id TEXT PRIMARY KEY NOT NULL,
  participant_key TEXT NOT NULL UNIQUE,
  created_at TEXT NOT NULL,
  next_sequence INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS mailbox_participants (
  mailbox_id TEXT NOT NULL REFERENCES mailboxes(id) ON DELETE CASCADE,
  session_id TEXT NOT NULL,
  display_name TEXT NOT NULL,
  joined_at TEXT NOT NULL,
  processed_through INTEGER NOT NULL DEFAULT 0,
  left_at TEXT,
  PRIMARY KEY (mailbox_id, session_id)
);
CREATE INDEX IF NOT EXISTS mailbox_participants_session ON mailbox_participants(session_id, left_at);
CREATE INDEX IF NOT EXISTS mailbox_participants_left ON mailbox_participants(session_id) WHERE left_at IS NOT NULL;
CREATE TABLE IF NOT EXISTS mailbox_messages (
  id TEXT PRIMARY KEY NOT NULL,
  mailbox_id TEXT NOT NULL REFERENCES mailboxes(id) ON DELETE CASCADE,
  sequence INTEGER NOT NULL,
  sender_session_id TEXT NOT NULL,
  sender_name TEXT NOT NULL,
  target_session_id TEXT NOT NULL,
  target_name TEXT NOT NULL,
  created_at TEXT NOT NULL,
  class TEXT NOT NULL CHECK (class = 'routine'),
  topic TEXT,
  state_stamp TEXT,
  idempotency_key TEXT NOT NULL,
  unread_depth_at_append INTEGER NOT NULL,
  notification_disposition TEXT NOT NULL,
  dispatch_outcome TEXT,
  body TEXT NOT NULL,
  UNIQUE (mailbox_id, sequence),
  UNIQUE (sender_session_id, idempotency_key)
);
CREATE INDEX IF NOT EXISTS mailbox_messages_inbound ON mailbox_messages(target_session_id, mailbox_id, sequence)
  WHERE {IS_MAIL};
CREATE INDEX IF NOT EXISTS mailbox_messages_never_woken
  ON mailbox_messages(target_session_id, mailbox_id, sequence) WHERE {NEVER_WOKEN} AND {IS_MAIL};
CREATE TABLE IF NOT EXISTS mailbox_deliveries (
  mailbox_id TEXT NOT NULL REFERENCES mailboxes(id) ON DELETE CASCADE,
  session_id TEXT NOT NULL,
  delivered_through INTEGER NOT NULL,
  PRIMARY KEY (mailbox_id, session_id)
) WITHOUT ROWID;
"""
_BOARD = """
CREATE TABLE IF NOT EXISTS coordination_board_scopes (
  scope_id TEXT PRIMARY KEY NOT NULL,
  generation INTEGER NOT NULL DEFAULT 0 CHECK (generation >= 0)
);
CREATE TABLE IF NOT EXISTS coordination_board_entries (
  scope_id TEXT NOT NULL REFERENCES coordination_board_scopes(scope_id) ON DELETE CASCADE,
  key TEXT NOT NULL,
  revision INTEGER NOT NULL CHECK (revision > 0),
  generation INTEGER NOT NULL CHECK (generation > 0),
  value_json TEXT,
  author_session_id TEXT NOT NULL,
  author_name TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  state_stamp TEXT,
  PRIMARY KEY (scope_id, key)
);
CREATE TABLE IF NOT EXISTS coordination_board_history (
  scope_id TEXT NOT NULL REFERENCES coordination_board_scopes(scope_id) ON DELETE CASCADE,
  key TEXT NOT NULL,
  revision INTEGER NOT NULL CHECK (revision > 0),
  generation INTEGER NOT NULL CHECK (generation > 0),
  value_json TEXT,
  author_session_id TEXT NOT NULL,
  author_name TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  state_stamp TEXT,
  PRIMARY KEY (scope_id, key, revision)
);
CREATE TABLE IF NOT EXISTS coordination_board_idempotency (
  scope_id TEXT NOT NULL REFERENCES coordination_board_scopes(scope_id) ON DELETE CASCADE,
  author_session_id TEXT NOT NULL,
  idempotency_key TEXT NOT NULL,
  request_hash TEXT NOT NULL,
  receipt_json TEXT NOT NULL,
  created_at TEXT NOT NULL,
  PRIMARY KEY (scope_id, author_session_id, idempotency_key)
);
CREATE TABLE IF NOT EXISTS coordination_board_deleted_scopes (
  scope_id TEXT PRIMARY KEY NOT NULL,
  deleted_at TEXT NOT NULL
);
"""

# Ids of ours have up to 18 digits and no leading zero; texts do not sort as numbers do.
_HIGHEST = (
    "SELECT max(CAST(substr(session_id, 9) AS INTEGER)) FROM mailbox_participants"
    " WHERE session_id GLOB 'session-[1-9]*' AND length(session_id) <= 26"
    " AND substr(session_id, 9) NOT GLOB '*[^0-9]*'"
)


def create_tables(connection: Cursorlike) -> None:
    """Make what is missing; changes nothing where nothing is."""
    connection.execute(_MAIL)
    connection.execute(_BOARD)


SCHEMA = Migrations(Version("1"), create=create_tables, key=VERSION_KEY)


def read_meta(connection: Cursorlike, key: str) -> str | None:
    value: str | None = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).get
    return value


def write_meta(connection: Cursorlike, key: str, value: str) -> None:
    connection.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (key, value))


def highest_session(connection: Cursorlike) -> int:
    """The highest n of the ``session-{n}`` that take part in mail, 0 for none: state never gives such an id again.

    PERF: 0.2 s of the index alone for a million participants, 0.5 s when every id is looked at here.
    """
    highest: int | None = connection.execute(_HIGHEST).get
    return highest or 0
