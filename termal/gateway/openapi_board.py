"""Rows of the interface description for boards."""

from termal.gateway.board import BoardSetBody
from termal.gateway.openapi_doc import SESSION, Doc, number, words
from termal.model.board import BoardEntry, BoardPage, BoardReceipt
from termal.rules.board_field import MOST_PAGE_ENTRIES, PAGE_ENTRIES

_BOARD = f"{SESSION}/board"

BOARD_DOCS: dict[tuple[str, str], Doc] = {
    ("GET", _BOARD): Doc(
        operation="listBoard",
        tag="board",
        summary="The keys of the board of the session's project, in their order",
        description=(
            "A further page names `afterKey` and, as `snapshotGeneration`, the `generation` of the first one: 409 when "
            "the board was written to in between. `knownGeneration` asks for nothing but whether it was."
        ),
        query=(
            words("afterKey", "The `nextAfterKey` of the page before"),
            number("limit", "How many keys", 1, MOST_PAGE_ENTRIES, default=PAGE_ENTRIES),
            number("snapshotGeneration", "The `generation` of the first page", 0),
            number("knownGeneration", "A generation that the caller has seen whole", 0),
        ),
        reply=BoardPage,
        refusals=(409,),
    ),
    ("GET", f"{_BOARD}/keys/{{key}}"): Doc(
        operation="readBoardKey",
        tag="board",
        summary="One key of the board",
        description="404 for a deleted key has it as `current` in the `detail`.",
        reply=BoardEntry,
    ),
    ("POST", f"{_BOARD}/set"): Doc(
        operation="setBoardKey",
        tag="board",
        summary="Set or delete one key of the board",
        description=(
            "`expectedRevision` is the revision that is to be replaced, 0 for a new key; 409 with the `current` one in "
            "the `detail` when it is another. Nobody is woken. A repeat with the same `idempotencyKey` gets the "
            "receipt of the first attempt with `duplicate` true."
        ),
        body=BoardSetBody,
        reply=BoardReceipt,
        also={201: "Done: the first revision of a key."},
        refusals=(409,),
        example={"key": "gates.build", "expectedRevision": 0, "idempotencyKey": "one", "value": {"ok": True}},
    ),
}
