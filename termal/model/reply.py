"""The objects that HTTP replies of sessions and state are made of. ``sessions`` are final JSON, made once a change."""

from typing import Any

from msgspec import UNSET, Raw, UnsetType

from termal.model.message import Record
from termal.model.session import Session
from termal.model.stored import Preferences, Project


class StateResponse(Record, frozen=True):
    revision: int
    server_instance_id: str
    codex: Any
    agent_readiness: list[Any]
    preferences: Preferences
    projects: list[Project]
    orchestrators: list[Any]
    workspaces: list[Any]
    sessions: list[Raw]
    delegations: list[Any] | UnsetType = UNSET
    delegation_waits: list[Any] | UnsetType = UNSET
    message_disposition: str | UnsetType = UNSET


class SessionResponse(Record, frozen=True):
    revision: int
    server_instance_id: str
    session: Session


class CreateSessionResponse(Record, frozen=True):
    session_id: str
    session: Session
    revision: int
    server_instance_id: str


class HistoryResponse(Record, frozen=True):
    """One ascending page, its messages as final JSON. Cursors are exclusive, there only while their side has more."""

    messages: list[Raw]
    has_more: bool
    has_newer: bool
    message_start_index: int
    message_count: int
    revision: int
    session_mutation_stamp: int
    server_instance_id: str
    next_before: str | UnsetType = UNSET
    next_after: str | UnsetType = UNSET


class AgentsResponse(Record, frozen=True):
    """``agents`` are readiness rows."""

    agents: list[Any]


class CreateProjectResponse(Record, frozen=True):
    """``state`` is the final JSON of a `StateResponse`."""

    project_id: str
    state: Raw
