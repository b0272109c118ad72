"""Status, results, pages and the bounded wait."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.bridge_kit import OWN, Kit, about, record, result, with_bridge
from tests.support.scripted_api import Reply, ScriptedApi, failure
from tests.support.waiting import wait_until

AUDIT = f"POST {OWN}/delegation-audit-events"
ONE = ["delegation-1"]
LISTS = ("findings", "changedFiles", "commandsRun", "notes")


@pytest.fixture
def api() -> Iterator[ScriptedApi]:
    with ScriptedApi() as api:
        yield api


def look(number: int = 1) -> str:
    return f"GET {OWN}/delegations/delegation-{number}"


def waited(api: ScriptedApi, ids: list[str] | None = None, **options: Any) -> Any:
    return with_bridge(api, lambda bridge: bridge.done("termal_wait_delegations", delegationIds=ids or ONE, **options))


def failed_wait(api: ScriptedApi, ids: list[str] | None = None, **options: Any) -> dict[str, Any]:
    text = with_bridge(
        api, lambda bridge: bridge.failed("termal_wait_delegations", delegationIds=ids or ONE, **options)
    )
    found: dict[str, Any] = json.loads(text)
    assert found["outcome"] == "error"
    return found


@pytest.mark.case("B30")
def test_a_result_is_flat_and_always_has_its_four_lists(api: ScriptedApi) -> None:
    api.on(f"{look()}/result", result())
    value = with_bridge(api, lambda bridge: bridge.done("termal_get_session_result", delegationId="delegation-1"))
    assert value == {
        "delegationId": "delegation-1",
        "childSessionId": "child-of-delegation-1",
        "status": "completed",
        "summary": "fine",
        **{name: [] for name in LISTS},
        "revision": 9,
        "serverInstanceId": "life-1",
    }


@pytest.mark.case("B30")
def test_paging_asks_for_a_page_with_its_defaults(api: ScriptedApi) -> None:
    page = {
        "revision": 1,
        "delegationId": "delegation-1",
        "childSessionId": "c",
        "output": "text",
        "offsetBytes": 8192,
        "totalBytes": 8196,
        "complete": True,
        "summaryFallback": False,
        "serverInstanceId": "life-1",
    }
    api.on(f"{look()}/result/output", page)

    async def story(bridge: Kit) -> None:
        assert await bridge.done("termal_get_session_result", delegationId="delegation-1", outputOffset=8192) == page
        await bridge.done("termal_get_session_result", delegationId="delegation-1", outputLimit=256)

    with_bridge(api, story)
    first, second = (asked.path.partition("?")[2] for asked in api.of(f"{look()}/result/output"))
    assert (first, second) == ("offsetBytes=8192&limitBytes=4096", "offsetBytes=0&limitBytes=256")


@pytest.mark.case("B70")
def test_a_result_of_an_isolated_child_names_its_policy_and_worktree(api: ScriptedApi) -> None:
    found = {"policyEnforcement": "requested", "artifacts": [{"kind": "worktree", "id": "/termal/worktrees/d"}]}
    api.on(f"{look()}/result", {**result(), **found})
    value = with_bridge(api, lambda bridge: bridge.done("termal_get_session_result", delegationId="delegation-1"))
    assert {name: value[name] for name in found} == found


def test_status_and_cancel_answer_with_ids_and_a_summary(api: ScriptedApi) -> None:
    api.on(look(), about(record()))
    api.on(f"POST {OWN}/delegations/delegation-1/cancel", about(record(status="canceled")))

    async def story(bridge: Kit) -> None:
        value = await bridge.done("termal_get_session_status", delegationId=" delegation-1 ")
        assert (value["delegationId"], value["childSessionId"]) == ("delegation-1", "child-of-delegation-1")
        assert (value["status"], value["revision"], value["serverInstanceId"]) == ("running", 8, "life-1")
        assert not {"prompt", "cwd"} & value["delegation"].keys()
        assert (await bridge.done("termal_cancel_session", delegationId="delegation-1"))["status"] == "canceled"

    with_bridge(api, story)
    assert api.of(f"POST {OWN}/delegations/delegation-1/cancel")[0].json == {}


def test_a_follow_up_passes_its_answer_on(api: ScriptedApi) -> None:
    route = f"POST {OWN}/delegations/delegation-1/followup"
    api.on(route, about(record()))
    arguments = {"delegationId": "delegation-1", "message": " once more "}
    assert with_bridge(api, lambda bridge: bridge.done("termal_followup_session", **arguments)) == about(record())
    assert api.of(route)[0].json == {"message": "once more"}


@pytest.mark.case("B31")
def test_a_wait_looks_until_the_delegation_is_over_and_brings_the_result(api: ScriptedApi) -> None:
    api.on(look(), about(record()), about(record(status="completed"), revision=9))
    api.on(f"{look()}/result", result())
    value = waited(api)
    assert (value["outcome"], value["mode"], value["timedOut"]) == ("completed", "all", False)
    assert [each["id"] for each in value["completed"]] == ONE
    assert value["pending"] == []
    assert (value["revision"], value["serverInstanceId"]) == (9, "life-1")
    assert value["results"][0]["result"]["summary"] == "fine"
    assert (api.count(look()), api.count(f"{look()}/result")) == (2, 1)


@pytest.mark.case("B32")
def test_every_way_to_be_over_has_its_result(api: ScriptedApi) -> None:
    ids = []
    for number, status in enumerate(("completed", "failed", "canceled"), 1):
        name = f"delegation-{number}"
        api.on(look(number), about(record(name, status=status)))
        api.on(f"{look(number)}/result", result(name, status))
        ids.append(name)
    value = waited(api, ids)
    assert [each["result"]["status"] for each in value["results"]] == ["completed", "failed", "canceled"]
    assert not any("error" in each for each in value["results"])


def test_any_is_met_by_the_first_that_is_over(api: ScriptedApi) -> None:
    api.on(look(1), about(record("delegation-1")))
    api.on(look(2), about(record("delegation-2", status="failed")))
    api.on(f"{look(2)}/result", failure(500, "internal", "broken"))
    value = waited(api, ["delegation-1", "delegation-2"], mode="any")
    assert (value["outcome"], [each["id"] for each in value["pending"]]) == ("completed", ["delegation-1"])
    assert value["results"] == [{"delegationId": "delegation-2", "error": "500 Internal Server Error: broken"}]


@pytest.mark.case("B33")
def test_a_timeout_cancels_nothing_and_is_recorded(api: ScriptedApi) -> None:
    api.on(look(), about(record()))
    api.on(AUDIT, Reply(202, {}))
    value = waited(api, timeoutMs=1000)
    assert (value["outcome"], value["timedOut"], value["results"]) == ("timeout", True, [])
    assert api.of(AUDIT)[0].json == {"kind": "timeout", "delegationIds": ONE, "timeoutMs": 1000}
    assert {str(asked) for asked in api.asked} == {look(), AUDIT}


@pytest.mark.case("B34")
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"pollIntervalMs": 100}, "pollIntervalMs must be at least 500ms"),
        ({"timeoutMs": 1_800_001}, "timeoutMs must be no greater than 1800000ms"),
        ({"pollIntervalMs": 0}, "pollIntervalMs must be a finite positive duration"),
        ({"timeoutMs": "1000"}, "timeoutMs must be a finite positive duration"),
        ({"timeoutMs": True}, "timeoutMs must be a finite positive duration"),
        ({"mode": "some"}, "mode must be all or any"),
        ({"delegationIds": [f"d-{n}" for n in range(11)]}, "wait_delegations accepts at most 10 ids"),
        ({"delegationIds": []}, "wait_delegations requires at least one delegation id"),
        ({"delegationIds": "d-1"}, "delegation ids must be an array"),
        ({"delegationIds": [1]}, "delegation id must be a string"),
        ({"delegationIds": ["a\\b"]}, "delegation id must not contain"),
    ],
)
def test_a_wait_that_cannot_be_is_refused_before_it_looks(api: ScriptedApi, options: dict[str, Any], text: str) -> None:
    arguments = {"delegationIds": ONE, **options}
    assert with_bridge(api, lambda bridge: bridge.failed("termal_wait_delegations", **arguments)).startswith(text)
    assert api.asked == []


@pytest.mark.case("B34")
def test_looks_are_as_far_apart_as_was_asked(api: ScriptedApi) -> None:
    running = Reply(200, about(record(status="running")))
    api.on(look(), running, running, Reply(200, about(record(status="completed"))))
    api.on(f"{look()}/result", result())

    async def story(bridge: Kit) -> None:
        await bridge.done("termal_wait_delegations", delegationIds=ONE, pollIntervalMs=500)
        assert bridge.slept == [0.5, 0.5]

    with_bridge(api, story)
    assert api.count(look()) == 3


@pytest.mark.case("B35")
def test_a_daemon_that_restarts_during_a_wait_ends_it(api: ScriptedApi) -> None:
    api.on(look(), about(record()), about(record(), life="life-2", revision=3))
    found = failed_wait(api)
    error = found["error"]
    assert error["kind"] == "mixed-server-instance"
    assert error["serverInstanceIds"] == ["life-1", "life-2"]
    assert [(group["serverInstanceId"], group["revision"]) for group in error["recoveryGroups"]] == [
        ("life-1", 8),
        ("life-2", 3),
    ]
    assert all(group["delegationIds"] == ONE for group in error["recoveryGroups"])
    assert (found["serverInstanceId"], found["revision"]) == ("life-1", 8)


@pytest.mark.case("B61")
def test_a_look_that_fails_ends_the_wait_and_keeps_what_was_seen(api: ScriptedApi) -> None:
    api.on(look(1), about(record("delegation-1")))
    api.on(look(2), failure(500, "internal", "broken"))
    found = failed_wait(api, ["delegation-1", "delegation-2"])
    assert found["error"]["kind"] == "status-fetch-failed"
    assert (found["error"]["status"], found["error"]["message"]) == (500, "500 Internal Server Error: broken")
    assert [each["id"] for each in found["delegations"]] == ONE


def test_an_answer_about_another_delegation_ends_the_wait(api: ScriptedApi) -> None:
    api.on(look(), about(record("delegation-7")))
    error = failed_wait(api)["error"]
    assert (error["kind"], error["requestedId"], error["receivedId"]) == (
        "mismatched-delegation-id",
        "delegation-1",
        "delegation-7",
    )


def test_progress_is_told_at_every_look(api: ScriptedApi) -> None:
    api.on(look(1), about(record("delegation-1", status="completed")))
    api.on(look(2), about(record("delegation-2")), about(record("delegation-2", status="completed")))
    for number in (1, 2):
        api.on(f"{look(number)}/result", result(f"delegation-{number}"))

    async def story(bridge: Kit) -> None:
        await bridge.done("termal_wait_delegations", delegationIds=["delegation-1", "delegation-2"])
        assert [(done, total) for done, total, _ in bridge.progress] == [(1, 2), (2, 2)]

    with_bridge(api, story)


def test_a_wait_that_is_cancelled_stops_looking(api: ScriptedApi) -> None:
    api.on(look(), about(record()))

    async def story(bridge: Kit) -> None:
        task = asyncio.create_task(bridge.call("termal_wait_delegations", delegationIds=ONE, pollIntervalMs=500))
        await asyncio.to_thread(wait_until, lambda: api.count(look()) > 0, "the first look")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with_bridge(api, story, real_time=True)
    assert api.count(AUDIT) == 0
