"""The writes of mail: append, the one recording of a dispatch outcome, acknowledgement. Runs on the writer's thread.

What a request did wrong is returned, not raised: nothing was written by then, and what is remembered stays true.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from termal.faults import fault
from termal.model.ids import new_mailbox_id
from termal.model.mail import CONTROL_TOPIC, UNWOKEN, MailboxSummary
from termal.rules.mail import cursor_move, mailbox_key
from termal.rules.verdicts import Refused
from termal.store.connection import Cursorlike
from termal.wire.errors import Conflict, NotFound, TermalError
from termal.wire.mail_operations import AcknowledgeMail
from termal.wire.verdict_errors import error_of
from workers.coordination.mail_boxes import Box, Boxes, Side
from workers.coordination.mail_summary import Party, summary_of

_FIND = (
    "SELECT rowid, mailbox_id, id, sequence, unread_depth_at_append, dispatch_outcome, target_session_id, body, topic,"
    " state_stamp FROM mailbox_messages WHERE sender_session_id = ? AND idempotency_key = ?"
)
_INSERT = (
    "INSERT INTO mailbox_messages (id, mailbox_id, sequence, sender_session_id, sender_name, target_session_id,"
    " target_name, created_at, class, topic, state_stamp, idempotency_key, unread_depth_at_append,"
    " notification_disposition, dispatch_outcome, body)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'routine', ?, ?, ?, ?, 'durableButNotWoken', ?, ?)"
)
_FINALIZE = (
    "UPDATE mailbox_messages SET dispatch_outcome = ?1, notification_disposition ="
    " CASE notification_disposition WHEN 'durableButNotWoken' THEN ?1 ELSE notification_disposition END"
    " WHERE rowid = ?2 AND id = ?3 AND dispatch_outcome IS NULL"
)


class Mail(NamedTuple):
    """One message to append, its new id included. ``outcome``: of a row that nobody is to be woken for."""

    message_id: str
    created_at: str
    sender_id: str
    sender_name: str
    target_id: str
    target_name: str
    key: str
    body: str
    topic: str | None = None
    stamp: str | None = None
    outcome: str | None = None


class Stored(NamedTuple):
    """A stored message: fresh, or the one that an earlier request with the key made. ``outcome`` None: not recorded."""

    row: int
    mailbox_id: str
    message_id: str
    sequence: int
    unread_depth: int
    outcome: str | None
    duplicate: bool


class Acknowledged(NamedTuple):
    """``moved``: the cursor went forward."""

    summary: MailboxSummary
    moved: bool


class MailStore:
    """``boxes`` is to be forgotten after each rollback of the connection that these jobs run on."""

    def __init__(self, boxes: Boxes) -> None:
        self.boxes = boxes

    def find(self, connection: Cursorlike, mail: Mail) -> Stored | TermalError | None:
        """What the sender's key stands for: the same intent, a `Conflict` with another one, or nothing yet."""
        row: Any = connection.execute(_FIND, (mail.sender_id, mail.key)).fetchone()
        if row is None:
            return None
        row_id, mailbox_id, message_id, sequence, depth, outcome, *intent = row
        if tuple(intent) != (mail.target_id, mail.body, mail.topic, mail.stamp):
            return Conflict(
                f"the idempotency key {mail.key!r} was used for another message", reason="idempotencyKeyReused"
            )
        return Stored(row_id, mailbox_id, message_id, sequence, depth, outcome, duplicate=True)

    def append(self, connection: Cursorlike, mail: Mail) -> Stored | TermalError:
        """The message with the next sequence of its mailbox, or what its key stands for."""
        found = self.find(connection, mail)
        if found is not None:
            return found
        box = self.boxes.between(connection, mail.sender_id, mail.target_id)
        if box is None:
            box = self._create(connection, mail)
        else:
            target = box.sides.get(mail.target_id)
            if target is not None and target.left_at is not None and mail.topic != CONTROL_TOPIC:
                return Conflict(f"the target session left the mailbox at {target.left_at}", reason="departed")
        sender = self._side(connection, box, (mail.sender_id, mail.sender_name), mail.created_at)
        target = self._side(connection, box, (mail.target_id, mail.target_name), mail.created_at)
        return self._insert(connection, mail, box, (sender, target))

    def finalize(self, connection: Cursorlike, rows: Sequence[tuple[int, str, str]]) -> list[str]:
        """Record the dispatch outcome of each (row, message id, outcome); an outcome once recorded stands.

        Returns what is recorded now. A notification state that has moved on is never put back.
        """
        fault("coordination.finalize")
        return [self._finalize(connection, row, message_id, outcome) for row, message_id, outcome in rows]

    def acknowledge(self, connection: Cursorlike, asked: AcknowledgeMail) -> Acknowledged | TermalError:
        """Compare and swap of the caller's cursor, with the summary as it is then. That it goes forward is checked."""
        session_id, mailbox_id, through = asked.session_id, asked.mailbox_id, asked.processed_through
        box = self.boxes.of(connection, mailbox_id)
        side = None if box is None else box.sides.get(session_id)
        if box is None or side is None or side.left_at is not None:
            return not_participant(mailbox_id)
        try:
            moves = cursor_move(side.cursor, box.last, asked.expected_processed_through, through) == "move"
        except Refused as refused:
            return error_of(refused)
        cursor = through if moves else side.cursor
        unread = self.boxes.unread_above(connection, box, side, cursor)
        parties = [
            Party(one.session_id, one.name, cursor if one is side else one.cursor, one.left_at)
            for one in box.sides.values()
        ]
        summary = summary_of(connection, mailbox_id, parties, unread)
        if summary is None:
            return not_participant(mailbox_id)
        if moves:
            connection.execute(
                "UPDATE mailbox_participants SET processed_through = ? WHERE mailbox_id = ? AND session_id = ?",
                (through, mailbox_id, session_id),
            )
            side.cursor, side.unread = through, unread
        return Acknowledged(summary, moves)

    # ---------------------------------------------------------------------- parts

    def _create(self, connection: Cursorlike, mail: Mail) -> Box:
        one, other = sorted((mail.sender_id, mail.target_id))
        box = Box(new_mailbox_id(), (one, other), 0)
        connection.execute(
            "INSERT INTO mailboxes (id, participant_key, created_at, next_sequence) VALUES (?, ?, ?, 1)",
            (box.id, mailbox_key(one, other), mail.created_at),
        )
        self.boxes.add(box)
        return box

    @staticmethod
    def _side(connection: Cursorlike, box: Box, who: tuple[str, str], now: str) -> Side:
        """The participant of that id, made or brought to its present name."""
        session_id, name = who
        side = box.sides.get(session_id)
        if side is None:
            connection.execute(
                "INSERT INTO mailbox_participants (mailbox_id, session_id, display_name, joined_at)"
                " VALUES (?, ?, ?, ?)",
                (box.id, session_id, name, now),
            )
            side = box.sides[session_id] = Side(session_id, name, 0, None)
            side.unread = None if box.last else 0
        elif side.name != name:
            connection.execute(
                "UPDATE mailbox_participants SET display_name = ? WHERE mailbox_id = ? AND session_id = ?",
                (name, box.id, session_id),
            )
            side.name = name
        return side

    def _insert(self, connection: Cursorlike, mail: Mail, box: Box, sides: tuple[Side, Side]) -> Stored:
        sender, target = sides
        sequence = box.last + 1
        depth = self.boxes.unread(connection, box, target) + (mail.topic != CONTROL_TOPIC)
        connection.execute(
            _INSERT,
            (
                mail.message_id,
                box.id,
                sequence,
                mail.sender_id,
                mail.sender_name,
                mail.target_id,
                mail.target_name,
                mail.created_at,
                mail.topic,
                mail.stamp,
                mail.key,
                depth,
                mail.outcome,
                mail.body,
            ),
        )
        row = connection.last_insert_rowid()
        connection.execute("UPDATE mailboxes SET next_sequence = ? WHERE id = ?", (sequence + 1, box.id))
        if sender.left_at is None and sender.cursor == sequence - 1 and mail.topic != CONTROL_TOPIC:
            # Sending never consumes what the sender has not read: only a cursor at the end follows its own message.
            connection.execute(
                "UPDATE mailbox_participants SET processed_through = ? WHERE mailbox_id = ? AND session_id = ?",
                (sequence, box.id, sender.session_id),
            )
            sender.cursor = sequence
        box.last = sequence
        target.unread = depth
        return Stored(row, box.id, mail.message_id, sequence, depth, mail.outcome, duplicate=False)

    @staticmethod
    def _finalize(connection: Cursorlike, row: int, message_id: str, outcome: str) -> str:
        connection.execute(_FINALIZE, (outcome, row, message_id))
        if connection.changes():
            return outcome
        stored = connection.execute("SELECT dispatch_outcome FROM mailbox_messages WHERE id = ?", (message_id,)).get
        return stored or UNWOKEN


def not_participant(mailbox_id: str) -> NotFound:
    """The same words for a mailbox that is not there and for one of others."""
    return NotFound(f"the session takes part in no mailbox {mailbox_id}", reason="notParticipant")
