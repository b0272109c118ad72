"""The schemas of the interface description, made from the records that are really decoded and encoded."""

from typing import Any, Literal

import msgspec
from msgspec import UNSET

from termal.gateway.bodies import Body
from termal.gateway.delegations import DelegationBody
from termal.gateway.openapi_doc import Schema
from termal.model.agent_command import AgentCommand, AgentCommandsResponse
from termal.model.delegation import (
    AuditRecord,
    AuditResponse,
    DelegationsResponse,
    DelegationSummary,
    DelegationWaitRecord,
)
from termal.model.message import Message, Record
from termal.model.overview import Bucket, OverviewResponse
from termal.model.reply import AgentsResponse, CreateProjectResponse, HistoryResponse, StateResponse
from termal.model.session import BUILT_IN_AGENTS, Session
from termal.procs.agents import Readiness


class AskedPolicy(Record, frozen=True):
    """What a delegated child may write. Other kinds are known and answered with 501."""

    kind: Literal["readOnly", "isolatedWorktree"]
    owned_paths: list[str] = []
    worktree_path: str | None = None


TEMPLATE = "#/components/schemas/{name}"
INSIDE: dict[tuple[type[Any], str], Any] = {
    (StateResponse, "sessions"): list[Session],
    (StateResponse, "agentReadiness"): list[Readiness],
    (AgentsResponse, "agents"): list[Readiness],
    (HistoryResponse, "messages"): list[Message],
    (OverviewResponse, "buckets"): list[Bucket],
    (CreateProjectResponse, "state"): StateResponse,
    (AgentCommandsResponse, "commands"): list[AgentCommand],
    (StateResponse, "delegations"): list[DelegationSummary],
    (StateResponse, "delegationWaits"): list[DelegationWaitRecord],
    (DelegationsResponse, "delegations"): list[DelegationSummary],
    (DelegationBody, "writePolicy"): Literal["readOnly", "isolatedWorktree"] | AskedPolicy,
    (DelegationBody, "mode"): Literal["reviewer", "explorer"] | None,
    (AuditResponse, "events"): list[AuditRecord],
}
"""What is in fields that hold final JSON: their own type does not say."""
EXAMPLES: dict[str, Any] = {
    "agent": {"anyOf": [{"enum": list(BUILT_IN_AGENTS)}, {"type": "string", "minLength": 1}]},
}
"""Texts of bodies of which the usual values are known."""


def make_schemas(types: list[Any]) -> tuple[list[Schema], dict[str, Schema]]:
    """A schema for each of ``types`` (references for records) and the components that they refer to."""
    schemas, components = msgspec.json.schema_components([*types, *INSIDE.values()], ref_template=TEMPLATE)
    for kind in _records(types):
        name = kind.__name__
        if name in components:
            _finish(kind, components[name])
    inside = dict(zip(INSIDE, schemas[len(types) :], strict=True))
    for (kind, key), schema in inside.items():
        if kind.__name__ in components:
            components[kind.__name__]["properties"][key] = schema
    return list(schemas[: len(types)]), components


def _finish(kind: type[msgspec.Struct], schema: Schema) -> None:
    """A reply has every key but those that are left out when empty; a body need not have any that has a default."""
    if issubclass(kind, Body):
        for key, known in EXAMPLES.items():
            if schema["properties"].get(key, {}).get("type") == "string":
                schema["properties"][key] |= known
                schema["properties"][key].pop("type")
        return
    always = [field.encode_name for field in msgspec.structs.fields(kind) if field.default is not UNSET]
    tag = [schema_key for schema_key in schema.get("required", []) if schema_key not in always]
    schema["required"] = [*tag, *(key for key in always if key in schema["properties"])]


def _records(types: list[Any]) -> list[type[msgspec.Struct]]:
    """Every record that ``types`` mention, at any depth."""
    found: dict[type[msgspec.Struct], None] = {}
    waiting = [*types, *INSIDE.values()]
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            if kind in found:
                continue
            found[kind] = None
            waiting += [field.type for field in msgspec.structs.fields(kind)]
        else:
            waiting += [inner for inner in getattr(kind, "__args__", ()) if inner is not Ellipsis]
    return list(found)
