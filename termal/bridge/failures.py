"""How a tool call fails: the texts that an agent reads. What is not known is said, with what can be done about it."""

from typing import Any, NamedTuple

import msgspec

from termal.client.failure import ApiFailed


class ToolFailed(Exception):
    """``packet``: the failure as a record, where a tool answers with one; the text is then its JSON."""

    def __init__(self, text: str, *, packet: dict[str, Any] | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.packet = packet


class Unknown(NamedTuple):
    """What to add when it cannot be told whether a call was carried out."""

    meaning: str


SEND = Unknown(
    "Whether the message was stored is unknown. Repeat the same content with the same idempotencyKey: if the first "
    "attempt was stored, its receipt comes back with duplicate: true."
)
BOARD_SET = Unknown(
    "Whether the write happened is unknown. Repeat the identical request with the same idempotencyKey: either its "
    "duplicate receipt or a fresh application follows."
)
ACKNOWLEDGE = Unknown(
    "The cursor position is unknown. List mailboxes first (termal_list_mailboxes) and use that processedThrough as the "
    "next expectedProcessedThrough."
)
SUBMIT = Unknown("Whether the result was stored is unknown. Repeat the identical payload.")
SPAWN = Unknown(
    "Whether the delegation was created is unknown. List delegations (termal_list_delegations) before repeating."
)
RESUME = Unknown(
    "Whether the wait was created is unknown. List delegations (termal_list_delegations) before repeating."
)
NOTHING = Unknown("")


def sentence(error: ApiFailed, unknown: Unknown) -> str:
    """The text of section "errors" of a tool's answer: status and the daemon's words, or the way on which they were
    lost, and what follows from that."""
    text = error.text
    if error.status is not None:
        text = f"{error.status} {error.phrase}".rstrip() + (f": {error.text}" if error.text else "")
    if error.may_have_happened and unknown.meaning:
        return f"{text}. {unknown.meaning}" if not text.endswith(".") else f"{text} {unknown.meaning}"
    return text


def pretty(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
