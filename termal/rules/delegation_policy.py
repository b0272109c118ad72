"""The write policy of a delegation: every way in which a request may say it, the words that people and agents read."""

from typing import Any

import msgspec
from msgspec import UNSET

from termal.model.delegation import READ_ONLY, PolicyKind, WritePolicy
from termal.rules.verdicts import Malformed

_KINDS: dict[str, PolicyKind] = {
    **dict.fromkeys(("readOnly", "read_only", "read-only", "readonly"), "readOnly"),
    **dict.fromkeys(("sharedWorktree", "shared_worktree", "shared-worktree"), "sharedWorktree"),
    **dict.fromkeys(("isolatedWorktree", "isolated_worktree", "isolated-worktree"), "isolatedWorktree"),
}
_OWNED = ("ownedPaths", "owned_paths")
_WORKTREE = ("worktreePath", "worktree_path")
LABELS: dict[str, str] = {
    "readOnly": "Read-only",
    "isolatedWorktree": "Isolated-worktree",
    "sharedWorktree": "Shared-worktree",
}
_SUBJECTS = {"readOnly": "read-only", "isolatedWorktree": "isolation", "sharedWorktree": "shared worktree"}


def decode_policy(raw: bytes | None) -> WritePolicy:
    """What the JSON ``raw`` asks for; None and null are `READ_ONLY`. Raises `Malformed`."""
    if raw is None:
        return READ_ONLY
    try:
        return policy_of(msgspec.json.decode(raw))
    except (msgspec.DecodeError, RecursionError) as error:
        raise _malformed("it is no JSON") from error


def policy_of(value: Any) -> WritePolicy:
    """The policy that a decoded JSON value asks for. Raises `Malformed`."""
    if value is None or value == {}:
        return READ_ONLY
    if isinstance(value, str):
        return _policy(value, {})
    if not isinstance(value, dict):
        raise _malformed("it is neither a word nor an object")
    if "kind" in value:
        return _policy(value["kind"], value)
    if len(value) != 1:
        raise _malformed("it names several kinds")
    ((kind, fields),) = value.items()
    if fields is True or fields is None:
        return _policy(kind, {})
    if not isinstance(fields, dict):
        raise _malformed("what is behind the kind is no object")
    return _policy(kind, fields)


def described(policy: WritePolicy, enforcement: str) -> str:
    """``read-only requested``, ``isolation guaranteed``: what was asked for and how it is kept."""
    return f"{_SUBJECTS[policy.kind]} {enforcement}"


def _policy(kind: Any, fields: dict[str, Any]) -> WritePolicy:
    known = _KINDS.get(kind) if isinstance(kind, str) else None
    if known is None:
        raise _malformed("its kind is unknown")
    owned, worktree = _owned(fields), _worktree(fields)
    if known == "readOnly":
        return READ_ONLY
    return WritePolicy(
        kind=known, owned_paths=owned, worktree_path=worktree if known == "isolatedWorktree" and worktree else UNSET
    )


def _owned(fields: dict[str, Any]) -> list[str]:
    value = _field(fields, _OWNED)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(path, str) for path in value):
        raise _malformed("ownedPaths is no list of texts")
    return value


def _worktree(fields: dict[str, Any]) -> str | None:
    value = _field(fields, _WORKTREE)
    if value is not None and not isinstance(value, str):
        raise _malformed("worktreePath is no text")
    return value


def _field(fields: dict[str, Any], names: tuple[str, ...]) -> Any:
    given = [fields[name] for name in names if name in fields]
    if len(given) > 1:
        raise _malformed(f"{names[0]} is there twice")
    return given[0] if given else None


def _malformed(why: str) -> Malformed:
    return Malformed(f"writePolicy does not have the expected form: {why}", reason="invalidJson")
