"""The message catalogue of a transcript: one tagged union, JSON in camelCase, keys left out when empty.

A message is immutable; a change is a new record under the same id and position.
"""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

Author = Literal["you", "assistant"]
CommandStatus = Literal["running", "success", "error"]
Decision = Literal["pending", "interrupted", "canceled", "accepted", "acceptedForSession", "rejected"]
InteractionState = Literal["pending", "submitted", "interrupted", "canceled"]


class Record(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Base of every record that is written as JSON for clients or into the database."""


class Attachment(Record, frozen=True):
    """What a transcript shows of an image; the image data itself is never in the transcript. Sizes in bytes."""

    byte_size: int
    file_name: str
    media_type: str


class MailboxOrigin(Record, frozen=True):
    mailbox_id: str
    message_id: str
    sequence: int
    unread_count: int


class PromptSource(Record, frozen=True):
    """Who wrote a prompt that no person typed: a peer session, a batch of them, or a mailbox wake."""

    name: str
    session_id: str | UnsetType = UNSET
    kind: Literal["peerBatch", "mailbox"] | UnsetType = UNSET
    mailbox: MailboxOrigin | UnsetType = UNSET


class TurnUsage(Record, frozen=True):
    """Tokens of one turn as its agent counts them, and the cost in US dollars where the agent tells it."""

    input_tokens: int
    output_tokens: int
    cost_usd: float | UnsetType = UNSET


class MessageBase(Record, frozen=True, kw_only=True, tag_field="type"):
    """``usage``: what the turn took, on the last message that it had when its agent said so."""

    id: str
    timestamp: str
    author: Author
    usage: TurnUsage | UnsetType = UNSET


class Text(MessageBase, frozen=True, kw_only=True, tag="text"):
    text: str
    attachments: list[Attachment] | UnsetType = UNSET
    expanded_text: str | UnsetType = UNSET
    source: PromptSource | UnsetType = UNSET


class Thinking(MessageBase, frozen=True, kw_only=True, tag="thinking"):
    title: str
    lines: list[str]


class Command(MessageBase, frozen=True, kw_only=True, tag="command"):
    command: str
    output: str
    status: CommandStatus
    command_language: str | UnsetType = "bash"
    output_language: str | UnsetType = UNSET


class Diff(MessageBase, frozen=True, kw_only=True, tag="diff"):
    file_path: str
    summary: str
    diff: str
    change_type: Literal["edit", "create"]
    change_set_id: str | UnsetType = UNSET
    language: str | UnsetType = "diff"


class Markdown(MessageBase, frozen=True, kw_only=True, tag="markdown"):
    title: str
    markdown: str


class ChangedFile(Record, frozen=True):
    path: str
    kind: Literal["created", "modified", "deleted", "other"]


class FileChanges(MessageBase, frozen=True, kw_only=True, tag="fileChanges"):
    title: str
    files: list[ChangedFile]


class Approval(MessageBase, frozen=True, kw_only=True, tag="approval"):
    title: str
    command: str
    detail: str
    decision: Decision
    command_language: str | UnsetType = UNSET
    supported_decisions: list[str] | UnsetType = UNSET


class QuestionOption(Record, frozen=True):
    label: str
    description: str


class Question(Record, frozen=True):
    id: str
    header: str
    question: str
    is_other: bool
    is_secret: bool
    options: list[QuestionOption] | UnsetType = UNSET


class UserInputRequest(MessageBase, frozen=True, kw_only=True, tag="userInputRequest"):
    title: str
    detail: str
    questions: list[Question]
    state: InteractionState
    submitted_answers: dict[str, list[str]] | UnsetType = UNSET


class ElicitationRequest(MessageBase, frozen=True, kw_only=True, tag="mcpElicitationRequest"):
    title: str
    detail: str
    request: dict[str, Any]
    state: InteractionState
    submitted_action: Literal["accept", "decline", "cancel"] | UnsetType = UNSET
    submitted_content: Any = UNSET


class CodexAppRequest(MessageBase, frozen=True, kw_only=True, tag="codexAppRequest"):
    title: str
    detail: str
    method: str
    params: Any
    state: InteractionState
    submitted_result: Any = UNSET


Asked = UserInputRequest | ElicitationRequest | CodexAppRequest
"""What a person answers with words."""
Request = Approval | Asked
"""Everything of an agent that waits for a person."""


class ParallelAgent(Record, frozen=True):
    id: str
    source: Literal["delegation", "tool"]
    status: Literal["initializing", "running", "completed", "error"]
    title: str
    detail: str | UnsetType = UNSET


class ParallelAgents(MessageBase, frozen=True, kw_only=True, tag="parallelAgents"):
    agents: list[ParallelAgent]


class SubagentResult(MessageBase, frozen=True, kw_only=True, tag="subagentResult"):
    title: str
    summary: str
    conversation_id: str | UnsetType = UNSET
    turn_id: str | UnsetType = UNSET


Message = (
    Text
    | Thinking
    | Command
    | Diff
    | Markdown
    | FileChanges
    | Approval
    | UserInputRequest
    | ElicitationRequest
    | CodexAppRequest
    | ParallelAgents
    | SubagentResult
)
