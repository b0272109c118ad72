"""The newest prompts a user typed into one session, oldest first: bounded in number and in bytes."""

from termal.model.message import Message, Text

ENTRIES = 64
TOTAL_BYTES = 512 << 10


def prompt_in(message: Message) -> str | None:
    """The prompt that ``message`` adds to the history, None when it adds none."""
    if not isinstance(message, Text) or message.author != "you":
        return None
    text = message.text.strip()
    return text if text and len(text.encode()) <= TOTAL_BYTES else None


def bounded(history: list[str]) -> list[str]:
    """The newest entries of ``history`` that fit; entries over the limit of bytes by themselves are left out."""
    kept: list[str] = []
    left_bytes = TOTAL_BYTES
    for entry in reversed(history):
        size_bytes = len(entry.encode())
        if len(kept) == ENTRIES or (size_bytes > left_bytes and size_bytes <= TOTAL_BYTES):
            break
        if size_bytes <= left_bytes:
            kept.append(entry)
            left_bytes -= size_bytes
    kept.reverse()
    return kept
