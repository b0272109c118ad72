"""Delegated work and waits for it: what clients ask of `state`. Replies are final JSON."""

from typing import Literal

import msgspec

from termal.model.delegation import Actor
from termal.rules.delegation_output import DEFAULT_BYTES
from termal.wire.operation import read, write
from termal.wire.turns import Anything, JsonReply

SPAWN_S = 25.0
"""A worktree may have to be made first."""
AGENT_S = 15.0
"""For what an agent must answer."""
REFRESH_S = 5.0
"""A read may look up a stored review first."""


class SpawnDelegation(msgspec.Struct, frozen=True, kw_only=True):
    """``delegation_id`` is new; a repeat is answered with the delegation that the first attempt made. ``write_policy``
    is the JSON as it was sent, None when it was left out."""

    delegation_id: str
    parent_session_id: str
    prompt: str
    title: str | None = None
    cwd: str | None = None
    agent: str | None = None
    model: str | None = None
    mode: Literal["reviewer", "explorer", "worker"] | None = None
    write_policy: bytes | None = None
    actor: Actor = "rest"


class DelegationsOf(msgspec.Struct, frozen=True):
    parent_session_id: str


class OneDelegation(msgspec.Struct, frozen=True, kw_only=True):
    parent_session_id: str
    delegation_id: str
    actor: Actor = "rest"


class ReadOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the child's whole final text, in bytes."""

    parent_session_id: str
    delegation_id: str
    offset_bytes: int = 0
    limit_bytes: int = DEFAULT_BYTES
    actor: Actor = "rest"


class FollowUp(msgspec.Struct, frozen=True, kw_only=True):
    """``key`` makes a repeat find the first attempt."""

    key: str
    parent_session_id: str
    delegation_id: str
    message: str
    actor: Actor = "rest"


class CreateWait(msgspec.Struct, frozen=True, kw_only=True):
    """``wait_id`` is new; a repeat finds the wait that the first attempt made, or the prompt that came of it.
    ``deadline_ms`` counts from now."""

    wait_id: str
    parent_session_id: str
    delegation_ids: list[str]
    mode: Literal["any", "all", "count"] = "all"
    title: str | None = None
    count: int | None = None
    deadline_ms: int | None = None
    actor: Actor = "rest"


class SubmitReview(msgspec.Struct, frozen=True, kw_only=True):
    """``body`` is the JSON as it was sent by (or for) the child."""

    child_session_id: str
    body: bytes
    actor: Actor = "rest"


class RecordTimeout(msgspec.Struct, frozen=True, kw_only=True):
    """A waiting client gave up; unknown ids are ignored."""

    parent_session_id: str
    delegation_ids: list[str]
    timeout_ms: int
    actor: Actor = "rest"


class ReadAudit(msgspec.Struct, frozen=True, kw_only=True):
    parent_session_id: str
    after: int = 0
    limit: int = 100


DELEGATION_SPAWN = write("delegation.spawn", SpawnDelegation, JsonReply, repeatable=True, timeout_s=SPAWN_S)
DELEGATION_LIST = read("delegation.list", DelegationsOf, JsonReply, timeout_s=REFRESH_S)
DELEGATION_STATUS = read("delegation.status", OneDelegation, JsonReply, timeout_s=REFRESH_S)
DELEGATION_RESULT = read("delegation.result", OneDelegation, JsonReply, timeout_s=REFRESH_S)
DELEGATION_OUTPUT = read("delegation.output", ReadOutput, JsonReply, timeout_s=REFRESH_S)
DELEGATION_CANCEL = write("delegation.cancel", OneDelegation, JsonReply, repeatable=True, timeout_s=AGENT_S)
DELEGATION_FOLLOWUP = write("delegation.followup", FollowUp, JsonReply, repeatable=True, timeout_s=AGENT_S)
DELEGATION_WAIT = write("delegation.wait", CreateWait, JsonReply, repeatable=True)
DELEGATION_WAITS = read("delegation.waits", DelegationsOf, JsonReply)
DELEGATION_CAPACITY = read("delegation.capacity", DelegationsOf, JsonReply)
REVIEW_SUBMIT = write("review.submit", SubmitReview, JsonReply, repeatable=True)
AUDIT_RECORD = write("delegation.audit", RecordTimeout, Anything, repeatable=False)
AUDIT_READ = read("delegation.audited", ReadAudit, JsonReply)
