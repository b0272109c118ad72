"""The mail of the coordination worker: its parts put together, its operations, its figures."""

from collections.abc import Callable

from termal.bus.client import Client
from termal.bus.loop import Loop
from termal.bus.server import Handler
from termal.log import Log
from termal.store.reader import Reader
from termal.store.writer import Writer
from termal.wire.mail_operations import (
    MAILBOX_ACKNOWLEDGE,
    MAILBOX_LIST,
    MAILBOX_MESSAGE,
    MAILBOX_READ,
    MAILBOX_SEND,
    MAILBOX_SENT,
)
from workers.coordination.admission import Admission
from workers.coordination.mail_acknowledge import Acknowledge
from workers.coordination.mail_boxes import Boxes
from workers.coordination.mail_counts import UnreadCounts
from workers.coordination.mail_desk import Desk, Repairs
from workers.coordination.mail_lists import Lists
from workers.coordination.mail_notices import Notices
from workers.coordination.mail_parties import Parties
from workers.coordination.mail_pending import Pending
from workers.coordination.mail_read import Reading
from workers.coordination.mail_send import Send, SendParts
from workers.coordination.mail_store import MailStore


class Mail:
    """``pending``: messages whose dispatch is under way. ``boxes`` is to be forgotten after each rollback of the
    connection of mail, and inside every job that changes participants or cursors by statements of its own."""

    def __init__(
        self,
        loop: Loop,
        *,
        state: Callable[[], Client],
        wake: Callable[[], Client],
        writer: Callable[[], Writer],
        reader: Callable[[], Reader],
        admission: Admission,
        repairs: Repairs,
        log: Log,
    ) -> None:
        counts = UnreadCounts()
        self.pending = Pending(loop)
        self.boxes = Boxes(counts)
        self.store = MailStore(self.boxes)
        self._lists = Lists(reader, counts)
        self._notices = Notices(loop, wake=wake, writer=writer, store=self.store, pending=self.pending, log=log)
        self.parties = Parties(loop, state)
        desk = Desk(self.parties, repairs)
        self._send = Send(SendParts(desk, admission, self.store, self.pending, self._notices, self._lists.changed))
        self._acknowledge = Acknowledge(
            desk=desk, admission=admission, store=self.store, wake=wake, changed=self._lists.changed, log=log
        )
        self._reading = Reading(desk=desk, reader=reader, lists=self._lists)

    def handlers(self) -> dict[str, Handler]:
        return {
            MAILBOX_SEND.name: self._send.send,
            MAILBOX_LIST.name: self._reading.list,
            MAILBOX_READ.name: self._reading.page,
            MAILBOX_MESSAGE.name: self._reading.message,
            MAILBOX_SENT.name: self._reading.sent,
            MAILBOX_ACKNOWLEDGE.name: self._acknowledge.acknowledge,
        }

    def participants_changed(self) -> None:
        """On the loop's thread, after the commit of a departure or a repair."""
        self._lists.forget()

    def mailbox_changed(self, mailbox_id: str, session_ids: tuple[str, ...]) -> None:
        """On the loop's thread, after the commit of a row that was not sent as mail."""
        self._lists.changed(mailbox_id, session_ids)
