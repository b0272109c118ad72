"""The history that an agent keeps of a conversation, as messages of a transcript."""

from collections.abc import Sequence

from termal.model.message import Command, Diff, Message, Text, Thinking
from termal.rules.size import shortened
from termal.wire.thread_operations import PastItem
from workers.state.clock import now_text
from workers.state.registry import Registry

_VERBS = {"create": "Created", "edit": "Edited"}


def messages_of(registry: Registry, items: Sequence[PastItem]) -> list[Message]:
    """New messages in the order of ``items``, with the time of now: the agent keeps none."""
    return [_message(registry.new_message_id(), item) for item in items]


def _message(number: str, item: PastItem) -> Message:
    timestamp = now_text()
    if item.kind == "prompt":
        return Text(id=number, timestamp=timestamp, author="you", text=item.text)
    if item.kind == "text":
        return Text(id=number, timestamp=timestamp, author="assistant", text=item.text)
    if item.kind == "thinking":
        lines = item.text.split("\n")
        return Thinking(id=number, timestamp=timestamp, author="assistant", title="Thinking", lines=lines)
    if item.kind == "command":
        return Command(
            id=number,
            timestamp=timestamp,
            author="assistant",
            command=item.text,
            output=shortened(item.output),
            status="error" if item.failed else "success",
        )
    return Diff(
        id=number,
        timestamp=timestamp,
        author="assistant",
        file_path=item.title,
        summary=f"{_VERBS[item.change]} {item.title}",
        diff=item.text,
        change_type=item.change,
        change_set_id=f"change-{number}",
    )
