"""One session's transcript as a client holds it: snapshots and deltas in, what a reader has not seen out. No I/O."""

import msgspec
from msgspec import structs

from termal.client.replies import Delta
from termal.model.message import Command, Message, Text
from termal.model.reply import SessionResponse
from termal.model.session import SessionStatus


class Said(msgspec.Struct, frozen=True, tag="said"):
    """Text that goes on where this message's shown text ended; ``first`` is true for its first piece."""

    message: Text
    piece: str
    first: bool


class Shown(msgspec.Struct, frozen=True, tag="shown"):
    """A message that is no running text, or whose text was replaced: show it as a whole."""

    message: Message


class StatusIs(msgspec.Struct, frozen=True, tag="status"):
    status: SessionStatus


Update = Said | Shown | StatusIs


class Gap(Exception):
    """Something between what is here and what came is missing: read the session again and `adopt` it."""


class Transcript:
    """The messages of one session from the first one that was adopted on, in order."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.messages: dict[str, Message] = {}
        self.status: SessionStatus | None = None
        self.end = 0
        """Position after the last message that is here."""
        self._adopted = -1
        self._revision = -1

    def adopt(self, reply: SessionResponse, missing: list[Message] | None = None) -> list[Update]:
        """Take a snapshot over. ``missing`` are messages between `end` and the start of the snapshot's window."""
        session = reply.session
        updates: list[Update] = []
        for message in [*(missing or []), *session.messages]:
            updates += self._put(message)
        self.end = session.message_count
        self._adopted = self._revision = reply.revision
        return updates + self._turn(session.status)

    def apply(self, delta: Delta) -> list[Update]:
        """Take one event over. Raises `Gap` when it does not follow what is here."""
        if delta.revision <= self._adopted or delta.revision < self._revision:
            return []
        if delta.revision > self._revision + 1:
            raise Gap
        self._revision = delta.revision
        if delta.session_id != self.session_id:
            return []
        if delta.type == "messagesCompacted":
            raise Gap
        updates = self._change(delta)
        status = delta.session_status()
        return updates + (self._turn(status) if status is not None else [])

    def _change(self, delta: Delta) -> list[Update]:
        if delta.message is not None:
            if delta.type == "messageAdded":
                if delta.message_index != self.end:
                    raise Gap
                self.end += 1
            elif delta.message.id not in self.messages:
                # An old message outside of what this client holds.
                return []
            return self._put(delta.message)
        if delta.message_id is None:
            return []
        known = self.messages.get(delta.message_id)
        if known is None:
            raise Gap
        return self._put(_changed(known, delta))

    def _put(self, message: Message) -> list[Update]:
        before = self.messages.get(message.id)
        self.messages[message.id] = message
        if before == message:
            return []
        if isinstance(message, Text) and (before is None or isinstance(before, Text)):
            shown = before.text if before is not None else ""
            if message.text.startswith(shown):
                return [Said(message, message.text[len(shown) :], before is None)]
        return [Shown(message)]

    def _turn(self, status: SessionStatus) -> list[Update]:
        if status == self.status:
            return []
        self.status = status
        return [StatusIs(status)]


def _changed(message: Message, delta: Delta) -> Message:
    if isinstance(message, Text) and delta.delta is not None:
        size = len(message.text.encode())
        start = size if delta.text_start_byte is None else delta.text_start_byte
        if start + len(delta.delta.encode()) <= size:
            # A snapshot that was read after this event was sent has it already.
            return message
        if start != size:
            raise Gap
        return structs.replace(message, text=message.text + delta.delta)
    if isinstance(message, Text) and delta.text is not None:
        return structs.replace(message, text=delta.text)
    if isinstance(message, Command) and delta.output is not None:
        changes = {"command": delta.command, "status": delta.status, "output": delta.output}
        return structs.replace(message, **{name: value for name, value in changes.items() if value is not None})
    return message
