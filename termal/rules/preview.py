"""The one line that lists show of a session: derived from its newest message that has something to say."""

from msgspec import UNSET

from termal.model.message import (
    Approval,
    CodexAppRequest,
    Command,
    Diff,
    ElicitationRequest,
    FileChanges,
    Markdown,
    Message,
    ParallelAgents,
    Request,
    SubagentResult,
    Text,
    Thinking,
    UserInputRequest,
)
from termal.rules import wording

PREVIEW_CHARS = 88
ACTIVITY_CHARS = 160
_HEAD = 2048
"""The first line is looked for in so much of a text, so that a long one costs no more."""


def one_line(text: str) -> str:
    """The first line of ``text`` that holds anything, tabs as spaces, cut at `PREVIEW_CHARS` with ``...``."""
    line = text[:_HEAD].lstrip().partition("\n")[0].rstrip().replace("\t", " ")
    return line if len(line) <= PREVIEW_CHARS else line[:PREVIEW_CHARS] + "..."


def settled(text: str) -> bool:
    """More text at the end of ``text`` cannot change its `one_line` any more."""
    head = text[:_HEAD].lstrip()
    return "\n" in head or len(head) > PREVIEW_CHARS + 1 or len(text) > _HEAD


def preview_of(message: Message) -> str | None:
    """The preview that ``message`` sets, None when it leaves the old one."""
    if isinstance(message, Text):
        return _text(message)
    if isinstance(message, Command):
        return _command(message)
    if isinstance(message, ParallelAgents):
        return _agents(message)
    if isinstance(message, FileChanges | SubagentResult):
        return None
    if isinstance(message, Diff):
        return one_line(message.summary) or one_line(message.file_path)
    return _titled(message)


def activity(text: str) -> str:
    """``text`` for a summary: white space collapsed, at most `ACTIVITY_CHARS`, the last one ``…``."""
    line = " ".join(text[:_HEAD].split())
    return line if len(line) <= ACTIVITY_CHARS else line[: ACTIVITY_CHARS - 1] + "…"


def _text(message: Text) -> str:
    line = one_line(message.text)
    if line:
        return line
    if message.attachments is not UNSET and message.attachments:
        return wording.images_line(len(message.attachments))
    return wording.WAITING


def _command(message: Command) -> str:
    command = one_line(message.command)
    if message.status == "running":
        return f"Running {command}"
    output = one_line(message.output)
    if output:
        return output
    return f"Done: {command}" if message.status == "success" else f"Failed: {command}"


def _agents(message: ParallelAgents) -> str:
    states = [agent.status for agent in message.agents]
    failed = states.count("error")
    done = states.count("completed")
    return wording.agents_line(len(states) - failed - done, done, failed)


_Titled = Thinking | Markdown | Request
_UNTITLED: dict[type, str] = {
    Approval: wording.NEEDS_APPROVAL,
    UserInputRequest: wording.NEEDS_INPUT,
    ElicitationRequest: wording.NEEDS_MCP_INPUT,
    CodexAppRequest: wording.NEEDS_CODEX_ANSWER,
}


def _titled(message: _Titled) -> str:
    return one_line(message.title) or _UNTITLED.get(type(message), wording.WAITING)
