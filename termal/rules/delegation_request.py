"""What a request for a delegation, a follow-up or a wait may say. Checks run in a fixed order; the first one wins."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from termal.model.delegation import Mode, WaitMode, WritePolicy
from termal.rules.delegation_policy import decode_policy
from termal.rules.settings import MODEL_CHARS
from termal.rules.verdicts import Bad, Missing, Stale, Unbuilt

PROMPT_BYTES = 65536
TITLE_CHARS = 200
DEFAULT_TITLE = "Delegated review"
ACTIVE_LIMIT = 4
"""Active delegations of one parent."""
DEPTH_LIMIT = 3
"""Generations of children below a session that nobody delegated to."""
WAIT_IDS = 10
WAIT_MS = (1000, 86_400_000)
"""Shortest and longest time after which a wait resumes its parent with what is there."""


class Asked(NamedTuple):
    """A request for a delegation with its defaults filled in; ``model`` None: the agent's default."""

    prompt: str
    title: str
    model: str | None
    mode: Mode
    policy: WritePolicy


class AskedWait(NamedTuple):
    delegation_ids: list[str]
    mode: WaitMode
    title: str | None
    needed: int | None
    deadline_ms: int | None


def checked_spawn(
    parent_id: str,
    prompt: str,
    *,
    title: str | None = None,
    model: str | None = None,
    mode: Mode | None = None,
    policy: bytes | None = None,
) -> Asked:
    """Everything that can be said without knowing any session. Sizes come before what is not built yet.

    Raises `Malformed`, `Bad`, `Unbuilt`.
    """
    decoded = decode_policy(policy)
    if not parent_id.strip():
        raise Bad("the parent session id must be non-empty", reason="parentIdRequired")
    asked = Asked(
        prompt=checked_prompt(prompt),
        title=checked_title(title),
        model=checked_model(model),
        mode=mode or "reviewer",
        policy=decoded,
    )
    if asked.mode == "worker":
        raise Unbuilt("delegations of mode worker are not built yet", reason="workerNotImplemented")
    if asked.policy.kind == "sharedWorktree":
        raise Unbuilt("the write policy sharedWorktree is not built yet", reason="sharedWorktreeNotImplemented")
    return asked


def checked_prompt(prompt: str) -> str:
    """Trimmed. Raises `Bad`."""
    return _text(prompt, "prompt", empty="promptEmpty")


def checked_title(title: str | None) -> str:
    """Trimmed; a blank one is the default. Raises `Bad`."""
    text = (title or "").strip()
    if len(text) > TITLE_CHARS:
        raise Bad(f"title must be no longer than {TITLE_CHARS} characters", reason="titleTooLong")
    return text or DEFAULT_TITLE


def checked_model(model: str | None) -> str | None:
    """Trimmed; a blank one is None. Raises `Bad`."""
    text = (model or "").strip()
    if len(text) > MODEL_CHARS:
        raise Bad(f"model must be no longer than {MODEL_CHARS} characters", reason="modelTooLong")
    return text or None


def checked_followup(message: str) -> str:
    """Trimmed. Raises `Bad`."""
    return _text(message, "the message", empty="followupEmpty")


def check_capacity(active: int, depth: int) -> None:
    """Raises `Stale` when the parent may have no further delegation now."""
    if active >= ACTIVE_LIMIT:
        raise Stale(f"{ACTIVE_LIMIT} delegations of this session are active already", reason="activeLimit")
    if depth >= DEPTH_LIMIT:
        raise Stale(f"a session {DEPTH_LIMIT} delegations deep may not delegate further", reason="depthLimit")


def checked_wait(
    delegation_ids: Iterable[str],
    *,
    mode: WaitMode = "all",
    title: str | None = None,
    count: int | None = None,
    deadline_ms: int | None = None,
) -> AskedWait:
    """Ids trimmed, repeats dropped in their order. Raises `Bad`."""
    ids = list(dict.fromkeys(one.strip() for one in delegation_ids))
    if "" in ids:
        raise Bad("a delegation id must be non-empty", reason="waitIdEmpty")
    if not ids:
        raise Bad("a delegation wait needs at least one delegation id", reason="waitNoIds")
    if len(ids) > WAIT_IDS:
        raise Bad(f"delegation wait accepts at most {WAIT_IDS} delegation ids", reason="waitTooManyIds")
    text = (title or "").strip()
    if len(text) > TITLE_CHARS:
        raise Bad(f"delegation wait title must be at most {TITLE_CHARS} characters", reason="waitTitleTooLong")
    if (mode == "count") != (count is not None) or (count is not None and not 1 <= count <= len(ids)):
        raise Bad(
            "a wait of mode count, and no other, has a count of 1 to its number of ids", reason="waitCountInvalid"
        )
    if deadline_ms is not None and not WAIT_MS[0] <= deadline_ms <= WAIT_MS[1]:
        raise Bad(f"the deadline of a wait is {WAIT_MS[0]} to {WAIT_MS[1]} ms away", reason="waitDeadlineInvalid")
    return AskedWait(ids, mode, text or None, count, deadline_ms)


def check_watched(ids: Sequence[str], parent_id: str, parents: Mapping[str, str]) -> None:
    """Each id in its order; ``parents`` maps the known delegations to their parents. Raises `Missing`, `Bad`."""
    for one in ids:
        owner = parents.get(one)
        if owner is None:
            raise Missing(f"there is no delegation {one}", reason="delegationNotFound")
        if owner != parent_id:
            raise Bad(f"delegation {one} does not belong to parent session {parent_id}", reason="waitForeignDelegation")


def is_satisfied(mode: WaitMode, watched: int, terminal: int, count: int | None) -> bool:
    """Whether a wait on ``watched`` delegations is met once ``terminal`` of them are."""
    needed: dict[Literal["any", "all", "count"], int] = {"any": 1, "all": watched, "count": count or watched}
    return terminal >= needed[mode]


def _text(text: str, name: str, *, empty: str) -> str:
    trimmed = text.strip()
    if not trimmed:
        raise Bad(f"{name} must be non-empty", reason=empty)
    if len(trimmed.encode("utf-8", "surrogatepass")) > PROMPT_BYTES:
        raise Bad(f"{name} must be no larger than {PROMPT_BYTES} bytes", reason="promptTooLarge")
    return trimmed
