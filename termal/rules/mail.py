"""What mail may say, between whom, and how far a cursor may move. Pure: where a session or a row is, others know."""

from typing import Literal

import msgspec

from termal.model.mail import CONTROL_TOPIC
from termal.rules.verdicts import Bad, Missing, Refused, Stale

MESSAGE_BYTES = 256 << 10
METADATA_BYTES = 4096
"""Of a topic, and of a state stamp."""
KEY_BYTES = 256
PAGE_ROWS = 200
PREVIEW_CHARS = 160
_HEAD_CHARS = 2048
"""So much of a body is enough for nearly every preview; the rest is looked at only where it is white space."""

_WHY = {
    "hidden": "is hidden",
    "remote": "belongs to another host",
    "delegated": "is the child of a delegation",
}

Cursor = Literal["move", "keep"]


def check_class(kind: str | None) -> None:
    """Raises `Bad` for everything but routine mail: no other class is delivered, and none may seem to be."""
    if kind is not None and kind != "routine":
        raise Bad("only routine delivery is active: stop, urgent and other classes are not", reason="class")


def refused_session(side: str, verdict: str) -> Refused | None:
    """What is answered for a session with that eligibility; ``side`` names it. None for a local root session."""
    if not verdict:
        return None
    if verdict == "unknown":
        return Missing(f"{side} does not exist", reason="unknownSession")
    return Bad(f"{side} is not a local root session: it {_WHY.get(verdict, verdict)}", reason=verdict)


def refused_parties(sender: str, target: str) -> tuple[Refused | None, bool]:
    """The refusal of a send between sessions of these verdicts, and whether it is the target alone that fails.

    What does not exist is told before what is not eligible, the sender's side before the target's.
    """
    sides = (refused_session("the sending session", sender), refused_session("the target session", target))
    refusals = [refusal for refusal in sides if refusal is not None]
    if not refusals:
        return None, False
    first = next((refusal for refusal in refusals if isinstance(refusal, Missing)), refusals[0])
    return first, not sender


def check_mail(target_id: str, key: str, body: str, topic: str | None, stamp: str | None) -> None:
    """Raises `Bad`, naming the limit. Sizes are of UTF-8; nothing is trimmed or cut."""
    if not target_id.strip():
        raise Bad("the target session id must not be blank", reason="blank")
    if not key.strip():
        raise Bad("the idempotency key must not be blank", reason="blank")
    if not body.strip():
        raise Bad("the message must not be blank", reason="blank")
    _check_size("the idempotency key", key, KEY_BYTES)
    _check_size("the message", body, MESSAGE_BYTES)
    _check_size("the topic", topic, METADATA_BYTES)
    _check_size("the state stamp", stamp, METADATA_BYTES)
    if topic == CONTROL_TOPIC:
        raise Bad(f"the topic {CONTROL_TOPIC} is reserved", reason="reservedTopic")


def check_forward(expected: int, through: int) -> None:
    """Raises `Bad` for an acknowledgement that goes backwards."""
    if through < expected:
        raise Bad(
            f"an acknowledgement cannot move backwards: processedThrough {through} is below"
            f" expectedProcessedThrough {expected}",
            reason="backwards",
        )


def cursor_move(cursor: int, latest: int, expected: int, through: int) -> Cursor:
    """What an acknowledgement does to ``cursor``; `check_forward` has passed. Raises `Bad`, `Stale`."""
    if through > latest:
        raise Bad(
            f"processedThrough {through} is beyond the latest sequence of the mailbox, {latest}", reason="beyondLatest"
        )
    if cursor == expected:
        return "move" if through > cursor else "keep"
    if through <= cursor:
        return "keep"
    raise Stale(
        f"expectedProcessedThrough {expected} is stale: the cursor is at {cursor}; list the mailbox again",
        reason="staleExpected",
    )


def page_rows(limit: int) -> int:
    return min(max(limit, 1), PAGE_ROWS)


def mailbox_key(one: str, other: str) -> str:
    """The identity of the mailbox of two sessions, whoever writes first: a compact JSON array, sorted bytewise."""
    return msgspec.json.encode(sorted((one, other), key=str.encode)).decode()


def mail_preview(body: str) -> str:
    """White space collapsed and trimmed, cut at `PREVIEW_CHARS` with ``…`` where something was cut."""
    line = " ".join(body[:_HEAD_CHARS].split())
    if len(line) <= PREVIEW_CHARS and len(body) > _HEAD_CHARS:
        line = " ".join(body.split())
    return line if len(line) <= PREVIEW_CHARS else line[:PREVIEW_CHARS] + "…"


def _check_size(what: str, text: str | None, limit: int) -> None:
    # A character has at most four bytes: most texts need no encoding to be known as short enough.
    if text is None or len(text) * 4 <= limit:
        return
    size = len(text.encode())
    if size > limit:
        raise Bad(f"{what} has {size} bytes; the limit is {limit}", reason="tooLong")
