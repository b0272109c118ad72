"""What the token of one session opens: pure rules on method and path, and what that session may see of the state."""

from collections.abc import Sequence
from typing import Any, Literal
from urllib.parse import unquote_to_bytes

import msgspec

Verdict = Literal["open", "peers", "closed"]
"""``peers``: for root sessions alone, which nobody but `state` can tell."""

_ANY = "*"
_COMMON = {("GET", ("api", "state")), ("GET", ("api", "health"))}
_OWN: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("GET", ()),
    ("GET", ("history",)),
    ("GET", ("overview",)),
    ("GET", ("markers",)),
    ("GET", ("agent-commands",)),
    ("POST", ("agent-commands", _ANY, "resolve")),
    ("GET", ("delegations",)),
    ("POST", ("delegations",)),
    ("GET", ("delegations", _ANY)),
    ("GET", ("delegations", _ANY, "result")),
    ("GET", ("delegations", _ANY, "result", "output")),
    ("POST", ("delegations", _ANY, "cancel")),
    ("POST", ("delegations", _ANY, "followup")),
    ("POST", ("delegation-waits",)),
    ("POST", ("delegation-review-result",)),
    ("GET", ("delegation-audit-events",)),
    ("POST", ("delegation-audit-events",)),
)
"""Below ``/api/sessions/{own id}``. Not there: prompts, settings, approvals. An agent must not answer what it asks."""
_PEERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("GET", ("mailboxes",)),
    ("GET", ("mailboxes", _ANY)),
    ("POST", ("mailboxes", "send")),
    ("POST", ("mailboxes", _ANY, "read")),
    ("POST", ("mailboxes", _ANY, "acknowledge")),
    ("GET", ("mailbox-messages", _ANY)),
    ("GET", ("board",)),
    ("GET", ("board", "keys", _ANY)),
    ("POST", ("board", "set")),
)


def judge(session_id: str, method: str, raw_path: str) -> Verdict:
    """Whether the token of ``session_id`` opens this path, given as it was sent: each segment is decoded once here."""
    try:
        segments = tuple(unquote_to_bytes(segment).decode() for segment in raw_path.split("/")[1:])
    except UnicodeDecodeError:
        return "closed"
    if (method, segments) in _COMMON:
        return "open"
    if segments[:2] != ("api", "sessions") or len(segments) < 3 or segments[2] != session_id:
        return "closed"
    if _has(_OWN, method, segments[3:]):
        return "open"
    return "peers" if _has(_PEERS, method, segments[3:]) else "closed"


def seen_by(session_id: str, state: bytes) -> bytes:
    """The state without what this session must not see: for a root session other sessions' delegations and children,
    for a child everything but itself and what it delegated."""
    whole: dict[str, Any] = msgspec.json.decode(state)
    sessions, delegations = _records(whole, "sessions"), _records(whole, "delegations")
    children = {row.get("childSessionId") for row in delegations}
    children |= {row.get("id") for row in sessions if row.get("parentDelegationId")}
    own = [row for row in delegations if session_id in (row.get("parentSessionId"), row.get("childSessionId"))]
    visible = {session_id, *(row.get("childSessionId") for row in own if row.get("parentSessionId") == session_id)}
    is_root = session_id not in children and any(row.get("id") == session_id for row in sessions)
    shown = [row for row in sessions if row.get("id") in visible or (is_root and row.get("id") not in children)]
    projects = {row.get("projectId") for row in shown}
    waits = [row for row in _records(whole, "delegationWaits") if row.get("parentSessionId") == session_id]
    kept = {name: whole[name] for name in ("revision", "serverInstanceId", "agentReadiness") if name in whole}
    return msgspec.json.encode(
        {
            **kept,
            "sessions": shown,
            "projects": [row for row in _records(whole, "projects") if row.get("id") in projects],
            "delegations": own,
            "delegationWaits": waits,
        }
    )


def _has(rules: Sequence[tuple[str, tuple[str, ...]]], method: str, rest: tuple[str, ...]) -> bool:
    return any(
        method == known
        and len(rest) == len(shape)
        and all(each in (_ANY, word) for each, word in zip(shape, rest, strict=True))
        for known, shape in rules
    )


def _records(whole: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [row for row in whole.get(name) or [] if isinstance(row, dict)]
