"""What a child session has come to, seen from its newest turn: still at work, a packet, plain prose, or nothing."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from msgspec import UNSET

from termal.model.message import Diff, FileChanges, Markdown, Message, SubagentResult, Text
from termal.rules import wording
from termal.rules.delegation_packet import CHILD_GONE, NO_REASON, NO_RESULT, exited
from termal.rules.delegation_result import Prose, parse_packet, synthesize
from workers.state.session_record import SessionRecord


class Outcome(NamedTuple):
    """``kind``: ``packet`` has ``prose``; ``error``, ``missing`` and ``nothing`` say why in ``detail``."""

    kind: Literal["running", "packet", "error", "missing", "nothing"]
    prose: Prose | None = None
    detail: str = ""


_RUNNING = Outcome("running")


def observed(child: SessionRecord | None) -> Outcome:
    """What ``child``, None when it does not exist, has come to."""
    if child is None:
        return Outcome("missing", detail=CHILD_GONE)
    if child.busy and (child.remote or child.turn is not None):
        return _RUNNING
    texts = [text for text in map(candidate, reversed(current_turn(child))) if text]
    if child.busy:
        packet = _newest_packet(texts)
        return Outcome("error", detail=exited(child.agent)) if packet is None else Outcome("packet", packet)
    if child.status == "error":
        # What TermAl says of a failed turn is not the child's last word; what it says of a restart is the end of it.
        said = [text for text in texts[:2] if not _is_notice(text)]
        packet = parse_packet(said[0]) if said else None
        detail = child.preview.strip() or NO_REASON
        return Outcome("error", detail=detail) if packet is None else Outcome("packet", packet)
    packet = _newest_packet(texts)
    if packet is None and texts and texts[0] != wording.STOPPED:
        packet = synthesize(texts[0])
    return Outcome("nothing", detail=NO_RESULT) if packet is None else Outcome("packet", packet)


def current_turn(child: SessionRecord) -> list[Message]:
    """The messages after the newest prompt, as far as they are in memory; those of a turn that just ended all are."""
    for position in child.streams:
        child.at(position)
    messages = child.messages
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].author == "you":
            return messages[index + 1 :]
    return messages


def candidate(message: Message) -> str:
    """What of ``message`` can be a child's last word, empty when it is none."""
    text = ""
    if isinstance(message, Text):
        text = message.text if message.author == "assistant" else ""
    elif isinstance(message, Markdown):
        text = message.markdown if message.markdown.strip() else message.title
    elif isinstance(message, SubagentResult):
        text = message.summary if message.summary.strip() else message.title
    elif isinstance(message, Diff):
        text = message.summary
    return text if text.strip() else ""


def final_text(messages: Sequence[Message], *, completed: bool) -> str | None:
    """The text to page of ``messages``, a turn's from its newest to its oldest; None when there is none."""
    texts = [text for text in map(candidate, messages) if text and not _is_notice(text)]
    if completed:
        for text in texts:
            if parse_packet(text) is not None:
                return text
    return texts[0] if texts else None


def changed_files_of(child: SessionRecord) -> list[str]:
    """The files that the child said it changed, and those that were seen to change meanwhile: sorted, each once."""
    said = {message.file_path for message in child.messages if isinstance(message, Diff)}
    seen = {file.path for message in child.messages if isinstance(message, FileChanges) for file in message.files}
    # Some agents name a file by its full path.
    return sorted(said | {path for path in seen if f"{child.session.workdir}/{path}" not in said})


def _is_notice(text: str) -> bool:
    """What TermAl itself says of a turn that was stopped or failed."""
    return text == wording.STOPPED or text.startswith(wording.FAILED_PREFIX)


def change_sets_of(messages: Sequence[Message]) -> list[str]:
    return [
        message.change_set_id
        for message in messages
        if isinstance(message, Diff) and message.change_set_id is not UNSET
    ]


def _newest_packet(texts: Sequence[str]) -> Prose | None:
    for text in texts:
        packet = parse_packet(text)
        if packet is not None:
            return packet
    return None
