"""The coordination board: versioned JSON facts of a local project. The scope is derived from the calling session."""

import msgspec

from termal.rules.board_field import PAGE_ENTRIES
from termal.wire.operation import read, write
from termal.wire.turns import JsonReply


class ReadBoard(msgspec.Struct, frozen=True):
    session_id: str
    after_key: str | None = None
    limit: int = PAGE_ENTRIES
    snapshot_generation: int | None = None
    known_generation: int | None = None


class ReadBoardKey(msgspec.Struct, frozen=True):
    session_id: str
    key: str


class SetBoardKey(msgspec.Struct, frozen=True, kw_only=True):
    """``value``: the JSON text as it came, None when the member was absent; ``delete`` writes a tombstone."""

    session_id: str
    key: str
    expected_revision: int
    idempotency_key: str
    value: bytes | None = None
    delete: bool = False
    state_stamp: str | None = None


class BoardWritten(msgspec.Struct, frozen=True):
    """The receipt as final JSON; ``created``: it is the first revision of its key, and no repeat."""

    json: bytes
    created: bool


BOARD_LIST = read("board.list", ReadBoard, JsonReply, timeout_s=5.0)
BOARD_GET = read("board.get", ReadBoardKey, JsonReply, timeout_s=5.0)
BOARD_SET = write("board.set", SetBoardKey, BoardWritten, repeatable=True)
