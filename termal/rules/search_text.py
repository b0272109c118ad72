"""The text of a message that can be searched for. Answers of people to an agent's questions are no part of it."""

from collections.abc import Callable
from typing import Any

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
    SubagentResult,
    Text,
    Thinking,
    UserInputRequest,
)

TEXT_CHARACTERS = 1 << 20
OUTPUT_CHARACTERS = 64 << 10
"""Of a command's output: the rest is rarely what somebody looks for, and there is much of it."""


def _agents(message: ParallelAgents) -> list[str]:
    return [part for agent in message.agents for part in (agent.title, "" if agent.detail is UNSET else agent.detail)]


_PARTS: dict[type[Any], Callable[[Any], list[str]]] = {
    Text: lambda message: [message.text],
    Thinking: lambda message: [message.title, *message.lines],
    Command: lambda message: [message.command, message.output[:OUTPUT_CHARACTERS]],
    Diff: lambda message: [message.file_path, message.summary, message.diff],
    Markdown: lambda message: [message.title, message.markdown],
    FileChanges: lambda message: [message.title, *(changed.path for changed in message.files)],
    Approval: lambda message: [message.title, message.command, message.detail],
    UserInputRequest: lambda message: [message.title, message.detail],
    ElicitationRequest: lambda message: [message.title, message.detail],
    CodexAppRequest: lambda message: [message.title, message.detail],
    ParallelAgents: _agents,
    SubagentResult: lambda message: [message.title, message.summary],
}


def search_text(message: Message) -> str:
    """At most `TEXT_CHARACTERS`, one part in each line."""
    return "\n".join(part for part in _PARTS[type(message)](message) if part)[:TEXT_CHARACTERS]
