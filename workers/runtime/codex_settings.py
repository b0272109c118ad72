"""What Codex is told of a session: where it works, what it may do, which model, which MCP servers. Pure.

A thread always begins in the read-only sandbox, and each turn brings the session's own: a thread that begins with
more makes Codex trust the folder for good, and run what the repository configures.
"""

import base64
from pathlib import Path
from typing import Any

import msgspec

from termal.bridge.descriptor import codex_config
from termal.config import AgentConfig
from termal.wire.session_operations import PromptImage
from termal.wire.turns import ModelDetail, SessionSpec
from workers.runtime.repository import advice, is_closed, is_trusted, working_tree

FAST_TIERS = frozenset({"fast", "priority"})
_OWN_MODEL = frozenset({"", "auto", "default"})
_SANDBOXES = {"read-only": "readOnly", "workspace-write": "workspaceWrite", "danger-full-access": "dangerFullAccess"}
_ASK = "on-request"
_POLICIES = {"untrusted": "untrusted"}
"""All others ask: ``never`` refuses every call of an MCP server too, so its answers are given here instead."""

Json = dict[str, Any]


class Permissions(msgspec.Struct, frozen=True):
    """``asks``: a person decides; else what leaves the sandbox is refused, or taken (``full``) where there is none."""

    asks: bool
    full: bool


def permissions(spec: SessionSpec) -> Permissions:
    if is_closed(spec):
        return Permissions(asks=False, full=False)
    asks = spec.modes.get("approvalPolicy") != "never"
    return Permissions(asks=asks, full=not asks and sandbox_of(spec) == "danger-full-access")


def sandbox_of(spec: SessionSpec) -> str:
    return "read-only" if spec.read_only else spec.modes.get("sandboxMode", "read-only")


def thread_params(spec: SessionSpec, own: AgentConfig) -> Json:
    """For a thread's start, resume and fork. MCP servers must be given each time. ``own``: what the user configured.

    A folder that Codex must not trust is not even read for its advice, which is text alone and given here instead.
    """
    config: Json = codex_config(spec.mcp_servers) if spec.mcp_servers else {}
    closed = is_closed(spec)
    if closed or is_trusted(own, spec):
        level = "untrusted" if closed else "trusted"
        config["projects"] = {folder: {"trust_level": level} for folder in _projects(spec.workdir)}
    params: Json = {
        "cwd": spec.workdir,
        "approvalPolicy": _policy(spec),
        "sandbox": "read-only",
        "config": config,
    }
    if closed and (text := advice(spec.workdir, "AGENTS.md")):
        params["developerInstructions"] = text
    if spec.model not in _OWN_MODEL:
        params["model"] = spec.model
    return params


def turn_params(
    spec: SessionSpec, text: str, images: list[PromptImage], workspace: Json, details: dict[str, ModelDetail]
) -> Json:
    """``workspace``: the user's own settings of the sandbox that may write."""
    parts: list[Json] = [
        {"type": "image", "url": f"data:{image.media_type};base64,{base64.b64encode(image.data).decode()}"}
        for image in images
    ]
    if text:
        parts.append({"type": "text", "text": text})
    params: Json = {"input": parts, "approvalPolicy": _policy(spec), "sandboxPolicy": _sandbox(spec, workspace)}
    if spec.model not in _OWN_MODEL:
        params["model"] = spec.model
    if effort := spec.modes.get("reasoningEffort"):
        params["effort"] = effort
    if spec.modes.get("codexFastMode") == "true" and (tier := _fast_tier(details.get(spec.model))):
        params["serviceTierForTurn"] = tier
    return params


def workspace_settings(config: object) -> Json:
    """What ``config/read`` says of the sandbox that may write, in the words of a turn."""
    found = config.get("sandbox_workspace_write") if isinstance(config, dict) else None
    if not isinstance(found, dict):
        return {}
    roots = found.get("writable_roots")
    return {
        "writableRoots": [root for root in roots if isinstance(root, str)] if isinstance(roots, list) else [],
        "networkAccess": found.get("network_access") is True,
        "excludeTmpdirEnvVar": found.get("exclude_tmpdir_env_var") is True,
        "excludeSlashTmp": found.get("exclude_slash_tmp") is True,
    }


def _policy(spec: SessionSpec) -> str:
    if is_closed(spec):
        return _ASK
    return _POLICIES.get(spec.modes.get("approvalPolicy", ""), _ASK)


def _sandbox(spec: SessionSpec, workspace: Json) -> Json:
    kind = _SANDBOXES.get(sandbox_of(spec), "readOnly")
    if kind != "workspaceWrite":
        return {"type": kind}
    if spec.delegated:
        # The parent's workspace may lie below the temporary folders, which are writable otherwise.
        return {"type": kind, "excludeTmpdirEnvVar": True, "excludeSlashTmp": True}
    return {"type": kind, **workspace}


def _projects(folder: str) -> list[str]:
    """The folders by which Codex decides whether a repository's own configuration counts."""
    path = Path(folder)
    return sorted({str(path), str(working_tree(path))})


def _fast_tier(detail: ModelDetail | None) -> str | None:
    tiers = detail.tiers if detail is not None else []
    return next((tier for tier, _, _ in tiers if tier.lower() in FAST_TIERS), None)
