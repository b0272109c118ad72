"""Repeating what is proven safe: the bytes, the waits between, and everything that is never repeated."""

from collections.abc import Iterator
from typing import Any

import pytest

from termal.bridge.replay import delay_ms
from tests.support.bridge_kit import CALLER, OWN, Kit, receipt, state, with_bridge
from tests.support.scripted_api import Reply, ScriptedApi, failure

SEND = f"POST {OWN}/mailboxes/send"
MAIL = {"sessionId": "session-2", "message": "hi", "idempotencyKey": "k"}
BUSY = failure(503, "no_write_committed", "the writer is busy")
PAYLOAD = {"schemaVersion": 1, "status": "completed", "findings": [], "summary": "fine"}


@pytest.fixture
def api() -> Iterator[ScriptedApi]:
    with ScriptedApi() as api:
        api.on("GET /api/state", state())
        yield api


@pytest.mark.case("B37")
def test_a_busy_daemon_gets_the_identical_request_again_after_growing_waits(api: ScriptedApi) -> None:
    api.on(SEND, BUSY, BUSY, Reply(202, receipt()))

    async def story(bridge: Kit) -> None:
        assert (await bridge.done("termal_send_to_session", **MAIL))["duplicate"] is False
        assert bridge.slept == [delay_ms(CALLER, 1) / 1e3, delay_ms(CALLER, 2) / 1e3]

    with_bridge(api, story)
    assert len({asked.body for asked in api.of(SEND)}) == 1
    assert api.count(SEND) == 3


@pytest.mark.case("B38")
def test_five_attempts_are_all_and_the_last_answer_is_told(api: ScriptedApi) -> None:
    last = failure(503, "no_write_committed", "the fifth time")
    api.on(SEND, BUSY, BUSY, BUSY, BUSY, last)

    async def story(bridge: Kit) -> None:
        assert await bridge.failed("termal_send_to_session", **MAIL) == "503 Service Unavailable: the fifth time"
        assert len(bridge.slept) == 4

    with_bridge(api, story)
    assert api.count(SEND) == 5


@pytest.mark.case("B38", "B39")
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(failure(503, "internal"), id="another code"),
        pytest.param(Reply(503, {"error": "no_write_committed: nothing was committed, repeat it"}), id="words alone"),
        pytest.param(Reply(503, b"no_write_committed"), id="no JSON"),
        pytest.param(failure(409, "no_write_committed"), id="another status"),
        pytest.param(failure(504, "outcome_unknown"), id="outcome unknown"),
    ],
)
def test_nothing_but_the_status_with_its_code_is_a_reason_to_repeat(api: ScriptedApi, answer: Reply) -> None:
    api.on(SEND, answer)

    async def story(bridge: Kit) -> None:
        await bridge.failed("termal_send_to_session", **MAIL)
        assert bridge.slept == []

    with_bridge(api, story)
    assert api.count(SEND) == 1


@pytest.mark.case("B40")
def test_without_time_for_another_attempt_the_answer_is_told_at_once(api: ScriptedApi) -> None:
    api.on(SEND, BUSY)

    async def story(bridge: Kit) -> None:
        text = await bridge.failed("termal_send_to_session", **MAIL)
        assert text == "503 Service Unavailable: the writer is busy"
        assert bridge.slept == []

    with_bridge(api, story, limit_s=1.0)
    assert api.count(SEND) == 1


@pytest.mark.case("B41")
@pytest.mark.parametrize(
    ("tool", "route", "arguments"),
    [
        ("termal_spawn_session", f"POST {OWN}/delegations", {"prompt": "x"}),
        ("termal_resume_after_delegations", f"POST {OWN}/delegation-waits", {"delegationIds": ["d-1"]}),
        ("termal_followup_session", f"POST {OWN}/delegations/d-1/followup", {"delegationId": "d-1", "message": "m"}),
        ("termal_cancel_session", f"POST {OWN}/delegations/d-1/cancel", {"delegationId": "d-1"}),
        ("termal_get_session_status", f"GET {OWN}/delegations/d-1", {"delegationId": "d-1"}),
        ("termal_list_delegations", f"GET {OWN}/delegations", {}),
    ],
)
def test_what_did_not_opt_in_is_sent_once_whatever_is_answered(
    api: ScriptedApi, tool: str, route: str, arguments: dict[str, Any]
) -> None:
    api.on(route, BUSY)

    async def story(bridge: Kit) -> None:
        assert "503" in await bridge.failed(tool, **arguments)
        assert bridge.slept == []

    with_bridge(api, story)
    assert api.count(route) == 1


@pytest.mark.case("B42")
def test_an_append_that_is_being_finalized_is_asked_for_again_until_its_receipt_comes(api: ScriptedApi) -> None:
    api.on(SEND, failure(503, "original_append_durable"), Reply(202, receipt(duplicate=True)))

    async def story(bridge: Kit) -> None:
        assert (await bridge.done("termal_send_to_session", **MAIL))["duplicate"] is True

    with_bridge(api, story)
    assert api.count(SEND) == 2


@pytest.mark.parametrize(
    ("tool", "route", "arguments", "answer"),
    [
        ("termal_list_mailboxes", f"GET {OWN}/mailboxes", {}, []),
        ("termal_read_mailbox", f"POST {OWN}/mailboxes/m-1/read", {"mailboxId": "m-1"}, []),
        ("termal_board_list", f"GET {OWN}/board", {}, {"generation": 0, "entries": [], "unchanged": False}),
    ],
)
def test_reads_of_mail_and_board_are_repeated_when_nothing_was_attempted(
    api: ScriptedApi, tool: str, route: str, arguments: dict[str, Any], answer: Any
) -> None:
    api.on(route, failure(503, "no_mutation_attempted"), Reply(200, answer))

    async def story(bridge: Kit) -> None:
        await bridge.done(tool, **arguments)
        assert len(bridge.slept) == 1

    with_bridge(api, story)
    assert api.count(route) == 2


@pytest.mark.case("B51")
def test_a_review_goes_to_its_own_route_as_it_was_given(api: ScriptedApi) -> None:
    row = {"id": "d", "childSessionId": CALLER, "mode": "reviewer", "reviewResultRequired": True}
    api.on("GET /api/state", state(delegations=(row,)))
    route = f"POST {OWN}/delegation-review-result"
    api.on(route, Reply(202, receipt()))
    value = with_bridge(api, lambda bridge: bridge.done("termal_submit_review_result", **PAYLOAD))
    assert value == receipt()
    assert [asked.json for asked in api.of(route)] == [PAYLOAD]


def test_a_review_whose_answer_was_lost_is_told_to_be_repeated(api: ScriptedApi) -> None:
    row = {"id": "d", "childSessionId": CALLER, "mode": "reviewer", "reviewResultRequired": True}
    api.on("GET /api/state", state(delegations=(row,)))
    api.on(f"POST {OWN}/delegation-review-result", Reply(drop=True))
    text = with_bridge(api, lambda bridge: bridge.failed("termal_submit_review_result", **PAYLOAD))
    assert "Repeat the identical payload" in text
