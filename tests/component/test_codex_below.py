"""Sub-agents of Codex, over a scripted app-server: their questions reach the session whose turn began them."""

import pytest

from termal.wire.turns import (
    ApprovalAsked,
    ApprovalWithdrawn,
    ElicitationAsked,
    InteractionWithdrawn,
    McpServer,
    TextDone,
    ToolStarted,
)
from tests.support.codex_kit import CodexKit
from tests.support.waiting import until
from workers.runtime.adapter import AgentFailed
from workers.runtime.codex import CodexAdapter
from workers.runtime.codex_requests import COMMAND

OWN = McpServer("termal-delegation", "/bin/true", ["delegation-mcp"], {"TERMAL_TOKEN": "secret"})
FULL = {"approvalPolicy": "never", "sandboxMode": "danger-full-access"}


def answers(codex: CodexKit) -> list[dict[str, object]]:
    """What Codex was told for its own requests: results and refusals."""
    return [record for record in codex.received() if "method" not in record]


async def works_below(codex: CodexKit, adapter: CodexAdapter) -> None:
    """The sub-agent ``helper`` has begun its turn."""
    process = await codex.shared.use(adapter)
    await until(lambda: "helper" in process.threads and process.threads["helper"].listener.running, "its turn")


def test_a_question_of_a_sub_agent_is_answered_where_its_turn_began(codex: CodexKit) -> None:
    async def scenario() -> None:
        adapter = await codex.started()
        other = await codex.started(session_id="session-2")
        idle = await codex.prompt(other, "wait never")
        turn = await codex.prompt(adapter, "below helper ask make all\nwait go")
        asked = await turn.question()
        assert (asked.title, asked.command) == ("Sub-agent: Codex wants to run a command", "make all")
        await adapter.answer(asked.request, "accept")
        await until(lambda: answers(codex), "the answer to arrive")
        assert answers(codex)[0]["result"] == {"decision": "accept"}
        (codex.home / "go").touch()
        assert (await turn.end()).outcome == "completed"
        # What it says and does is its own: the model that began it is told.
        assert not turn.of(ToolStarted)
        assert not idle.events

    codex.run(scenario)


def test_what_a_sub_agent_says_is_not_shown(codex: CodexKit) -> None:
    async def scenario() -> None:
        adapter = await codex.started()
        turn = await codex.prompt(adapter, "below helper say Psst.\nask after\nsay Done.")
        await adapter.answer((await turn.question()).request, "decline")
        assert (await turn.end()).outcome == "completed"
        assert [event.text for event in turn.of(TextDone)] == ["Done."]

    codex.run(scenario)


def test_its_open_question_is_refused_when_the_turn_ends(codex: CodexKit) -> None:
    async def scenario() -> None:
        adapter = await codex.started()
        turn = await codex.prompt(adapter, "below helper ask make\nwait go")
        asked = await turn.question()
        (codex.home / "go").touch()
        assert (await turn.end()).outcome == "completed"
        assert turn.of(ApprovalWithdrawn) == [ApprovalWithdrawn(asked.request)]
        await until(lambda: answers(codex), "the refusal to arrive")
        assert "error" in answers(codex)[0]
        with pytest.raises(AgentFailed):
            await adapter.answer(asked.request, "accept")

    codex.run(scenario)


def test_what_a_sub_agent_asks_between_turns_is_refused_and_in_the_next_one_shown(codex: CodexKit) -> None:
    async def scenario() -> None:
        adapter = await codex.started()
        first = await codex.prompt(adapter, "below helper wait one\nsay Done.")
        assert (await first.end()).outcome == "completed"
        await works_below(codex, adapter)
        process = await codex.shared.use(adapter)
        running = process.threads["helper"].listener.running
        asked = {"threadId": "helper", "turnId": running, "command": "late", "cwd": "/"}
        process.asked(99, COMMAND, asked)
        await until(lambda: answers(codex), "the refusal to arrive")
        assert (answers(codex)[0]["id"], "error" in answers(codex)[0]) == (99, True)
        turn = await codex.prompt(adapter, "wait go")
        await until(lambda: adapter.running, "the next turn")
        process.asked(100, COMMAND, asked)
        assert (await turn.question()).command == "late"
        (codex.home / "go").touch()
        await turn.end()

    codex.run(scenario)


def test_an_interrupt_ends_its_turn_and_takes_its_question_away(codex: CodexKit) -> None:
    async def scenario() -> None:
        adapter = await codex.started()
        turn = await codex.prompt(adapter, "below helper hold\nbelow asker ask make\nwait go")
        asked = await turn.question()
        await works_below(codex, adapter)
        await adapter.interrupt()
        assert (await turn.end()).outcome == "interrupted"
        assert turn.of(ApprovalWithdrawn) == [ApprovalWithdrawn(asked.request)]

    codex.run(scenario)
    cut = [record["params"]["threadId"] for record in codex.requests("turn/interrupt")]
    cleaned = [record["params"]["threadId"] for record in codex.requests("thread/backgroundTerminals/clean")]
    assert "helper" in cut
    assert "helper" in cleaned


def test_a_closed_session_takes_its_sub_agents_along(codex: CodexKit) -> None:
    async def scenario() -> None:
        staying = await codex.started(session_id="session-2")
        adapter = await codex.started()
        await codex.prompt(adapter, "below helper hold\nwait go")
        await works_below(codex, adapter)
        await adapter.close()
        assert "helper" in [record["params"]["threadId"] for record in codex.requests("turn/interrupt")]
        assert staying.alive

    codex.run(scenario)


@pytest.mark.parametrize(
    ("changes", "decision"),
    [({"read_only": True}, "decline"), ({"modes": FULL}, "accept")],
    ids=["read-only", "full access"],
)
def test_the_settings_of_the_session_answer_for_its_sub_agents(
    codex: CodexKit, changes: dict[str, object], decision: str
) -> None:
    async def scenario() -> None:
        adapter = await codex.started(**changes)
        turn = await codex.prompt(adapter, "below helper ask make\nwait go")
        await until(lambda: answers(codex), "the answer to arrive")
        assert answers(codex)[0]["result"] == {"decision": decision}
        (codex.home / "go").touch()
        await turn.end()
        assert not turn.of(ApprovalAsked)

    codex.run(scenario)


def test_a_held_acceptance_for_a_sub_agent_is_shown(codex: CodexKit) -> None:
    codex.locked = True

    async def scenario() -> None:
        adapter = await codex.started(modes=FULL)
        turn = await codex.prompt(adapter, "below helper ask make\nwait go")
        assert (await turn.question()).by_mode
        (codex.home / "go").touch()
        await turn.end()

    codex.run(scenario)


def test_a_server_that_only_claims_to_be_ours_is_put_to_a_person(codex: CodexKit) -> None:
    async def scenario() -> None:
        adapter = await codex.started(mcp_servers=[OWN])
        turn = await codex.prompt(adapter, "below helper forge submit_review_result\nwait go")
        await turn.until(lambda: turn.of(ElicitationAsked), "a question")
        (asked,) = turn.of(ElicitationAsked)
        assert (asked.own_tool, "evil" in asked.title) == (False, True)
        (codex.home / "go").touch()
        await turn.end()
        assert turn.of(InteractionWithdrawn) == [InteractionWithdrawn(asked.request)]

    codex.run(scenario)


def test_a_thread_that_no_turn_began_is_nobodys(codex: CodexKit) -> None:
    async def scenario() -> None:
        adapter = await codex.started()
        turn = await codex.prompt(adapter, "wait go")
        process = await codex.shared.use(adapter)
        params = {"threadId": "stray", "turn": {"id": "t", "rootTurnId": "somebody's"}}
        process.told("turn/started", params)
        process.told("turn/started", {"threadId": "odd", "turn": {"id": "t"}})
        process.asked(99, COMMAND, {"threadId": "stray", "turnId": "t"})
        assert set(process.threads) == {adapter._attachment.thread_id if adapter._attachment else ""}
        (codex.home / "go").touch()
        await turn.end()
        assert not turn.of(ApprovalAsked)

    codex.run(scenario)
