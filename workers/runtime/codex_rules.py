"""Which requests of Codex are answered without a person: by the session's settings, and by who really asks. Pure.

Of an MCP server's request only ``serverName`` is Codex's own word; the rest can refuse, never prove.
"""

from collections.abc import Sequence
from typing import Any

from termal.bridge.descriptor import SERVER, SUBMIT_DESCRIPTION, SUBMIT_TOOL
from termal.wire.turns import SessionSpec
from workers.runtime.codex_requests import APPROVALS, ELICITATION, RIGHTS
from workers.runtime.codex_settings import permissions
from workers.runtime.repository import is_closed

Json = dict[str, Any]
_ALLOWED: Json = {"decision": "accept"}
_DECLINED: Json = {"decision": "decline"}
_YES: Json = {"action": "accept", "content": {}}
_NO: Json = {"action": "decline", "content": None}
_TOOL_CALL = "mcp_tool_call"
_SCHEMA_VERSION = 1


def ruled(spec: SessionSpec, method: str, params: Json, call: Json | None) -> Json | None:
    """The answer that the session's settings give by themselves, None when a person decides.

    ``call``: the running tool call that an MCP server's request stands for (`call_of`).
    """
    allowed = permissions(spec)
    if method == ELICITATION and call is not None and params.get("serverName") == SERVER:
        return _YES if _needs_no_person(spec, params, call) else None
    if allowed.asks:
        return None
    if method in APPROVALS:
        return _ALLOWED if allowed.full else _DECLINED
    if method == RIGHTS:
        return {"permissions": {}, "scope": "turn"}
    if method == ELICITATION and call is not None:
        return _YES if allowed.full else _NO
    return None


def may_write(params: Json, answer: Json) -> bool:
    """``answer`` lets something be done that only the session's mode allows, and that may write."""
    return answer in (_ALLOWED, _YES) and params.get("serverName") != SERVER


def call_of(params: Json, calls: Sequence[Json]) -> Json | None:
    """Which of ``calls``, all running in this turn, the request stands for: it is an empty form, and says nothing that
    contradicts."""
    schema, meta = params.get("requestedSchema"), params.get("_meta")
    if params.get("mode") != "form" or not isinstance(schema, dict):
        return None
    if schema.get("properties") or schema.get("required"):
        return None
    meta = meta if isinstance(meta, dict) else {}
    if meta.get("codex_approval_kind", _TOOL_CALL) != _TOOL_CALL:
        return None
    server = params.get("serverName")
    for call in calls:
        same = "tool_params" not in meta or (meta["tool_params"] or {}) == (call.get("arguments") or {})
        if call.get("server") == server and same:
            return call
    return None


def _needs_no_person(spec: SessionSpec, params: Json, call: Json) -> bool:
    """A call of our own server: the submission of a running review, or any in a session that asks nobody."""
    if call.get("tool") != SUBMIT_TOOL:
        return not is_closed(spec) and not permissions(spec).asks
    meta, arguments = params.get("_meta"), call.get("arguments")
    said = meta.get("tool_description", SUBMIT_DESCRIPTION) if isinstance(meta, dict) else SUBMIT_DESCRIPTION
    version = arguments.get("schemaVersion") if isinstance(arguments, dict) else None
    return spec.submits_review and version == _SCHEMA_VERSION and said == SUBMIT_DESCRIPTION
