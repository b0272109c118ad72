"""The board tools: null and deletion stay two things, receipts must answer the request, keys keep addresses whole."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.bridge_kit import CALLER, OWN, Kit, state, with_bridge
from tests.support.scripted_api import Reply, ScriptedApi, failure

SET = f"POST {OWN}/board/set"
WRITE = {"key": "gates.union", "expectedRevision": 1, "idempotencyKey": "k"}


@pytest.fixture
def api() -> Iterator[ScriptedApi]:
    with ScriptedApi() as api:
        api.on("GET /api/state", state())
        yield api


def written(**more: Any) -> dict[str, Any]:
    return {
        "key": "gates.union",
        "revision": 2,
        "priorRevision": 1,
        "generation": 7,
        "value": None,
        "deleted": False,
        "authorSessionId": CALLER,
        "authorName": "Lead",
        "updatedAt": "2026-01-01T00:00:00.000Z",
        "duplicate": False,
        **more,
    }


@pytest.mark.case("B47")
def test_null_is_a_value_and_deletion_has_none(api: ScriptedApi) -> None:
    api.on(SET, Reply(200, written()), Reply(200, written(deleted=True)))

    async def story(bridge: Kit) -> None:
        await bridge.done("termal_board_set", **WRITE, value=None)
        await bridge.done("termal_board_set", **WRITE, delete=True)

    with_bridge(api, story)
    first, second = (asked.json for asked in api.of(SET))
    assert first == {**WRITE, "value": None}
    assert second == {**WRITE, "delete": True}


@pytest.mark.case("B48")
@pytest.mark.parametrize(
    ("arguments", "receipt"),
    [
        pytest.param({"value": 1}, written(value=1, key="other"), id="another key"),
        pytest.param({"delete": True}, written(deleted=True, value=1), id="deleted with a value"),
        pytest.param({"value": 1}, written(value=1, priorRevision=(1 << 64) - 1), id="largest revision"),
        pytest.param(
            {"value": 1, "expectedRevision": (1 << 63) - 1},
            written(value=1, priorRevision=(1 << 63) - 1, revision=1 << 63),
            id="largest revision of 64 bits",
        ),
        pytest.param({"value": 1}, written(value=True), id="another type"),
        pytest.param({"value": 1}, written(value=1, authorSessionId="session-2"), id="another author"),
        pytest.param({"value": 1}, written(value=1, revision=3), id="revision leaps"),
        pytest.param({"value": 1, "stateStamp": "a"}, written(value=1), id="stamp lost"),
        pytest.param({"value": 1}, written(value=1, deleted=True), id="deleted instead"),
        pytest.param({"value": 1}, {"key": "gates.union"}, id="fields missing"),
    ],
)
def test_a_receipt_of_something_else_leaves_the_outcome_unknown(
    api: ScriptedApi, arguments: dict[str, Any], receipt: dict[str, Any]
) -> None:
    api.on(SET, Reply(200, receipt))
    text = with_bridge(api, lambda bridge: bridge.failed("termal_board_set", **{**WRITE, **arguments}))
    assert "Whether the write happened is unknown" in text
    assert "same idempotencyKey" in text


@pytest.mark.case("B49")
def test_a_stamp_goes_on_with_its_blanks(api: ScriptedApi) -> None:
    api.on(SET, Reply(200, written(value=1, stateStamp="  a  ")))
    with_bridge(api, lambda bridge: bridge.done("termal_board_set", **WRITE, value=1, stateStamp="  a  "))
    assert api.of(SET)[0].json["stateStamp"] == "  a  "


@pytest.mark.case("B49")
@pytest.mark.parametrize("stamp", [42, None, "   "])
def test_a_stamp_that_is_none_is_refused_here(api: ScriptedApi, stamp: Any) -> None:
    text = with_bridge(api, lambda bridge: bridge.failed("termal_board_set", **WRITE, value=1, stateStamp=stamp))
    assert "stateStamp" in text
    assert api.count(SET) == 0


@pytest.mark.case("B50")
@pytest.mark.parametrize("key", ["Upper", "a/b", "..", ".", "", "a" * 129, "a b", "ä"])
def test_a_key_that_would_bend_the_address_is_refused_here(api: ScriptedApi, key: str) -> None:
    async def story(bridge: Kit) -> None:
        await bridge.tools()
        before = len(api.asked)
        assert "key" in await bridge.failed("termal_board_get", key=key)
        assert "key" in await bridge.failed("termal_board_set", **{**WRITE, "key": key}, value=1)
        assert "afterKey" in await bridge.failed("termal_board_list", afterKey=key)
        assert len(api.asked) == before

    with_bridge(api, story)


def test_a_page_is_asked_for_with_what_was_given_in_order(api: ScriptedApi) -> None:
    page = {"generation": 3, "entries": [], "unchanged": False}
    api.on(f"GET {OWN}/board", page)
    given = {"knownGeneration": 0, "limit": 2, "afterKey": "a.b", "snapshotGeneration": 3}
    assert with_bridge(api, lambda bridge: bridge.done("termal_board_list", **given)) == page
    query = "afterKey=a.b&limit=2&snapshotGeneration=3&knownGeneration=0"
    assert api.of(f"GET {OWN}/board")[0].path == f"{OWN}/board?{query}"


def test_a_conflict_keeps_the_boards_own_detail(api: ScriptedApi) -> None:
    words = 'the key moved; detail: {"current":{"revision":2},"currentGeneration":4}'
    api.on(SET, failure(409, "conflict", words))
    assert (
        with_bridge(api, lambda bridge: bridge.failed("termal_board_set", **WRITE, value=1)) == f"409 Conflict: {words}"
    )
