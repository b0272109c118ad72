"""Spawning: the body with its defaults, slash commands expanded first, refusals and failures as packets."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.bridge_kit import CALLER, OWN, Kit, record, with_bridge
from tests.support.scripted_api import Reply, ScriptedApi, failure

SPAWN = f"POST {OWN}/delegations"
CHILD = {
    "id": "child-1",
    "name": "Look",
    "emoji": "DM",
    "agent": "Claude",
    "model": "m",
    "status": "active",
    "parentDelegationId": "delegation-1",
    "messages": [{"text": "private"}],
}
CREATED = {
    "revision": 4,
    "delegation": record(childSessionId="child-1"),
    "childSession": CHILD,
    "serverInstanceId": "life-1",
}


def resolve(name: str) -> str:
    return f"POST {OWN}/agent-commands/{name}/resolve"


@pytest.fixture
def api() -> Iterator[ScriptedApi]:
    with ScriptedApi() as api:
        api.on(SPAWN, Reply(201, CREATED))
        yield api


def spawned(api: ScriptedApi, **arguments: Any) -> Any:
    return with_bridge(api, lambda bridge: bridge.done("termal_spawn_session", **arguments))


def packet(api: ScriptedApi, **arguments: Any) -> dict[str, Any]:
    """The error packet of a spawn that must fail; its text is the same as JSON."""
    result = with_bridge(api, lambda bridge: bridge.call("termal_spawn_session", **arguments))
    assert result["isError"] is True
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    found: dict[str, Any] = result["structuredContent"]
    assert (found["outcome"], found["revision"], found["serverInstanceId"]) == ("error", None, None)
    error: dict[str, Any] = found["error"]
    return error


@pytest.mark.case("B21")
def test_a_prompt_alone_spawns_a_read_only_reviewer(api: ScriptedApi) -> None:
    value = spawned(api, prompt="  look around  ")
    body = {"prompt": "look around", "mode": "reviewer", "writePolicy": {"kind": "readOnly"}}
    assert api.of(SPAWN)[0].json == body
    assert value["outcome"] == "completed"
    assert (value["delegationId"], value["childSessionId"]) == ("delegation-1", "child-1")
    assert not {"prompt", "cwd"} & value["delegation"].keys()
    assert value["childSession"] == {name: CHILD[name] for name in CHILD if name != "messages"}


@pytest.mark.case("B22")
def test_a_policy_given_as_a_word_becomes_an_object(api: ScriptedApi) -> None:
    spawned(api, prompt="x", writePolicy="isolatedWorktree")
    assert api.of(SPAWN)[0].json["writePolicy"] == {"kind": "isolatedWorktree"}


def test_a_policy_given_as_an_object_goes_on_as_it_is(api: ScriptedApi) -> None:
    policy = {"kind": "isolatedWorktree", "ownedPaths": ["docs"]}
    spawned(api, prompt="x", writePolicy=policy, mode="explorer", agent="my-own-agent", model=" m ", title=" t ")
    body = api.of(SPAWN)[0].json
    assert (body["writePolicy"], body["mode"]) == (policy, "explorer")
    assert (body["agent"], body["model"], body["title"]) == ("my-own-agent", "m", "t")


def command(**more: Any) -> dict[str, Any]:
    return {
        "name": "review-code",
        "source": "s",
        "kind": "promptTemplate",
        "visiblePrompt": "/review-code",
        "expandedPrompt": " Review it. ",
        "title": "from the command",
        "delegation": {"mode": "explorer", "writePolicy": {"kind": "isolatedWorktree"}, "title": "as delegated"},
        **more,
    }


@pytest.mark.case("B23")
def test_a_known_command_is_expanded_with_its_defaults(api: ScriptedApi) -> None:
    api.on(resolve("review-code"), command())
    spawned(api, prompt="/review-code staged -- include tests", cwd="/work/sub")
    asked = api.of(resolve("review-code"))[0].json
    assert asked == {"arguments": "staged", "note": "include tests", "cwd": "/work/sub", "intent": "delegate"}
    assert api.of(SPAWN)[0].json == {
        "prompt": "Review it.",
        "title": "as delegated",
        "cwd": "/work/sub",
        "mode": "explorer",
        "writePolicy": {"kind": "isolatedWorktree"},
    }


@pytest.mark.case("B24")
def test_what_is_given_beats_what_the_command_sets(api: ScriptedApi) -> None:
    api.on(resolve("review-code"), command())
    spawned(api, prompt="/review-code", title="mine", mode="reviewer", writePolicy="readOnly")
    body = api.of(SPAWN)[0].json
    assert (body["title"], body["mode"], body["writePolicy"]) == ("mine", "reviewer", {"kind": "readOnly"})


@pytest.mark.case("B25")
def test_an_unknown_command_is_an_ordinary_prompt(api: ScriptedApi) -> None:
    api.on(resolve("nope"), failure(404, "not_found", reason="agentCommandNotFound"))
    spawned(api, prompt="/nope is this ")
    assert api.of(SPAWN)[0].json["prompt"] == "/nope is this"


@pytest.mark.case("B25")
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(failure(404, "not_found", "no session", reason="sessionNotFound"), id="another 404"),
        pytest.param(failure(400, "invalid_request", "bad metadata"), id="400"),
        pytest.param(failure(503, "no_mutation_attempted", "busy"), id="busy"),
    ],
)
def test_any_other_failure_to_resolve_spawns_nothing(api: ScriptedApi, answer: Reply) -> None:
    api.on(resolve("nope"), answer)
    error = packet(api, prompt="/nope")
    assert (error["kind"], error["status"]) == ("spawn-failed", answer.status)
    assert answer.body["error"] in error["message"]
    assert api.count(SPAWN) == 0


@pytest.mark.case("B26")
def test_a_command_of_the_callers_own_directory_alone_spawns_nothing(api: ScriptedApi) -> None:
    api.on(resolve("mine"), failure(404, "not_found", reason="agentCommandNotFound"), Reply(200, command()))
    error = packet(api, prompt="/mine", cwd="/elsewhere")
    assert error["kind"] == "validation-failed"
    assert "/elsewhere" in error["message"]
    assert [asked.json.get("cwd") for asked in api.of(resolve("mine"))] == ["/elsewhere", None]
    assert api.count(SPAWN) == 0


def test_a_command_that_nobody_knows_is_a_prompt_in_any_directory(api: ScriptedApi) -> None:
    api.on(resolve("nope"), failure(404, "not_found", reason="agentCommandNotFound"))
    spawned(api, prompt="/nope", cwd="/elsewhere")
    assert (api.count(resolve("nope")), api.of(SPAWN)[0].json["prompt"]) == (2, "/nope")


@pytest.mark.case("B27")
@pytest.mark.parametrize(
    ("prompt", "segment"), [("/review:local", "review%3Alocal"), ("/review%local", "review%25local")]
)
def test_a_name_is_encoded_once_in_the_path(api: ScriptedApi, prompt: str, segment: str) -> None:
    api.on(resolve(segment), command())
    spawned(api, prompt=prompt)
    assert api.count(resolve(segment)) == 1


@pytest.mark.case("B27")
@pytest.mark.parametrize("prompt", ["/review\nmore", " /review", "/", "/a/b", "review"])
def test_text_that_is_no_command_asks_nobody(api: ScriptedApi, prompt: str) -> None:
    spawned(api, prompt=prompt)
    assert [str(asked) for asked in api.asked] == [SPAWN]
    assert api.of(SPAWN)[0].json["prompt"] == prompt.strip()


@pytest.mark.case("B28")
def test_a_command_without_any_text_spawns_nothing(api: ScriptedApi) -> None:
    api.on(resolve("empty"), command(expandedPrompt=" ", visiblePrompt=""))
    assert "/empty" in packet(api, prompt="/empty")["message"]
    assert api.count(SPAWN) == 0


@pytest.mark.case("B29", "B60")
def test_a_limit_comes_back_as_the_daemon_said_it(api: ScriptedApi) -> None:
    words = "4 delegations of this session are running"
    api.on(SPAWN, failure(409, "conflict", words, reason="activeLimit"))
    assert packet(api, prompt="x") == {
        "kind": "spawn-failed",
        "name": "ApiRequestError",
        "message": f"409 Conflict: {words}",
        "apiErrorKind": "request-failed",
        "status": 409,
        "restartRequired": False,
    }
    assert api.count(SPAWN) == 1


@pytest.mark.case("B60")
@pytest.mark.parametrize("arguments", [{"prompt": "  "}, {}, {"prompt": 5}, {"prompt": "x", "mode": "boss"}])
def test_what_cannot_be_spawned_is_refused_without_a_request(api: ScriptedApi, arguments: dict[str, Any]) -> None:
    assert packet(api, **arguments)["kind"] == "validation-failed"
    assert api.asked == []


def test_a_lost_answer_says_to_look_before_spawning_again(api: ScriptedApi) -> None:
    api.on(SPAWN, Reply(drop=True))
    error = packet(api, prompt="x")
    assert (error["apiErrorKind"], error["status"]) == ("backend-unavailable", None)
    assert "termal_list_delegations" in error["message"]


def test_an_answer_without_ids_leaves_the_outcome_unknown(api: ScriptedApi) -> None:
    api.on(SPAWN, Reply(201, {**CREATED, "delegation": {}}))
    text = with_bridge(api, lambda bridge: bridge.failed("termal_spawn_session", prompt="x"))
    assert "termal_list_delegations" in text


def test_a_child_that_did_not_start_is_still_a_spawn(api: ScriptedApi) -> None:
    api.on(SPAWN, Reply(201, {**CREATED, "delegation": record(childSessionId="child-1", status="failed")}))
    assert spawned(api, prompt="x")["delegation"]["status"] == "failed"


@pytest.mark.case("B36")
def test_listed_ids_go_straight_into_a_wait(api: ScriptedApi) -> None:
    rows = [record("delegation-1"), record("delegation-2")]
    api.on(f"GET {OWN}/delegations", {"revision": 3, "delegations": rows, "serverInstanceId": "life-1"})
    wait = {"id": "delegation-wait-1", "parentSessionId": CALLER, "delegationIds": ["delegation-1", "delegation-2"]}
    made = {"revision": 5, "wait": wait, "resumePromptQueued": False, "resumeDispatchRequested": False}
    route = f"POST {OWN}/delegation-waits"
    api.on(route, Reply(201, {**made, "serverInstanceId": "life-1"}))

    async def story(bridge: Kit) -> None:
        listed = await bridge.done("termal_list_delegations")
        ids = [row["id"] for row in listed["delegations"]]
        value = await bridge.done("termal_resume_after_delegations", delegationIds=[*ids, ids[0]], title=" Reviews ")
        assert value == {**made, "serverInstanceId": "life-1"}

    with_bridge(api, story)
    assert [asked.json for asked in api.of(route)] == [
        {"delegationIds": ["delegation-1", "delegation-2"], "title": "Reviews"}
    ]
    assert api.count(SPAWN) == 0


def test_a_wait_whose_answer_was_lost_may_be_there(api: ScriptedApi) -> None:
    api.on(f"POST {OWN}/delegation-waits", Reply(drop=True))
    text = with_bridge(api, lambda bridge: bridge.failed("termal_resume_after_delegations", delegationIds=["d-1"]))
    assert "Whether the wait was created is unknown" in text


@pytest.mark.parametrize(
    "arguments", [{"delegationIds": []}, {"delegationIds": "d-1"}, {"delegationIds": ["a/b"]}, {"delegationIds": [5]}]
)
def test_a_wait_needs_ids_that_can_be_some(api: ScriptedApi, arguments: dict[str, Any]) -> None:
    text = with_bridge(api, lambda bridge: bridge.failed("termal_resume_after_delegations", **arguments))
    assert "delegationIds" in text
    assert api.asked == []
