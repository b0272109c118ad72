"""The deltas of the event stream: one object each, with the revision of its commit. Indexes and counts are global."""

from msgspec import UNSET, UnsetType

from termal.model.codex import CodexFacts
from termal.model.delegation import (
    ConsumedReason,
    DelegationResultSummary,
    DelegationSummary,
    DelegationWaitRecord,
    Status,
)
from termal.model.marker import Marker
from termal.model.message import CommandStatus, Message, ParallelAgent, Record
from termal.model.session import Session, SessionStatus


class AnyDelta(Record, frozen=True, tag_field="type"):
    revision: int


class Delta(AnyDelta, frozen=True):
    """Base of the deltas about one session."""

    session_id: str


class SessionCreated(Delta, frozen=True, tag="sessionCreated"):
    session: Session


class SessionSummaryUpdated(Delta, frozen=True, tag="sessionSummaryUpdated"):
    session: Session
    session_mutation_stamp: int


class MessageDelta(Delta, frozen=True):
    """Base of the deltas about one message; values are those after the change."""

    message_id: str
    message_index: int
    message_count: int
    session_mutation_stamp: int


class MessageAdded(MessageDelta, frozen=True, tag="messageAdded"):
    message: Message
    preview: str
    status: SessionStatus


class MessageUpdated(MessageDelta, frozen=True, tag="messageUpdated"):
    message: Message
    preview: str
    status: SessionStatus


class MessagesCompacted(Delta, frozen=True, tag="messagesCompacted"):
    """Positions changed: whoever shows messages of this session reads them anew."""

    message_count: int
    preview: str
    status: SessionStatus
    session_mutation_stamp: int


class TextDelta(MessageDelta, frozen=True, tag="textDelta"):
    """``text_start_byte``: the UTF-8 length of the message's text before this piece."""

    delta: str
    text_start_byte: int
    preview: str | UnsetType = UNSET


class TextReplace(MessageDelta, frozen=True, tag="textReplace"):
    text: str
    preview: str | UnsetType = UNSET


class CommandUpdate(MessageDelta, frozen=True, tag="commandUpdate"):
    command: str
    output: str
    status: CommandStatus
    preview: str
    command_language: str | UnsetType = UNSET
    output_language: str | UnsetType = UNSET


class ParallelAgentsUpdate(MessageDelta, frozen=True, tag="parallelAgentsUpdate"):
    agents: list[ParallelAgent]
    preview: str


class MarkerDelta(Delta, frozen=True):
    """Base of the deltas about one marker, written out whole."""

    marker: Marker
    session_mutation_stamp: int


class ConversationMarkerCreated(MarkerDelta, frozen=True, tag="conversationMarkerCreated"):
    pass


class ConversationMarkerUpdated(MarkerDelta, frozen=True, tag="conversationMarkerUpdated"):
    pass


class ConversationMarkerDeleted(Delta, frozen=True, tag="conversationMarkerDeleted"):
    marker_id: str
    session_mutation_stamp: int


class CodexUpdated(AnyDelta, frozen=True, tag="codexUpdated"):
    """``codex`` takes the place of all that was told before."""

    codex: CodexFacts


class DelegationCreated(AnyDelta, frozen=True, tag="delegationCreated"):
    delegation: DelegationSummary


class DelegationUpdated(AnyDelta, frozen=True, tag="delegationUpdated"):
    delegation_id: str
    status: Status
    updated_at: str


class DelegationCompleted(AnyDelta, frozen=True, tag="delegationCompleted"):
    delegation_id: str
    result: DelegationResultSummary
    completed_at: str


class DelegationFailed(AnyDelta, frozen=True, tag="delegationFailed"):
    delegation_id: str
    result: DelegationResultSummary
    failed_at: str


class DelegationCanceled(AnyDelta, frozen=True, tag="delegationCanceled"):
    """``reason`` names what the child was waiting for."""

    delegation_id: str
    canceled_at: str
    reason: str | UnsetType = UNSET


class DelegationWaitCreated(AnyDelta, frozen=True, tag="delegationWaitCreated"):
    wait: DelegationWaitRecord


class DelegationWaitConsumed(AnyDelta, frozen=True, tag="delegationWaitConsumed"):
    """``partial``: its deadline came before its condition."""

    wait_id: str
    parent_session_id: str
    reason: ConsumedReason
    partial: bool | UnsetType = UNSET


class DelegationWaitResumeDispatchFailed(AnyDelta, frozen=True, tag="delegationWaitResumeDispatchFailed"):
    parent_session_id: str
    error: str
