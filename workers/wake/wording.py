"""The prompt that tells a session of its mail: where, how much, from whom, and how to fetch it. Never what it says."""

from termal.wire.mail_operations import Unread
from termal.wire.queue_operations import Wake

NAME_CHARS = 200


def wake_of(mail: Unread) -> Wake:
    return Wake(
        mailbox_id=mail.mailbox_id,
        message_id=mail.message_id,
        sequence=mail.sequence,
        unread_count=mail.unread_count,
        sender_id=mail.sender_id,
        sender_name=mail.sender_name,
        text=_text(mail),
    )


def _text(mail: Unread) -> str:
    """The sender's name is data of somebody else: on one line, between quotes, cut short."""
    name = " ".join(mail.sender_name.split())[:NAME_CHARS]
    messages = "1 unread message" if mail.unread_count == 1 else f"{mail.unread_count} unread messages"
    return (
        f'You have {messages} in mailbox {mail.mailbox_id}; the latest is #{mail.sequence} from "{name}".\n'
        "The messages are not in this prompt. To process them:\n"
        "1. termal_list_mailboxes tells you your current cursor (processedThrough in your own participant entry).\n"
        "2. termal_read_mailbox with this mailboxId and afterSequence set to that cursor fetches the bodies.\n"
        "3. When you are done with them, termal_acknowledge_mailbox with expectedProcessedThrough set to that cursor"
        " and processedThrough set to the last sequence that you processed."
    )
