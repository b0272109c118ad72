"""How large one event may be: whatever an agent says becomes events that fit into a message between processes. Pure."""

from collections.abc import Iterator
from typing import Any

import msgspec

from termal.wire.turns import AnyTurnEvent, TextDelta, TextDone, ThinkingDelta, ToolOutput
from workers.runtime.json_values import valid_text

PIECE_CHARACTERS = 32 << 10
"""A longer piece of streamed text is cut into several events."""
FIELD_CHARACTERS = 256 << 10
"""A longer text of another kind loses its middle; a person reads neither."""
WHOLE_TEXT_CHARACTERS = 4 << 20
"""A final text may be this long: it takes the place of what was streamed."""


def bounded(event: AnyTurnEvent) -> Iterator[AnyTurnEvent]:
    """The event as one or more that may be sent: valid Unicode, no text beyond its limit."""
    if isinstance(event, TextDelta | ThinkingDelta):
        for piece in _pieces(event.text):
            yield _with_texts(event, text=piece)
    elif isinstance(event, ToolOutput) and event.append:
        for piece in _pieces(event.output):
            yield _with_texts(event, output=piece)
    else:
        yield _with_texts(event)


def _with_texts(event: AnyTurnEvent, **changed: str) -> AnyTurnEvent:
    limit = WHOLE_TEXT_CHARACTERS if isinstance(event, TextDone) else FIELD_CHARACTERS
    changes: dict[str, Any] = {}
    for field in event.__struct_fields__:
        value = getattr(event, field)
        if isinstance(value, str):
            fitting = valid_text(_shortened(changed.get(field, value), limit))
            if fitting is not value:
                changes[field] = fitting
    return msgspec.structs.replace(event, **changes) if changes else event


def _pieces(text: str) -> Iterator[str]:
    if len(text) <= PIECE_CHARACTERS:
        yield text
        return
    for start in range(0, len(text), PIECE_CHARACTERS):
        yield text[start : start + PIECE_CHARACTERS]


def _shortened(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
