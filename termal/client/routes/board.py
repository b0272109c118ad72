"""The coordination board of a session's project: read keys, write one against the revision that was seen."""

from typing import Any

import msgspec

from termal.client.call import Call, read, session_path
from termal.client.mail_replies import BoardHead, BoardPage, BoardReceipt


def keys(
    session_id: str,
    *,
    after_key: str | None = None,
    limit: int | None = None,
    snapshot_generation: int | None = None,
    known_generation: int | None = None,
) -> Call[BoardPage]:
    return read(
        session_path(session_id, "board"),
        BoardPage,
        afterKey=after_key,
        limit=limit,
        snapshotGeneration=snapshot_generation,
        knownGeneration=known_generation,
    )


def key(session_id: str, name: str) -> Call[BoardHead]:
    return read(session_path(session_id, "board", "keys", name), BoardHead)


def set_value(
    session_id: str,
    name: str,
    value: Any,
    *,
    expected_revision: int,
    idempotency_key: str,
    state_stamp: str | None = None,
) -> Call[BoardReceipt]:
    """``value`` is any JSON, null too; ``expected_revision`` 0 for a key that was never there."""
    return _set(session_id, {"key": name, "value": value}, expected_revision, idempotency_key, state_stamp)


def delete(
    session_id: str, name: str, *, expected_revision: int, idempotency_key: str, state_stamp: str | None = None
) -> Call[BoardReceipt]:
    return _set(session_id, {"key": name, "delete": True}, expected_revision, idempotency_key, state_stamp)


def _set(
    session_id: str, what: dict[str, Any], expected_revision: int, idempotency_key: str, state_stamp: str | None
) -> Call[BoardReceipt]:
    body = {**what, "expectedRevision": expected_revision, "idempotencyKey": idempotency_key}
    if state_stamp is not None:
        body["stateStamp"] = state_stamp
    # Encoded here: null is a value of its own and must not be left out.
    return Call(
        method="POST",
        path=session_path(session_id, "board", "set"),
        reply=BoardReceipt,
        body=msgspec.json.encode(body),
        repeatable=True,
    )
