"""The floor of a send: the same transaction in the same tables. Nobody is asked and nobody is told."""

import os
import time
from pathlib import Path

from termal.bus.loop import PollLoop
from termal.bus.server import Request, Server
from termal.log import Log
from termal.model.ids import new_mailbox_message_id
from termal.model.mail import Receipt
from termal.store.writer import Writer
from termal.wire.codec import encode_json
from termal.wire.errors import TermalError
from termal.wire.mail_operations import SendMail
from termal.wire.turns import JsonReply
from tests.support.coordination_rows import coordination_file
from workers.coordination.mail_boxes import Boxes
from workers.coordination.mail_clock import now_text
from workers.coordination.mail_counts import UnreadCounts
from workers.coordination.mail_store import Mail, MailStore, Stored

OUTCOME = "queuedBehindActiveTurn"


def main() -> None:
    home = Path(os.environ["FLOOR_HOME"]) / "home"
    with coordination_file(home):
        pass
    loop, log = PollLoop(), Log("floor")
    store = MailStore(Boxes(UnreadCounts()))
    writer = Writer(
        home / "coordination.sqlite", durability="normal", notify=lambda: loop.threadsafe(writer.finish), log=log
    )

    def take(request: Request, body: SendMail) -> None:
        mail = Mail(
            message_id=new_mailbox_message_id(),
            created_at=now_text(),
            sender_id=body.session_id,
            sender_name="floor",
            target_id=body.target_session_id,
            target_name="floor",
            key=body.idempotency_key,
            body=body.message,
            outcome=OUTCOME,
        )

        def done(stored: Stored | TermalError | None, _error: Exception | None) -> None:
            assert isinstance(stored, Stored)
            receipt = Receipt(
                mailbox_id=stored.mailbox_id,
                message_id=stored.message_id,
                sequence=stored.sequence,
                unread_depth=stored.unread_depth,
                notification_disposition=OUTCOME,
                duplicate=False,
            )
            request.reply(JsonReply(encode_json(receipt)))

        writer.submit(lambda connection: store.append(connection, mail), done, deadline_s=time.monotonic() + 5)

    Server(loop, os.environ["FLOOR_RUN"], "floor", {"mailbox.send": take}, log=log)
    loop.run()


if __name__ == "__main__":
    main()
