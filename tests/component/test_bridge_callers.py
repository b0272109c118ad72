"""Which tools a caller sees and may call: by one look at the state, kept once known, closed while it is not."""

from typing import Any

import pytest

from tests.support.bridge_kit import CALLER, OWN, Kit, receipt, session, state, with_bridge
from tests.support.scripted_api import Reply, ScriptedApi, failure

STATE = "GET /api/state"
SEND = f"POST {OWN}/mailboxes/send"
FOR_ALL = [
    "termal_spawn_session",
    "termal_list_delegations",
    "termal_get_session_status",
    "termal_get_session_result",
    "termal_cancel_session",
    "termal_wait_delegations",
    "termal_resume_after_delegations",
    "termal_followup_session",
]
SUBMIT = "termal_submit_review_result"
PEER = [
    "termal_send_to_session",
    "termal_list_sessions",
    "termal_list_mailboxes",
    "termal_read_mailbox",
    "termal_read_mailbox_message",
    "termal_acknowledge_mailbox",
    "termal_board_list",
    "termal_board_get",
    "termal_board_set",
]
AWAY = failure(503, "no_mutation_attempted")
CHILD = session(parentDelegationId="delegation-9")
REVIEW = {"id": "delegation-9", "childSessionId": CALLER, "mode": "reviewer", "reviewResultRequired": True}
MAIL = {"sessionId": "session-2", "message": "hi", "idempotencyKey": "k"}


@pytest.fixture
def api() -> Any:
    with ScriptedApi() as api:
        yield api


@pytest.mark.case("B07")
def test_a_root_session_sees_every_tool_but_the_submission(api: ScriptedApi) -> None:
    api.on(STATE, state())
    names = with_bridge(api, Kit.names)
    assert names == [*FOR_ALL, *PEER]
    assert len(names) == 17


@pytest.mark.case("B08")
def test_a_required_reviewer_sees_the_delegation_tools_and_the_submission(api: ScriptedApi) -> None:
    api.on(STATE, state(CHILD, delegations=(REVIEW,)))
    assert with_bridge(api, Kit.names) == [*FOR_ALL, SUBMIT]


@pytest.mark.case("B09")
def test_an_explorer_child_sees_the_delegation_tools_and_cannot_submit(api: ScriptedApi) -> None:
    api.on(STATE, state(CHILD, delegations=({**REVIEW, "mode": "explorer", "reviewResultRequired": False},)))

    async def story(bridge: Kit) -> None:
        assert await bridge.names() == FOR_ALL
        assert "reviewer children" in await bridge.failed(SUBMIT, schemaVersion=1)

    with_bridge(api, story)
    assert all(asked.method == "GET" for asked in api.asked)


@pytest.mark.case("B10")
def test_a_delegation_that_names_the_caller_makes_it_a_child_without_any_marker(api: ScriptedApi) -> None:
    api.on(STATE, state(session(parentDelegationId=None), delegations=({**REVIEW, "mode": "explorer"},)))

    async def story(bridge: Kit) -> None:
        assert await bridge.names() == FOR_ALL
        assert "termal_send_to_session is for root sessions" in await bridge.failed("termal_send_to_session", **MAIL)

    with_bridge(api, story)
    assert api.count(SEND) == 0


@pytest.mark.case("B11")
def test_a_daemon_that_cannot_say_shows_less_and_is_asked_again(api: ScriptedApi) -> None:
    api.on(STATE, AWAY, Reply(200, state()))

    async def story(bridge: Kit) -> None:
        assert not set(await bridge.names()) & set(PEER)
        assert set(PEER) <= set(await bridge.names())
        assert api.count(STATE) == 2
        assert set(PEER) <= set(await bridge.names())
        assert bridge.list_changes == 1

    with_bridge(api, story)
    assert api.count(STATE) == 2


@pytest.mark.case("B12")
def test_a_caller_that_is_not_in_the_state_yet_is_denied_until_it_is(api: ScriptedApi) -> None:
    api.on(STATE, state(session("session-5")), state())
    api.on(f"GET {OWN}/mailboxes", Reply(200, []))

    async def story(bridge: Kit) -> None:
        assert "root sessions" in await bridge.failed("termal_list_mailboxes")
        assert await bridge.done("termal_list_mailboxes") == {"mailboxes": []}
        assert await bridge.done("termal_list_mailboxes") == {"mailboxes": []}

    with_bridge(api, story)
    assert api.count(STATE) == 2


@pytest.mark.case("B13")
def test_a_caller_is_looked_up_once_for_any_number_of_sends(api: ScriptedApi) -> None:
    api.on(STATE, state())
    api.on(SEND, Reply(202, receipt()))

    async def story(bridge: Kit) -> None:
        for _ in range(32):
            await bridge.done("termal_send_to_session", **MAIL)

    with_bridge(api, story)
    assert (api.count(STATE), api.count(SEND), len(api.asked)) == (1, 32, 33)


@pytest.mark.case("B14")
@pytest.mark.parametrize("tool", PEER)
def test_a_child_is_refused_every_peer_tool_before_anything_is_sent(api: ScriptedApi, tool: str) -> None:
    api.on(STATE, state(CHILD))
    arguments = {"key": "a", "expectedRevision": 0, "idempotencyKey": "k", "value": 1}
    text = with_bridge(api, lambda bridge: bridge.failed(tool, **arguments))
    assert tool in text
    assert "root sessions" in text
    assert [str(asked) for asked in api.asked] == ["GET /api/state"]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(Reply(200, b"{"), id="no JSON"),
        pytest.param(Reply(200, {"revision": 1}), id="no sessions"),
        pytest.param(Reply(drop=True), id="no answer"),
        pytest.param(Reply(200, state(), cut=True), id="cut off"),
    ],
)
def test_a_state_that_cannot_be_used_denies_and_is_not_kept(api: ScriptedApi, answer: Reply) -> None:
    api.on(STATE, answer, Reply(200, state()))
    api.on(f"GET {OWN}/mailboxes", Reply(200, []))

    async def story(bridge: Kit) -> None:
        assert "root sessions" in await bridge.failed("termal_list_mailboxes")
        assert await bridge.done("termal_list_mailboxes") == {"mailboxes": []}

    with_bridge(api, story)


def test_delegation_tools_need_no_look_at_the_state(api: ScriptedApi) -> None:
    api.on(f"GET {OWN}/delegations", {"revision": 1, "delegations": [], "serverInstanceId": "life-1"})
    with_bridge(api, lambda bridge: bridge.done("termal_list_delegations"))
    assert api.count(STATE) == 0


def test_a_blank_child_id_in_the_state_makes_nobody_a_child(api: ScriptedApi) -> None:
    api.on(STATE, state(delegations=({**REVIEW, "childSessionId": ""},)))
    assert len(with_bridge(api, Kit.names)) == 17


@pytest.mark.case("B06")
def test_a_failing_tool_is_a_result_and_no_error_of_the_protocol(api: ScriptedApi) -> None:
    result = with_bridge(api, lambda bridge: bridge.call("termal_no_such_tool"))
    assert result == {"content": [{"type": "text", "text": "there is no tool termal_no_such_tool"}], "isError": True}


@pytest.mark.case("B59")
def test_no_tool_takes_another_parent(api: ScriptedApi) -> None:
    api.on(STATE, state())
    own = f"POST {OWN}/delegations"
    created = {"revision": 1, "delegation": {"id": "d", "childSessionId": "c"}, "childSession": {"id": "c"}}
    api.on(own, Reply(201, {**created, "serverInstanceId": "life-1"}))
    api.on(SEND, Reply(202, receipt()))
    api.on(f"POST {OWN}/delegation-waits", failure(404, "not_found"))
    api.on(f"GET {OWN}/mailboxes", Reply(200, []))
    foreign = {"parentSessionId": "session-666"}
    named = {
        "delegationId": "d-1",
        "delegationIds": ["d-1"],
        "message": "m",
        "mailboxId": "mailbox-1",
        "messageId": "m-1",
        "expectedProcessedThrough": 0,
        "processedThrough": 1,
        "key": "a",
        "expectedRevision": 0,
        "idempotencyKey": "k",
        "value": 1,
    }

    async def story(bridge: Kit) -> None:
        for tool in await bridge.tools():
            assert "parentSessionId" not in str(tool["inputSchema"])
        await bridge.done("termal_spawn_session", prompt="x", **foreign)
        await bridge.done("termal_send_to_session", **MAIL, **foreign)
        for name in [*FOR_ALL[1:], *PEER[1:]]:
            before = len(api.asked)
            await bridge.call(name, **named, **foreign)
            assert len(api.asked) > before, name

    with_bridge(api, story)
    assert not [asked for asked in api.asked if "session-666" in str(asked) or "session-666" in str(asked.json)]
    assert all(asked.path.startswith(f"{OWN}/") or asked.path == "/api/state" for asked in api.asked)
