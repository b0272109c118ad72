"""Mailboxes of a session: send, list, read, acknowledge. A send is known by its key: it is safe to repeat."""

from termal.client.call import Call, read, session_path, write
from termal.client.mail_replies import MailboxSummary, MailMessage
from termal.model.mail import Receipt, SentPage


def send(
    session_id: str,
    target_session_id: str,
    message: str,
    *,
    idempotency_key: str,
    topic: str | None = None,
    state_stamp: str | None = None,
    kind: str | None = None,
) -> Call[Receipt]:
    """Durable when it is answered, whether or not the receiver could be woken. ``kind``: ``routine`` or none."""
    body = {
        "targetSessionId": target_session_id,
        "message": message,
        "idempotencyKey": idempotency_key,
        "topic": topic,
        "stateStamp": state_stamp,
        "class": kind,
    }
    return write(session_path(session_id, "mailboxes", "send"), Receipt, body, repeatable=True)


def mailboxes(session_id: str) -> Call[list[MailboxSummary]]:
    return read(session_path(session_id, "mailboxes"), list[MailboxSummary])


def messages(
    session_id: str, mailbox_id: str, *, after_sequence: int | None = None, limit: int | None = None
) -> Call[list[MailMessage]]:
    """Messages above ``after_sequence``, ascending. Moves no cursor."""
    body = {"afterSequence": after_sequence, "limit": limit}
    path = session_path(session_id, "mailboxes", mailbox_id, "read")
    return write(path, list[MailMessage], body, repeatable=True)


def sent(
    session_id: str, *, state: str | None = None, limit: int | None = None, before: str | None = None
) -> Call[SentPage]:
    """What became of the session's own messages, newest first; ``before`` is the ``next_before`` of the page before."""
    return read(session_path(session_id, "mailboxes", "sent"), SentPage, state=state, limit=limit, before=before)


def message(session_id: str, message_id: str) -> Call[MailMessage]:
    return read(session_path(session_id, "mailbox-messages", message_id), MailMessage)


def acknowledge(
    session_id: str, mailbox_id: str, *, expected_processed_through: int, processed_through: int
) -> Call[MailboxSummary]:
    """Move the session's cursor from what it was seen at. A repeat of what is already reached succeeds."""
    body = {"expectedProcessedThrough": expected_processed_through, "processedThrough": processed_through}
    path = session_path(session_id, "mailboxes", mailbox_id, "acknowledge")
    return write(path, MailboxSummary, body, repeatable=True)
