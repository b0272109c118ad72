"""How prompts that other sessions sent are worded for the agent, and when several of them wait as one."""

from collections.abc import Sequence

from msgspec import UNSET

from termal.model.message import PromptSource
from termal.model.session import PendingPrompt
from termal.model.stored import QueueEntry

HEADER = "[TermAl cross-session message]"
BATCH_HEADER = "[TermAl cross-session message batch]"
MANY_SENDERS = "Peer queue"


def worded(text: str, *, sender_id: str, sender_name: str, other_project: bool) -> str:
    """``text`` behind a header that names the sender and says how to answer."""
    lines = [HEADER, f"From: {sender_name} ({sender_id})"]
    if other_project:
        lines.append("The sender works in a different repository: its paths and its branch are not yours.")
    lines.append("This was sent by another agent session, not typed by the user.")
    lines.append(f"To answer, send a message to {sender_id} with the TermAl tools; your reply here is not sent to it.")
    return "\n".join([*lines, "", text])


def may_merge(waiting: QueueEntry, new: QueueEntry) -> bool:
    """Both are peer prompts of one queue source without images; anything else is a barrier."""
    return (
        waiting.source == new.source
        and not waiting.attachments
        and not new.attachments
        and _from_peer(waiting.pending_prompt, batches=True)
        and _from_peer(new.pending_prompt, batches=False)
    )


def merged(parts: Sequence[PendingPrompt]) -> PendingPrompt:
    """One prompt for all ``parts``, oldest first, under the id and the time of the first."""
    first = parts[0]
    senders = {(part.source.session_id, part.source.name) for part in parts if part.source is not UNSET}
    if len(senders) == 1:
        ((session_id, name),) = senders
        source = PromptSource(session_id=session_id, name=name, kind="peerBatch")
    else:
        source = PromptSource(name=MANY_SENDERS, kind="peerBatch")
    lines = [
        BATCH_HEADER,
        f"{len(parts)} messages of other agent sessions waited, the oldest since {first.timestamp}.",
        "Read all of them before you act: a later one may change what an earlier one asked for.",
    ]
    for number, part in enumerate(parts, 1):
        lines += ["", _heading(number, part), part.text if part.expanded_text is UNSET else part.expanded_text]
    return PendingPrompt(id=first.id, timestamp=first.timestamp, text="\n".join(lines), source=source)


def _from_peer(prompt: PendingPrompt, *, batches: bool) -> bool:
    source = prompt.source
    if source is UNSET or source.kind == "mailbox":
        return False
    return source.session_id is not UNSET if source.kind is UNSET else batches


def _heading(number: int, part: PendingPrompt) -> str:
    source = part.source
    sender = "unknown" if source is UNSET else f"{source.name} ({source.session_id})"
    return f"--- {number}. from {sender}, {part.timestamp}, {part.id}"
