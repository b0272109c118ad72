"""How a board refuses: the error, and as its detail the state that a caller reconciles with."""

from typing import Any

import msgspec

from termal.model.board import BoardHead
from termal.rules.board_write import MOST_LIVE, MOST_NAMES, Verdict
from termal.wire.errors import Conflict, InvalidRequest, NotFound, TermalError

_sorted = msgspec.json.Encoder(order="sorted")


def not_written(verdict: Verdict, key: str, expected: int, head: BoardHead | None, generation: int) -> TermalError:
    """``head`` and ``generation`` are what the scope has, before a write that does not happen."""
    if verdict is Verdict.NO_NAME_LEFT:
        return InvalidRequest(f"a board has at most {MOST_NAMES} different keys, ever", reason="boardNames")
    if verdict is Verdict.NO_ROOM_LEFT:
        return InvalidRequest(f"a board has at most {MOST_LIVE} keys with a value", reason="boardKeys")
    if verdict is Verdict.MOVED:
        assert head is not None
        text = f"{key} is at revision {head.revision}, not {expected}"
        return _told(Conflict, text, "revisionConflict", generation, head)
    if verdict is Verdict.ABSENT:
        return _told(NotFound, f"{key} is deleted already", "alreadyAbsent", generation, head)
    return never_existed(key, generation)


def never_existed(key: str, generation: int) -> TermalError:
    return _told(NotFound, f"{key} never existed on this board", "neverExisted", generation)


def deleted(head: BoardHead, generation: int) -> TermalError:
    return _told(NotFound, f"{head.key} is deleted", "deleted", generation, head)


def key_reused(generation: int) -> TermalError:
    text = "the idempotency key was used for another write"
    return _told(Conflict, text, "keyReused", generation)


def moved_on(generation: int) -> TermalError:
    text = f"the board is at generation {generation} now: begin again with the first page"
    return _told(Conflict, text, "snapshotMismatch", generation)


def scope_gone() -> TermalError:
    return _told(NotFound, "the project of this board was deleted", "scopeDeleted", 0)


def _told(
    kind: type[TermalError], text: str, reason: str, generation: int, head: BoardHead | None = None
) -> TermalError:
    """The detail stands in the text too, for callers that are shown nothing else."""
    detail: dict[str, Any] = {"currentGeneration": generation}
    if head is not None:
        detail["current"] = msgspec.json.decode(msgspec.json.encode(head))
    return kind(f"{text}; detail: {_sorted.encode(detail).decode()}", reason=reason, detail=detail)
