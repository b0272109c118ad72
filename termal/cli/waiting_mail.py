"""Mail that waits at sessions where nothing runs, and why: read from both files as they are, also without a daemon."""

from typing import Any

import msgspec

from termal.home import Home
from termal.model.mail import CONTROL_TOPIC, UNWOKEN
from termal.store.connection import StoreError, StoreRefused, open_reader

_UNREAD = """
SELECT p.session_id, p.mailbox_id, COUNT(*), MIN(m.created_at), SUM(m.notification_disposition = ?)
FROM mailbox_participants AS p CROSS JOIN mailbox_messages AS m
  ON m.target_session_id = p.session_id AND m.mailbox_id = p.mailbox_id AND m.sequence > p.processed_through
WHERE p.left_at IS NULL AND m.topic IS NOT ?
GROUP BY p.session_id, p.mailbox_id
"""
_SESSION = "SELECT value_json FROM sessions WHERE id = ?"
NOT_TOLD = "nobody told it of that"
BLOCKED = "its queue is stopped"
NEXT_PROMPT = "a wake waits for its next prompt"


class Waiting(msgspec.Struct, frozen=True):
    """``since``: when the oldest of the ``unread`` messages was sent (RFC 3339 UTC)."""

    session_id: str
    name: str
    unread: int
    since: str
    why: str


class _Named(msgspec.Struct, rename="camel"):
    name: str = ""
    status: str = ""


class _Row(msgspec.Struct, rename="camel"):
    session: _Named
    queued_prompts: list[Any] = []
    orchestrator_auto_dispatch_blocked: bool = False


def waiting_mail(home: Home) -> list[Waiting]:
    """Sessions at rest that have mail which they do not work on, by id. What cannot be read is left out: other checks
    tell of it."""
    if not (home.coordination_db.exists() and home.termal_db.exists()):
        return []
    try:
        mail = open_reader(home.coordination_db)
        try:
            there = mail.table_exists("main", "mailbox_messages")
            unread = list(mail.execute(_UNREAD, (UNWOKEN, CONTROL_TOPIC))) if there else []
        finally:
            mail.close()
        sessions = open_reader(home.termal_db)
        try:
            rows = {session: sessions.execute(_SESSION, (session,)).get for session in {row[0] for row in unread}}
        finally:
            sessions.close()
    except (StoreRefused, StoreError):
        return []
    by_session: dict[str, list[tuple[Any, ...]]] = {}
    for row in unread:
        by_session.setdefault(row[0], []).append(row)
    found = [_judge(session, boxes, rows[session]) for session, boxes in sorted(by_session.items())]
    return [waiting for waiting in found if waiting is not None]


def _judge(session_id: str, boxes: list[tuple[Any, ...]], stored: str | None) -> Waiting | None:
    try:
        row = msgspec.json.decode(stored or "", type=_Row)
    except msgspec.MsgspecError:
        return None
    if row.session.status not in ("idle", "error"):
        return None
    queued = {_mailbox_of(entry) for entry in row.queued_prompts}
    due = [box for box in boxes if box[1] in queued or box[4]]
    if not due:
        # It was told, and has not acknowledged: nothing is owed to it.
        return None
    if not any(box[1] in queued for box in due):
        why = NOT_TOLD
    else:
        why = BLOCKED if row.orchestrator_auto_dispatch_blocked else NEXT_PROMPT
    return Waiting(session_id, row.session.name, sum(box[2] for box in due), min(box[3] for box in due), why)


def _mailbox_of(entry: Any) -> str:
    try:
        return str(entry["pending_prompt"]["source"]["mailbox"]["mailboxId"])
    except (KeyError, TypeError):
        return ""
