"""Sending to a peer by id or name, reading, acknowledging; what is said when an answer was lost."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.bridge_kit import CALLER, OWN, Kit, receipt, session, state, with_bridge
from tests.support.scripted_api import Reply, ScriptedApi, failure

STATE = "GET /api/state"
SEND = f"POST {OWN}/mailboxes/send"
ACKNOWLEDGE = f"POST {OWN}/mailboxes/mailbox-1/acknowledge"
MAIL = {"message": "hi", "idempotencyKey": "k-1"}
MOVE = {"mailboxId": "mailbox-1", "expectedProcessedThrough": 1, "processedThrough": 2}
SUMMARY = {
    "id": "mailbox-1",
    "participants": [{"sessionId": CALLER, "displayName": "Lead", "processedThrough": 2}],
    "latestSequence": 2,
    "unreadCount": 0,
}


@pytest.fixture
def api() -> Iterator[ScriptedApi]:
    with ScriptedApi() as api:
        api.on(STATE, state(session(), session("session-2", "DocsBot", projectId="project-b")))
        api.on(SEND, Reply(202, receipt()))
        yield api


def sent(api: ScriptedApi, reference: str) -> Any:
    return with_bridge(api, lambda bridge: bridge.done("termal_send_to_session", sessionId=reference, **MAIL))


def refused(api: ScriptedApi, reference: str, **more: Any) -> str:
    return with_bridge(
        api, lambda bridge: bridge.failed("termal_send_to_session", **{"sessionId": reference, **MAIL, **more})
    )


@pytest.mark.case("B15")
def test_a_name_in_another_case_and_project_is_resolved_to_its_id(api: ScriptedApi) -> None:
    value = sent(api, "docsbot")
    assert value == {"sessionId": "session-2", "resolvedFrom": "docsbot", **receipt()}
    assert api.of(SEND)[0].json == {"targetSessionId": "session-2", "message": "hi", "idempotencyKey": "k-1"}


@pytest.mark.case("B56")
def test_names_match_by_unicode_case_folding(api: ScriptedApi) -> None:
    api.on(STATE, state(session(), session("session-2", "Ärger")))
    assert sent(api, "ÄRGER")["sessionId"] == "session-2"


@pytest.mark.case("B16")
def test_an_ambiguous_name_lists_every_id_with_its_project(api: ScriptedApi) -> None:
    twins = (session("session-2", "Twin", projectId="project-a"), session("session-3", "Twin", projectId="project-b"))
    api.on(STATE, state(session(), *twins))
    text = refused(api, "twin")
    assert all(part in text for part in ("session-2", "project-a", "session-3", "project-b"))
    assert api.count(SEND) == 0


@pytest.mark.case("B17")
def test_a_session_cannot_send_to_itself_by_id_or_name(api: ScriptedApi) -> None:
    async def story(bridge: Kit) -> None:
        await bridge.tools()
        before = len(api.asked)
        assert "this session itself" in await bridge.failed("termal_send_to_session", sessionId=CALLER, **MAIL)
        assert len(api.asked) == before
        assert "this session itself" in await bridge.failed("termal_send_to_session", sessionId="lead", **MAIL)
        assert [str(asked) for asked in api.asked[before:]] == ["GET /api/state"]

    with_bridge(api, story)


@pytest.mark.case("B18")
@pytest.mark.parametrize("reference", ["session-x/../y/stop", "session-a%2fb", "session-x\\..\\y", "..", "a?b", "a#b"])
def test_a_reference_that_would_bend_a_path_is_refused_before_any_request(api: ScriptedApi, reference: str) -> None:
    async def story(bridge: Kit) -> str:
        await bridge.tools()
        before = len(api.asked)
        text = await bridge.failed("termal_send_to_session", sessionId=reference, **MAIL)
        assert len(api.asked) == before
        return text

    assert "must not contain" in with_bridge(api, story)


@pytest.mark.case("B19")
def test_the_daemon_decides_on_exact_ids_and_its_words_pass(api: ScriptedApi) -> None:
    words = "target session is not a local root session"
    api.on(SEND, failure(400, "invalid_request", words))
    text = refused(api, "session-77")
    assert text == f"400 Bad Request: {words}"


def test_an_unknown_name_points_to_the_list(api: ScriptedApi) -> None:
    assert "termal_list_sessions" in refused(api, "nobody")


@pytest.mark.parametrize(
    ("field", "value"),
    [("message", " "), ("message", 5), ("idempotencyKey", "ä" * 129), ("idempotencyKey", None), ("sessionId", "")],
)
def test_what_is_missing_or_too_long_is_named_and_nothing_is_sent(api: ScriptedApi, field: str, value: Any) -> None:
    assert field in refused(api, "session-2", **{field: value})
    assert api.count(SEND) == 0


def test_optional_parts_of_a_message_are_trimmed_and_blank_ones_left_out(api: ScriptedApi) -> None:
    more = {"topic": " plan ", "stateStamp": " ", "class": "routine"}
    with_bridge(api, lambda bridge: bridge.done("termal_send_to_session", sessionId="session-2", **MAIL, **more))
    body = api.of(SEND)[0].json
    assert (body["topic"], body["class"], "stateStamp" in body) == ("plan", "routine", False)


@pytest.mark.case("B20")
def test_the_list_of_sessions_has_roots_alone_and_the_caller_among_them(api: ScriptedApi) -> None:
    by_marker, by_row = session("session-8", parentDelegationId="delegation-1"), session("session-9")
    link = {"id": "delegation-2", "childSessionId": "session-9"}
    api.on(STATE, state(session(), by_marker, by_row, {"id": "session-2"}, delegations=(link,)))
    value = with_bridge(api, lambda bridge: bridge.done("termal_list_sessions"))
    assert [row["sessionId"] for row in value["sessions"]] == [CALLER, "session-2"]
    assert value["sessions"][0] == {
        "sessionId": CALLER,
        "name": "Lead",
        "agent": "Claude",
        "status": "idle",
        "workdir": "/work",
        "preview": "",
    }
    assert value["sessions"][1]["name"] is None


def test_reading_has_its_defaults_and_passes_messages_on(api: ScriptedApi) -> None:
    message = {
        "id": "mailbox-message-1",
        "mailboxId": "mailbox-1",
        "sequence": 1,
        "senderSessionId": "session-2",
        "senderName": "DocsBot",
        "targetSessionId": CALLER,
        "targetName": "Lead",
        "createdAt": "2026-01-01T00:00:00Z",
        "class": "routine",
        "body": "hi",
        "notificationState": "recoveredWake",
    }
    api.on(f"POST {OWN}/mailboxes/mailbox-1/read", Reply(200, [message]))
    api.on(f"GET {OWN}/mailbox-messages/mailbox-message-1", message)

    async def story(bridge: Kit) -> None:
        found = await bridge.done("termal_read_mailbox", mailboxId="mailbox-1")
        assert found == {"mailboxId": "mailbox-1", "messages": [message]}
        assert await bridge.done("termal_read_mailbox_message", messageId="mailbox-message-1") == message
        assert "limit" in await bridge.failed("termal_read_mailbox", mailboxId="mailbox-1", limit=201)
        assert "limit" in await bridge.failed("termal_read_mailbox", mailboxId="mailbox-1", limit=0)
        assert "afterSequence" in await bridge.failed("termal_read_mailbox", mailboxId="mailbox-1", afterSequence=-1)

    with_bridge(api, story)
    assert api.of(f"POST {OWN}/mailboxes/mailbox-1/read")[0].json == {"afterSequence": 0, "limit": 50}


def test_an_acknowledgement_answers_with_the_summary(api: ScriptedApi) -> None:
    api.on(ACKNOWLEDGE, SUMMARY)
    assert with_bridge(api, lambda bridge: bridge.done("termal_acknowledge_mailbox", **MOVE)) == SUMMARY
    assert api.of(ACKNOWLEDGE)[0].json == {"expectedProcessedThrough": 1, "processedThrough": 2}


@pytest.mark.case("B45")
def test_a_conflict_passes_with_its_words_and_nothing_is_called_unknown(api: ScriptedApi) -> None:
    words = 'the expected cursor 1 is stale; detail: {"current":2}'
    api.on(ACKNOWLEDGE, failure(409, "conflict", words))
    text = with_bridge(api, lambda bridge: bridge.failed("termal_acknowledge_mailbox", **MOVE))
    assert text == f"409 Conflict: {words}"
    assert "unknown" not in text


@pytest.mark.case("B44")
@pytest.mark.parametrize(
    "answer",
    [pytest.param(Reply(202, b"{"), id="no JSON"), pytest.param(Reply(202, {"mailboxId": "m"}), id="fields missing")],
)
def test_a_receipt_that_cannot_be_used_leaves_the_outcome_unknown(api: ScriptedApi, answer: Reply) -> None:
    api.on(SEND, answer)
    text = refused(api, "session-2")
    assert all(part in text for part in ("POST", f"{OWN}/mailboxes/send", "successful answer could not be used"))
    assert "whether the message was stored is unknown" in text.lower()
    assert "duplicate: true" in text
    assert api.count(SEND) == 1


@pytest.mark.case("B44")
def test_a_summary_that_cannot_be_used_leaves_the_cursor_unknown(api: ScriptedApi) -> None:
    api.on(ACKNOWLEDGE, {"id": "mailbox-1"})
    text = with_bridge(api, lambda bridge: bridge.failed("termal_acknowledge_mailbox", **MOVE))
    assert "cursor position is unknown" in text
    assert "termal_list_mailboxes" in text


@pytest.mark.case("B43")
def test_a_send_that_times_out_says_what_is_not_known_and_what_to_repeat(api: ScriptedApi) -> None:
    release = threading.Event()
    api.on(SEND, Reply(202, receipt(), hold=release))

    async def story(bridge: Kit) -> str:
        await bridge.tools()
        text = await bridge.failed("termal_send_to_session", sessionId="session-2", **MAIL)
        release.set()
        return text

    try:
        text = with_bridge(api, story, limit_s=0.3, real_time=True)
    finally:
        release.set()
    assert all(part in text for part in ("POST", f"{OWN}/mailboxes/send", "timed out after", "sending"))
    assert "stored is unknown" in text
    assert "same idempotencyKey" in text
    assert api.count(SEND) == 1


@pytest.mark.case("B43")
def test_a_send_of_which_the_daemon_lost_sight_is_sent_once_and_told_the_same_way(api: ScriptedApi) -> None:
    api.on(SEND, failure(504, "outcome_unknown", "the worker died"))
    text = refused(api, "session-2")
    assert text.startswith("504 ")
    assert "the worker died" in text
    assert "stored is unknown" in text
    assert "same idempotencyKey" in text
    assert api.count(SEND) == 1


@pytest.mark.parametrize(
    ("answer", "phase"),
    [
        pytest.param(Reply(drop=True), "while sending", id="dropped"),
        pytest.param(Reply(202, receipt(), cut=True), "while reading body", id="cut"),
    ],
)
def test_a_lost_connection_names_how_far_the_request_came(api: ScriptedApi, answer: Reply, phase: str) -> None:
    api.on(SEND, answer)
    text = refused(api, "session-2")
    assert f"transport failed {phase}" in text
    assert "stored is unknown" in text
    assert api.count(SEND) == 1


def test_a_daemon_that_is_away_ends_a_call_and_not_the_bridge() -> None:
    async def story(bridge: Kit) -> None:
        text = await bridge.failed("termal_cancel_session", delegationId="d-1")
        assert "could not connect" in text
        assert "unknown" not in text
        await bridge.failed("termal_list_delegations")

    with ScriptedApi() as api:
        url = api.url
    api_gone = type("Gone", (), {"url": url})
    with_bridge(api_gone, story)  # type: ignore[arg-type]


def test_every_request_says_that_the_bridge_sent_it(api: ScriptedApi) -> None:
    sent(api, "session-2")
    assert {asked.headers["x-termal-client"] for asked in api.asked} == {"mcp-bridge"}
    assert {asked.headers["content-type"] for asked in api.asked if asked.method == "POST"} == {"application/json"}
