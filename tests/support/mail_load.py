"""Clients of mail that send, read and acknowledge without a pause, and remember everything that they were told."""

import json
import random
import time
from collections.abc import Callable
from typing import Any

from termal.bus.client import Client
from termal.wire.errors import Busy, OutcomeUnknown, TermalError
from termal.wire.mail_operations import (
    MAILBOX_ACKNOWLEDGE,
    MAILBOX_LIST,
    MAILBOX_READ,
    MAILBOX_SEND,
    AboutSession,
    AcknowledgeMail,
    ReadMailbox,
    SendMail,
)
from termal.wire.operation import Operation
from termal.wire.turns import JsonReply

Json = dict[str, Any]


class MailClient:
    """One session's client on the loop's thread: one request after the other; what fails is repeated as it is."""

    def __init__(self, client: Client, session_id: str, peers: list[str], seed: int) -> None:
        self.session_id = session_id
        self.receipts: dict[str, Json] = {}
        self.cursors: dict[str, int] = {}
        self.repeats = 0
        self.longest_s = 0.0
        self.faults: list[str] = []
        self.ended = False
        self._client = client
        self._peers = peers
        self._random = random.Random(seed)
        self._stopping = False
        self._sent = 0

    def stop(self) -> None:
        """End after the request that is under way has its answer."""
        self._stopping = True

    def step(self) -> None:
        if self._stopping:
            self.ended = True
            return
        choice = self._random.random()
        if choice < 0.6 or not self.cursors:
            self._send()
        else:
            self._ask(MAILBOX_LIST, AboutSession(self.session_id), self._listed)

    def _send(self) -> None:
        self._sent += 1
        key = f"key-{self._sent}"
        mail = SendMail(
            session_id=self.session_id,
            target_session_id=self._random.choice(self._peers),
            message=f"{self.session_id} {key}",
            idempotency_key=key,
        )

        def sent(receipt: Json) -> None:
            self.receipts[key] = receipt
            self.cursors.setdefault(receipt["mailboxId"], 0)
            self.step()

        self._ask(MAILBOX_SEND, mail, sent)

    def _listed(self, mailboxes: list[Json]) -> None:
        for mailbox in mailboxes:
            self._see(mailbox)
        mailbox = self._random.choice(mailboxes)
        cursor = self.cursors[mailbox["id"]]
        if self._random.random() < 0.5:
            question = ReadMailbox(self.session_id, mailbox["id"], cursor, 20)
            self._ask(MAILBOX_READ, question, lambda page: self._read(cursor, page))
            return
        through = self._random.randint(cursor, mailbox["latestSequence"])
        step = AcknowledgeMail(self.session_id, mailbox["id"], cursor, through)
        self._ask(MAILBOX_ACKNOWLEDGE, step, self._acknowledged)

    def _acknowledged(self, summary: Json) -> None:
        self._see(summary)
        self.step()

    def _read(self, after: int, page: list[Json]) -> None:
        sequences = [message["sequence"] for message in page]
        self._expect(sequences == list(range(after + 1, after + 1 + len(page))), f"a page with gaps: {sequences}")
        self.step()

    def _see(self, mailbox: Json) -> None:
        (cursor,) = [one["processedThrough"] for one in mailbox["participants"] if one["sessionId"] == self.session_id]
        before = self.cursors.get(mailbox["id"], 0)
        self._expect(cursor >= before, f"the cursor of {mailbox['id']} went from {before} to {cursor}")
        self.cursors[mailbox["id"]] = cursor

    def _expect(self, holds: bool, what: str) -> None:
        if not holds:
            self.faults.append(f"{self.session_id}: {what}")

    def _ask(self, op: Operation[Any, JsonReply], request: object, then: Callable[[Any], None]) -> None:
        began = time.monotonic()

        def done(reply: JsonReply | None, error: TermalError | None) -> None:
            if reply is not None:
                self.longest_s = max(self.longest_s, time.monotonic() - began)
                then(json.loads(reply.json))
            elif isinstance(error, Busy | OutcomeUnknown):
                self.repeats += 1
                self._client.call(op, request, done)
            elif op is MAILBOX_ACKNOWLEDGE and error is not None and error.status == 409:
                # Its own message moved the cursor meanwhile: list again.
                self.step()
            else:
                self.faults.append(f"{self.session_id}: {op.name}: {error!r}")
                self.ended = True

        self._client.call(op, request, done)
