"""Tools of root sessions on their project's board: list, get, set with the revision that was seen."""

from typing import Any

import msgspec

from termal.bridge.arguments import Arguments, board_key, required, unsigned
from termal.bridge.backend import Backend, record, unusable
from termal.bridge.failures import BOARD_SET, ToolFailed
from termal.client.call import Call, session_path
from termal.client.mail_replies import BoardReceipt
from termal.client.packets import Json
from termal.client.routes import board

LONGEST_PAGE = 200
_LARGEST = (1 << 63) - 1


async def list_keys(backend: Backend, arguments: Arguments) -> Json:
    limit = _given(arguments, "limit", most=LONGEST_PAGE)
    if limit == 0:
        raise ToolFailed("limit must be at least 1")
    call = board.keys(
        backend.session_id,
        after_key=None if arguments.get("afterKey") is None else board_key(arguments, "afterKey"),
        limit=limit,
        snapshot_generation=_given(arguments, "snapshotGeneration"),
        known_generation=_given(arguments, "knownGeneration"),
    )
    return record(await backend.safely(call))


async def get(backend: Backend, arguments: Arguments) -> Json:
    return record(await backend.safely(board.key(backend.session_id, board_key(arguments))))


async def set_key(backend: Backend, arguments: Arguments) -> Json:
    """``value`` and ``delete`` go on exactly as they were given, so that null and deletion stay two things."""
    body: Json = {
        "key": board_key(arguments),
        "expectedRevision": unsigned(arguments, "expectedRevision"),
        "idempotencyKey": required(arguments, "idempotencyKey"),
        **{name: arguments[name] for name in ("value", "delete") if name in arguments},
    }
    if "stateStamp" in arguments:
        stamp = arguments["stateStamp"]
        if not isinstance(stamp, str) or not stamp.strip():
            raise ToolFailed("stateStamp must be a string that is not blank")
        # Untrimmed: the board compares intents byte for byte.
        body["stateStamp"] = stamp
    call = Call(
        method="POST",
        path=session_path(backend.session_id, "board", "set"),
        reply=BoardReceipt,
        body=msgspec.json.encode(body),
    )
    receipt = record(await backend.safely(call, BOARD_SET))
    if not _answers(receipt, body, backend.session_id):
        raise unusable(call, BOARD_SET)
    return receipt


def _answers(receipt: Json, body: Json, session_id: str) -> bool:
    """Whether the receipt is that of this very request, a duplicate's too."""
    deletes = body.get("delete") is True
    prior, revision = receipt["priorRevision"], receipt["revision"]
    return (
        receipt["key"] == body["key"]
        and receipt["authorSessionId"] == session_id
        and prior == body["expectedRevision"]
        and prior < _LARGEST
        and revision == prior + 1
        and receipt["deleted"] is deletes
        and same_json(receipt["value"], None if deletes else body.get("value"))
        and receipt.get("stateStamp") == body.get("stateStamp")
    )


def same_json(first: Any, second: Any) -> bool:
    """Equality as JSON has it: true is not 1."""
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(same_json(value, second[name]) for name, value in first.items())
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(same_json, first, second))
    return bool(first == second)


def _given(arguments: Arguments, field: str, *, most: int | None = None) -> int | None:
    return None if arguments.get(field) is None else unsigned(arguments, field, most=most)
