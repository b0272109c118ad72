"""Calls of the bridge's own tools under Codex: what is proven runs by itself, what is not waits for a person."""

import json
from typing import Any

import pytest

from termal.bridge.descriptor import SERVER, SUBMIT_DESCRIPTION, SUBMIT_TOOL
from termal.wire.turns import AnyTurnEvent, ApprovalAsked, ElicitationAsked, McpServer, TextDone, ToolEnded, TurnEnded
from tests.agents.recorder import Recorder
from tests.support.codex_kit import CodexKit
from workers.runtime.adapter import AgentFailed
from workers.runtime.bridge import NO_BRIDGE
from workers.runtime.codex import CodexAdapter

Json = dict[str, Any]
OWN = McpServer(SERVER, "/bin/true", ["delegation-mcp"])
REVIEWER: Json = {"read_only": True, "delegated": True, "submits_review": True, "mcp_servers": [OWN]}
NEVER: Json = {"modes": {"approvalPolicy": "never", "sandboxMode": "workspace-write"}, "mcp_servers": [OWN]}
ASKS: Json = {"modes": {"approvalPolicy": "on-request", "sandboxMode": "workspace-write"}, "mcp_servers": [OWN]}
REVIEW: Json = {"schemaVersion": 1, "status": "completed"}
ACCEPTED = {"action": "accept", "content": {}}
META: Json = {
    "codex_approval_kind": "mcp_tool_call",
    "tool_description": SUBMIT_DESCRIPTION,
    "tool_params": REVIEW,
    "server": SERVER,
    "tool_name": SUBMIT_TOOL,
}


def claim(server: str = SERVER, **fields: Any) -> str:
    """A prompt in which ``server`` asks, by default while the submission of a review runs."""
    wanted = {"server": server, "item": [SERVER, SUBMIT_TOOL, REVIEW], "meta": META, **fields}
    return "claim " + json.dumps({key: value for key, value in wanted.items() if value is not ...})


def answers(turn: Recorder) -> list[Json]:
    found: list[Json] = json.loads(turn.of(TextDone)[-1].text)
    return found


async def declined(adapter: CodexAdapter, turn: Recorder) -> ElicitationAsked:
    """A person is asked, and says no."""
    await turn.until(lambda: turn.of(ElicitationAsked), "a question for a person")
    asked = turn.of(ElicitationAsked)[-1]
    await adapter.answer(asked.request, "decline")
    assert (await turn.end()).outcome == "completed"
    return asked


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, id="all-that-it-may-say"),
        pytest.param({"meta": ...}, id="nothing-said"),
        pytest.param({"meta": {"codex_approval_kind": "mcp_tool_call"}}, id="only-its-kind"),
    ],
)
@pytest.mark.case("B65")
def test_the_submission_of_a_running_review_is_accepted(codex: CodexKit, fields: Json) -> None:
    async def scenario() -> None:
        adapter = await codex.started(**REVIEWER)
        turn = await codex.prompt(adapter, claim(**fields))
        assert (await turn.end()).outcome == "completed"
        assert not turn.of(ElicitationAsked)
        assert answers(turn) == [ACCEPTED]

    codex.run(scenario)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param(
            {"meta": {**META, "tool_description": "Submit."}}, id="another-description", marks=pytest.mark.case("B55")
        ),
        pytest.param({"item": ...}, id="no-running-call", marks=pytest.mark.case("B57")),
        pytest.param(
            {"item": [SERVER, "termal_list_delegations", {}]},
            id="a-call-of-another-tool",
            marks=pytest.mark.case("B57"),
        ),
        pytest.param(
            {"item": ["evil", SUBMIT_TOOL, REVIEW]}, id="a-call-of-another-server", marks=pytest.mark.case("B57")
        ),
        pytest.param(
            {"meta": {**META, "tool_params": {"schemaVersion": 1}}}, id="other-arguments", marks=pytest.mark.case("B65")
        ),
        pytest.param({"meta": {**META, "codex_approval_kind": "other"}}, id="another-kind"),
        pytest.param(
            {"item": [SERVER, SUBMIT_TOOL, {"schemaVersion": 2}], "meta": ...}, id="another-version-of-a-review"
        ),
    ],
)
def test_a_submission_that_is_not_proven_stays_a_persons(codex: CodexKit, fields: Json) -> None:
    async def scenario() -> None:
        adapter = await codex.started(**REVIEWER)
        turn = await codex.prompt(adapter, claim(**fields))
        await declined(adapter, turn)
        assert answers(turn) == [{"action": "decline", "content": None}]

    codex.run(scenario)


@pytest.mark.case("B55")
def test_a_review_that_is_over_is_not_submitted_without_a_person(codex: CodexKit) -> None:
    async def scenario() -> None:
        adapter = await codex.started(**REVIEWER)
        turn = await codex.prompt(adapter, claim())
        assert (await turn.end()).outcome == "completed"
        assert answers(turn) == [ACCEPTED]
        assert await adapter.apply(codex.spec(**{**REVIEWER, "submits_review": False}))
        later = await codex.prompt(adapter, claim())
        asked = await declined(adapter, later)
        assert asked.own_tool

    codex.run(scenario)


@pytest.mark.case("B65")
@pytest.mark.parametrize("changes", [REVIEWER, NEVER, ASKS], ids=["reviewer", "never", "asks"])
def test_another_server_that_says_it_is_ours_is_never_accepted(codex: CodexKit, changes: Json) -> None:
    async def scenario() -> None:
        adapter = await codex.started(**changes)
        # A session that asks nobody declines the call of another server; a form that is no call goes to a person.
        for server, asks in (("evil", changes is ASKS), (SERVER, True)):
            turn = await codex.prompt(adapter, claim("evil", item=[server, SUBMIT_TOOL, REVIEW]))
            await turn.until(lambda: turn.of(ElicitationAsked) or turn.of(TurnEnded), "a question or the end")  # noqa: B023
            assert bool(turn.of(ElicitationAsked)) == asks
            if asks:
                assert not (await declined(adapter, turn)).own_tool
            assert answers(turn) == [{"action": "decline", "content": None}]

    codex.run(scenario)


@pytest.mark.case("B65")
@pytest.mark.parametrize(
    ("changes", "tool"), [(REVIEWER, SUBMIT_TOOL), (NEVER, "termal_list_sessions")], ids=["reviewer", "never"]
)
def test_one_call_is_accepted_once(codex: CodexKit, changes: Json, tool: str) -> None:
    async def scenario() -> None:
        adapter = await codex.started(**changes)
        turn = await codex.prompt(adapter, claim(item=[SERVER, tool, REVIEW], times=2))
        assert not (await declined(adapter, turn)).own_tool
        assert answers(turn) == [ACCEPTED, {"action": "decline", "content": None}]

    codex.run(scenario)


@pytest.mark.case("B64")
def test_never_lets_the_bridge_work_and_declines_the_rest_without_a_card(codex: CodexKit) -> None:
    async def scenario() -> None:
        adapter = await codex.started(**NEVER)
        seen: list[AnyTurnEvent] = []
        for script, status in (
            (f"mcp {SERVER} termal_list_sessions", "success"),
            ("ask touch /etc/made", "error"),
            ("mcp other tool", "error"),
        ):
            turn = await codex.prompt(adapter, script)
            assert (await turn.end()).outcome == "completed"
            assert [event.status for event in turn.of(ToolEnded)] == [status], script
            seen += [*turn.of(ApprovalAsked), *turn.of(ElicitationAsked)]
        assert seen == []
        asked = [*codex.requests("thread/start"), *codex.requests("turn/start")]
        assert [record["params"]["approvalPolicy"] for record in asked] == ["on-request"] * 4

    codex.run(scenario)


@pytest.mark.parametrize(
    ("changes", "own"),
    [
        pytest.param(ASKS, True, id="a-session-that-asks"),
        pytest.param({**REVIEWER, "submits_review": False}, True, id="a-child-that-reads"),
    ],
)
def test_a_card_says_when_it_is_proven_to_be_about_the_bridge(codex: CodexKit, changes: Json, own: bool) -> None:
    async def scenario() -> None:
        adapter = await codex.started(**changes)
        turn = await codex.prompt(adapter, claim(item=[SERVER, "termal_spawn_session", {"prompt": "look"}], meta=...))
        await turn.until(lambda: turn.of(ElicitationAsked), "a question for a person")
        asked = turn.of(ElicitationAsked)[0]
        assert (asked.own_tool, asked.title) == (own, f"Codex wants to use {SERVER}.termal_spawn_session")
        await adapter.answer(asked.request, "accept")
        assert (await turn.end()).outcome == "completed"
        assert answers(turn) == [ACCEPTED]

    codex.run(scenario)


ALL: Json = {"modes": {"approvalPolicy": "never", "sandboxMode": "danger-full-access"}, "mcp_servers": [OWN]}


@pytest.mark.parametrize(
    ("server", "held"),
    [pytest.param(SERVER, False, id="the-bridges-own"), pytest.param("other", True, id="another-servers")],
)
def test_a_tool_that_a_mode_allows_waits_for_the_end_of_a_lock(codex: CodexKit, server: str, held: bool) -> None:
    async def scenario() -> None:
        adapter = await codex.started(**ALL)
        call = claim(server=server, item=[server, "write", {"path": "x"}], meta=...)
        free = await codex.prompt(adapter, call)
        assert (await free.end()).outcome == "completed"
        assert not free.of(ElicitationAsked)
        codex.locked = True
        turn = await codex.prompt(adapter, call)
        if held:
            await turn.until(lambda: turn.of(ElicitationAsked), "a card")
            (asked,) = turn.of(ElicitationAsked)
            await adapter.answer(asked.request, asked.by_mode)
        assert (await turn.end()).outcome == "completed"
        assert bool(turn.of(ElicitationAsked)) is held
        assert [answers(one) for one in (free, turn)] == [[ACCEPTED], [ACCEPTED]]

    codex.run(scenario)


def test_a_required_review_without_its_tools_is_not_begun(codex: CodexKit) -> None:
    (codex.home / f"{SERVER}.fails").touch()

    async def scenario() -> None:
        adapter = await codex.started(**REVIEWER)
        with pytest.raises(AgentFailed, match=f"did not come up: no such program. {NO_BRIDGE}"):
            await codex.prompt(adapter, "say never")
        assert codex.requests("turn/start") == []

    codex.run(scenario)


def test_a_required_review_that_loses_its_tools_after_its_begin_ends(codex: CodexKit) -> None:
    async def scenario() -> None:
        adapter = await codex.started(**REVIEWER)
        turn = await codex.prompt(adapter, "hold")
        await turn.until(lambda: turn.events, "the begin")
        adapter.told("mcpServer/startupStatus/updated", {"name": SERVER, "status": "failed", "error": "it exited"})
        ended = await turn.end()
        assert ended == TurnEnded("failed", f"The MCP server {SERVER} did not come up: it exited. {NO_BRIDGE}")
        assert not adapter.alive

    codex.run(scenario)


def test_any_other_session_goes_on_without_the_bridge_and_is_told(codex: CodexKit) -> None:
    (codex.home / f"{SERVER}.fails").touch()

    async def scenario() -> None:
        adapter = await codex.started(**{**REVIEWER, "submits_review": False})
        turn = await codex.prompt(adapter, "say hello")
        assert (await turn.end()).outcome == "completed"
        assert turn.text() == "hello"

    codex.run(scenario)
