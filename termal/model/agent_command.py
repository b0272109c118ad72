"""Commands that can be typed in a session, as clients see them."""

from typing import Literal

from msgspec import UNSET, Raw, UnsetType

from termal.model.message import Record

CommandKind = Literal["promptTemplate", "nativeSlash"]
"""A text with a place for arguments, or a command that the agent knows by itself."""


class AgentCommand(Record, frozen=True):
    kind: CommandKind
    name: str
    description: str
    content: str
    source: str
    argument_hint: str | UnsetType = UNSET


class AgentCommandsResponse(Record, frozen=True):
    """``commands`` are final JSON of `AgentCommand`."""

    commands: list[Raw]


class ResolvedCommand(Record, frozen=True):
    """``expanded_prompt`` is what the agent reads, ``visible_prompt`` what the transcript shows."""

    name: str
    source: str
    kind: CommandKind
    visible_prompt: str
    expanded_prompt: str | UnsetType = UNSET
    title: str | UnsetType = UNSET
