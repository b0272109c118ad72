"""The ACP adapter with a scripted agent as its process: settings, permissions, habits of real agents, misbehaviour."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from termal.wire.turns import (
    ApprovalAsked,
    ApprovalWithdrawn,
    McpServer,
    Notice,
    TextDelta,
    TextDone,
    ToolEnded,
    TurnEnded,
    Usage,
)
from tests.support.acp_script import DONE, ScriptedAgent, ask, text, tool
from tests.support.waiting import until
from workers.runtime import acp, acp_session, lines
from workers.runtime.adapter import AgentFailed

ALLOW_OR_NOT = (("yes", "allow_once"), ("no", "reject_once"))
MODELS = {"availableModels": [{"modelId": "small", "name": "Small"}, {"modelId": "big"}], "currentModelId": "small"}


def run(agent: ScriptedAgent, work: Coroutine[Any, Any, None]) -> None:
    async def whole() -> None:
        try:
            await work
        finally:
            await agent.adapter.close()

    asyncio.run(whole())


def failure(agent: ScriptedAgent, **spec: Any) -> str:
    """The sentence with which the start fails; nothing runs afterwards."""
    said: list[str] = []

    async def work() -> None:
        with pytest.raises(AgentFailed) as failed:
            await agent.adapter.start(agent.spec(**spec))
        said.append(failed.value.text)
        assert not agent.adapter.alive
        assert agent.adapter.pid is None

    run(agent, work())
    return said[0]


# ----------------------------------------------------------------------------- start


def test_an_agent_that_exits_at_once_fails_with_its_last_words(run_dir: Path) -> None:
    agent = ScriptedAgent(run_dir, behaviour="exits")
    assert failure(agent) == "the Scripted process ended right after its start: cannot read its settings"


def test_an_agent_that_never_answers_is_ended(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acp, "INITIALIZE_S", 0.3)
    agent = ScriptedAgent(run_dir, behaviour="silent")
    assert failure(agent) == "Scripted did not come up: no answer to initialize within 0.3 s"


def test_an_agent_of_another_protocol_version_is_refused(run_dir: Path) -> None:
    agent = ScriptedAgent(run_dir, answers={"initialize": {"result": {"protocolVersion": 2}}})
    assert failure(agent) == "Scripted speaks another version of the agent protocol (2)"


def test_an_agent_that_wants_a_sign_in_says_so(run_dir: Path) -> None:
    error = {"error": {"code": -32000, "message": "run `scripted login` first"}}
    agent = ScriptedAgent(run_dir, answers={"session/new": error})
    assert failure(agent) == "Scripted is not signed in: run `scripted login` first"


def test_an_agent_that_is_not_installed_says_how_to_get_it(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(run_dir))
    agent = ScriptedAgent(run_dir)
    other = acp.AcpAdapter("Gemini", agent.adapter._place, agent.times, agent.journal)

    async def start() -> None:
        with pytest.raises(AgentFailed, match="Gemini is not installed: npm i"):
            await other.start(agent.spec())

    asyncio.run(start())


def test_a_folder_that_is_gone_fails_the_start(run_dir: Path) -> None:
    agent = ScriptedAgent(run_dir)
    assert failure(agent, workdir="/no/such") == "the folder of the session is not there: /no/such"


# ------------------------------------------------------------------ conversation


def test_a_known_conversation_is_loaded_and_its_replay_is_not_shown(run_dir: Path) -> None:
    agent = ScriptedAgent(run_dir, replay=[text("old words")["update"]], prompt=[text("new"), DONE])

    async def work() -> None:
        started = await agent.adapter.start(agent.spec(external_session_id="conversation-1"))
        assert (started.external_session_id, started.note) == ("conversation-1", "")
        assert [event for event in await agent.turn() if isinstance(event, TextDelta)] == [TextDelta("text-1", "new")]

    run(agent, work())
    assert agent.received("session/load")[0]["sessionId"] == "conversation-1"
    assert agent.received("session/new") == []


def test_an_agent_that_can_resume_is_not_asked_to_replay(run_dir: Path) -> None:
    capabilities = {"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": {"resume": {}}}}
    agent = ScriptedAgent(run_dir, answers={"initialize": {"result": capabilities}, "session/resume": {"result": {}}})

    async def work() -> None:
        await agent.adapter.start(agent.spec(external_session_id="conversation-1"))

    run(agent, work())
    assert len(agent.received("session/resume")) == 1


@pytest.mark.parametrize(
    ("answers", "note"),
    [
        (
            {"session/load": {"error": {"code": -32603, "message": "no such"}}},
            "does not have the earlier conversation any more (no such)",
        ),
        ({"initialize": {"result": {"protocolVersion": 1}}}, "cannot take up an earlier conversation"),
    ],
    ids=["unknown", "unable"],
)
def test_a_conversation_that_cannot_be_loaded_is_replaced_once(
    run_dir: Path, answers: dict[str, Any], note: str
) -> None:
    agent = ScriptedAgent(run_dir, answers=answers)

    async def work() -> None:
        started = await agent.adapter.start(agent.spec(external_session_id="conversation-0"))
        assert started.external_session_id == "conversation-1"
        assert note in started.note

    run(agent, work())
    assert len(agent.received("session/new")) == 1


def test_mcp_servers_travel_in_the_shape_that_agents_take(run_dir: Path) -> None:
    agent = ScriptedAgent(run_dir)
    server = McpServer("termal-delegation", "/bin/server", ["--x"], {"TOKEN": "t"})

    async def work() -> None:
        await agent.adapter.start(agent.spec(mcp_servers=[server]))

    run(agent, work())
    assert agent.received("session/new")[0]["mcpServers"] == [
        {
            "name": "termal-delegation",
            "command": "/bin/server",
            "args": ["--x"],
            "env": [{"name": "TOKEN", "value": "t"}],
        }
    ]


# ---------------------------------------------------------------------- settings


def test_the_model_is_set_when_it_is_not_auto_and_set_back_later(run_dir: Path) -> None:
    agent = ScriptedAgent(
        run_dir, answers={"session/new": {"result": {"sessionId": "conversation-1", "models": MODELS}}}
    )

    async def work() -> None:
        started = await agent.adapter.start(agent.spec(model="big"))
        assert started.models == [("small", "Small", None), ("big", "big", None)]
        assert started.current_model == "big"
        assert await agent.adapter.apply(agent.spec(model="big"))
        assert await agent.adapter.apply(agent.spec(model="auto"))

    run(agent, work())
    assert [params["modelId"] for params in agent.received("session/set_model")] == ["big", "small"]


def test_a_refused_model_fails_the_turn_with_a_sentence(run_dir: Path) -> None:
    new = {"result": {"sessionId": "conversation-1", "models": MODELS}}
    refusal = {"error": {"code": -32602, "message": "unknown model"}}
    agent = ScriptedAgent(run_dir, answers={"session/new": new, "session/set_model": refusal})
    assert failure(agent, model="huge") == "Scripted refuses the model 'huge': unknown model"


def test_a_model_given_as_an_option_of_the_session_is_set_as_one(run_dir: Path) -> None:
    options = [
        {
            "id": "model",
            "category": "model",
            "type": "select",
            "currentValue": "a/x",
            "options": [{"group": "a", "options": [{"value": "a/x", "name": "X"}, {"value": "a/y", "name": "Y"}]}],
        }
    ]
    new = {"result": {"sessionId": "conversation-1", "configOptions": options}}
    agent = ScriptedAgent(run_dir, name="OpenCode", answers={"session/new": new})

    async def work() -> None:
        started = await agent.adapter.start(agent.spec(model="a/y"))
        assert started.models == [("a/x", "X", None), ("a/y", "Y", None)]

    run(agent, work())
    assert agent.received("session/set_config_option") == [
        {"sessionId": "conversation-1", "configId": "model", "value": "a/y"}
    ]


MODES = {"availableModes": [{"id": mode} for mode in ("default", "autoEdit", "plan")], "currentModeId": "default"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        ({"modes": {"geminiApprovalMode": "auto_edit"}}, ["autoEdit"]),
        ({"modes": {"geminiApprovalMode": "auto_edit"}, "read_only": True}, ["plan"]),
    ],
    ids=["default", "chosen", "read-only"],
)
def test_the_mode_of_the_session_is_set_where_it_differs(
    run_dir: Path, spec: dict[str, Any], expected: list[str]
) -> None:
    new = {"result": {"sessionId": "conversation-1", "modes": MODES}}
    agent = ScriptedAgent(run_dir, name="Gemini", answers={"session/new": new})

    async def work() -> None:
        await agent.adapter.start(agent.spec(**spec))

    run(agent, work())
    assert [params["modeId"] for params in agent.received("session/set_mode")] == expected


def test_a_read_only_session_does_not_start_without_the_mode_that_keeps_it_so(run_dir: Path) -> None:
    agent = ScriptedAgent(run_dir, own={"read_only_mode": "look"})
    assert failure(agent, read_only=True) == "Scripted offers no mode 'look'"


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({}, True),
        ({"workdir": "/"}, False),
        ({"read_only": True}, False),
        ({"external_session_id": "conversation-1"}, True),
        ({"external_session_id": "conversation-2"}, False),
    ],
    ids=["nothing", "folder", "read-only", "its conversation", "another conversation"],
)
def test_only_some_changes_need_a_new_process(run_dir: Path, change: dict[str, Any], same: bool) -> None:
    agent = ScriptedAgent(run_dir)

    async def work() -> None:
        await agent.adapter.start(agent.spec())
        assert await agent.adapter.apply(agent.spec(**change)) is same

    run(agent, work())


def test_a_mode_is_changed_in_the_middle_of_a_turn(run_dir: Path) -> None:
    new = {"result": {"sessionId": "conversation-1", "modes": MODES}}
    prompt = [text("at work"), {"wait_for": "session/set_mode"}, text("changed"), DONE]
    agent = ScriptedAgent(run_dir, name="Gemini", answers={"session/new": new}, prompt=prompt)

    async def work() -> None:
        await agent.adapter.start(agent.spec())
        await agent.adapter.prompt("go", [], agent.events.append)
        await until(lambda: agent.said(TextDelta), "the turn")
        applying = asyncio.create_task(agent.adapter.apply(agent.spec(modes={"geminiApprovalMode": "yolo"})))
        with pytest.raises(AgentFailed, match="offers no mode 'yolo'"):
            await applying
        applying = asyncio.create_task(agent.adapter.apply(agent.spec(modes={"geminiApprovalMode": "plan"})))
        await agent.ended()
        applying.cancel()

    run(agent, work())
    assert [params["modeId"] for params in agent.received("session/set_mode")] == ["plan"]


def test_settings_that_need_a_new_process_are_not_taken_for_applied(run_dir: Path) -> None:
    agent = ScriptedAgent(run_dir)

    async def work() -> None:
        await agent.adapter.start(agent.spec())
        for _ in range(2):
            assert not await agent.adapter.apply(agent.spec(workdir="/"))

    run(agent, work())


def test_a_change_without_an_answer_is_told_again(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acp_session, "SETTING_S", 0.05)
    new = {"result": {"sessionId": "conversation-1", "modes": MODES}}
    prompt = [{"wait_for": "session/set_mode"}, DONE]
    agent = ScriptedAgent(run_dir, name="Gemini", answers={"session/new": new}, prompt=prompt)

    async def work() -> None:
        await agent.adapter.start(agent.spec())
        await agent.adapter.prompt("go", [], agent.events.append)
        with pytest.raises(AgentFailed) as failed:
            await agent.adapter.apply(agent.spec(modes={"geminiApprovalMode": "plan"}))
        assert failed.value.unanswered
        await agent.ended()
        monkeypatch.setattr(acp_session, "SETTING_S", 5.0)
        # Whether it is in the old mode or in the new one is not known.
        assert await agent.adapter.apply(agent.spec())

    run(agent, work())
    assert [params["modeId"] for params in agent.received("session/set_mode")] == ["plan", "default"]


def test_a_mode_that_the_agent_left_by_itself_is_set_again(run_dir: Path) -> None:
    new = {"result": {"sessionId": "conversation-1", "modes": MODES}}
    left = {"update": {"sessionUpdate": "current_mode_update", "currentModeId": "default"}}
    agent = ScriptedAgent(run_dir, name="Gemini", answers={"session/new": new}, prompt=[left, DONE])
    spec = agent.spec(modes={"geminiApprovalMode": "plan"})

    async def work() -> None:
        await agent.adapter.start(spec)
        await agent.turn()
        assert await agent.adapter.apply(spec)

    run(agent, work())
    assert [params["modeId"] for params in agent.received("session/set_mode")] == ["plan", "plan"]


# --------------------------------------------------------------------- permissions


def test_a_permission_is_answered_with_the_agents_own_option(run_dir: Path) -> None:
    prompt = [ask("t1", *ALLOW_OR_NOT, kind="execute", title="make"), {"wait_for": 101}, DONE]
    agent = ScriptedAgent(run_dir, prompt=prompt)

    async def work() -> None:
        await agent.adapter.start(agent.spec())
        await agent.adapter.prompt("go", [], agent.events.append)
        asked = (await until(lambda: agent.said(ApprovalAsked), "a request"))[0]
        await agent.adapter.answer(asked.request, "yes")
        await agent.ended()

    run(agent, work())
    assert agent.answered() == [{"outcome": {"outcome": "selected", "optionId": "yes"}}]
    # No update followed, as with some agents: the end of the turn closed the card.
    assert agent.said(ToolEnded) == [ToolEnded("tool:t1", "success")]


def test_an_agent_that_would_run_a_repositorys_code_is_no_childs(run_dir: Path) -> None:
    plugin = run_dir / ".opencode" / "plugin" / "evil.js"
    plugin.parent.mkdir(parents=True)
    plugin.touch()
    agent = ScriptedAgent(run_dir, name="OpenCode", prompt=[DONE])

    async def work() -> None:
        with pytest.raises(AgentFailed, match=r"evil\.js.*not started"):
            await agent.adapter.start(agent.spec(delegated=True))
        assert agent.adapter.pid is None
        started = await agent.adapter.start(agent.spec())
        assert "evil.js" in started.note, "a person's own session is told"

    run(agent, work())


@pytest.mark.parametrize(
    ("delegated", "kind", "title", "sent"),
    [
        pytest.param(True, "execute", "make", "yes", id="a-childs-command"),
        pytest.param(True, "other", "run 'git' push", "yes", id="a-childs-call-that-names-git"),
        pytest.param(True, "edit", "write a file", "always", id="a-childs-edit"),
        pytest.param(False, "execute", "make", "always", id="anybody-elses-command"),
    ],
)
def test_a_yes_for_the_session_is_one_for_once_where_a_child_could_commit_by_it(
    run_dir: Path, delegated: bool, kind: str, title: str, sent: str
) -> None:
    offered = [*ALLOW_OR_NOT, ("always", "allow_always")]
    agent = ScriptedAgent(run_dir, prompt=[ask("t1", *offered, kind=kind, title=title), {"wait_for": 101}, DONE])

    async def work() -> None:
        await agent.adapter.start(agent.spec(delegated=delegated))
        await agent.adapter.prompt("go", [], agent.events.append)
        asked = (await until(lambda: agent.said(ApprovalAsked), "a request"))[0]
        option = next(one.id for one in asked.options if one.decision == "acceptedForSession")
        await agent.adapter.answer(asked.request, option)
        await agent.ended()

    run(agent, work())
    assert agent.answered() == [{"outcome": {"outcome": "selected", "optionId": sent}}]


def test_a_refused_call_of_which_the_agent_says_nothing_more_is_closed(run_dir: Path) -> None:
    agent = ScriptedAgent(run_dir, prompt=[ask("t1", *ALLOW_OR_NOT, kind="execute"), {"wait_for": 101}, DONE])

    async def work() -> None:
        await agent.adapter.start(agent.spec())
        await agent.adapter.prompt("go", [], agent.events.append)
        asked = (await until(lambda: agent.said(ApprovalAsked), "a request"))[0]
        await agent.adapter.answer(asked.request, "no")
        await agent.ended()

    run(agent, work())
    assert agent.said(ToolEnded) == [ToolEnded("tool:t1", "error", "Refused.")]


def test_an_agent_that_needs_its_answers_in_order_gets_them_so(run_dir: Path) -> None:
    prompt = [ask("t1", *ALLOW_OR_NOT), ask("t2", *ALLOW_OR_NOT), {"wait_for": 102}, DONE]
    agent = ScriptedAgent(run_dir, name="OpenCode", prompt=prompt)

    async def work() -> None:
        await agent.adapter.start(agent.spec())
        await agent.adapter.prompt("go", [], agent.events.append)
        first, second = await until(
            lambda: agent.said(ApprovalAsked)[:2] if len(agent.said(ApprovalAsked)) == 2 else [], "both"
        )
        with pytest.raises(AgentFailed, match="in the order"):
            await agent.adapter.answer(second.request, "yes")
        await agent.adapter.answer(first.request, "yes")
        await agent.adapter.answer(second.request, "yes")
        await agent.ended()

    run(agent, work())


@pytest.mark.parametrize(("number", "kind"), [("t1", "switch_mode"), ("exit_plan_mode__call_1", "other")])
def test_leaving_the_read_only_mode_is_refused_without_asking_anybody(run_dir: Path, number: str, kind: str) -> None:
    new = {"result": {"sessionId": "conversation-1", "modes": MODES}}
    prompt = [ask(number, *ALLOW_OR_NOT, kind=kind, title="Leave plan mode"), {"wait_for": 101}, DONE]
    agent = ScriptedAgent(run_dir, name="Gemini", answers={"session/new": new}, prompt=prompt)

    async def work() -> None:
        await agent.adapter.start(agent.spec(read_only=True))
        await agent.turn()

    run(agent, work())
    assert agent.answered() == [{"outcome": {"outcome": "selected", "optionId": "no"}}]
    assert agent.said(ApprovalAsked) == []


def test_a_cancelled_turn_is_interrupted_whatever_the_agent_calls_its_end(run_dir: Path) -> None:
    agent = ScriptedAgent(run_dir, prompt=[text("at work"), {"wait_for": "session/cancel"}, DONE])

    async def work() -> None:
        await agent.adapter.start(agent.spec())
        await agent.adapter.prompt("go", [], agent.events.append)
        await until(lambda: agent.said(TextDelta), "the turn")
        await agent.adapter.interrupt()
        assert agent.said(TurnEnded) == [TurnEnded("interrupted")]
        assert agent.adapter.alive

    run(agent, work())


def test_a_cancelled_turn_answers_what_the_agent_still_asks(run_dir: Path) -> None:
    prompt = [
        ask("t1", *ALLOW_OR_NOT),
        {"wait_for": "session/cancel"},
        {"wait_for": 101},
        ask("t2", *ALLOW_OR_NOT),
        {"wait_for": 102},
        {"result": {"stopReason": "cancelled"}},
    ]
    agent = ScriptedAgent(run_dir, prompt=prompt)

    async def work() -> None:
        await agent.adapter.start(agent.spec())
        await agent.adapter.prompt("go", [], agent.events.append)
        asked = (await until(lambda: agent.said(ApprovalAsked), "a request"))[0]
        await agent.adapter.interrupt()
        assert agent.events[-1] == TurnEnded("interrupted")
        assert agent.said(ApprovalWithdrawn) == [ApprovalWithdrawn(asked.request)]
        assert agent.adapter.alive

    run(agent, work())
    assert agent.answered() == [{"outcome": {"outcome": "cancelled"}}] * 2


def test_what_the_client_does_not_offer_is_refused_and_the_turn_goes_on(run_dir: Path) -> None:
    agent = ScriptedAgent(run_dir, prompt=[{"request": "fs/read_text_file"}, {"wait_for": 1}, text("on"), DONE])

    async def work() -> None:
        await agent.adapter.start(agent.spec())
        await agent.turn()

    run(agent, work())
    assert agent.answered()[0]["code"] == -32601
    assert agent.events[-1] == TurnEnded("completed")


# ------------------------------------------------------------------------- turn ends


@pytest.mark.parametrize(
    ("answer", "end", "notice"),
    [
        (DONE, TurnEnded("completed"), False),
        ({"result": {"stopReason": "cancelled"}}, TurnEnded("interrupted"), False),
        ({"result": {"stopReason": "max_tokens"}}, TurnEnded("completed"), True),
        ({"result": {"stopReason": "refusal"}}, TurnEnded("failed", "Scripted refused to go on"), False),
        (
            {"error": {"code": -32603, "message": "Internal error", "data": {"details": "quota"}}},
            TurnEnded("failed", "Internal error: quota"),
            False,
        ),
    ],
    ids=["end_turn", "cancelled", "max_tokens", "refusal", "error"],
)
def test_how_a_prompt_is_answered_decides_how_the_turn_ends(
    run_dir: Path, answer: dict[str, Any], end: TurnEnded, notice: bool
) -> None:
    agent = ScriptedAgent(run_dir, prompt=[answer])

    async def work() -> None:
        await agent.adapter.start(agent.spec())
        await agent.turn()

    run(agent, work())
    assert agent.events[-1] == end
    assert bool(agent.said(Notice)) is notice


@pytest.mark.parametrize(
    "record",
    [
        {"usage": {"inputTokens": 5, "outputTokens": 7}},
        {"_meta": {"quota": {"token_count": {"input_tokens": 5, "output_tokens": 7}}}},
    ],
    ids=["usage", "quota"],
)
def test_tokens_are_reported_in_either_shape(run_dir: Path, record: dict[str, Any]) -> None:
    agent = ScriptedAgent(run_dir, prompt=[{"result": {"stopReason": "end_turn", **record}}])

    async def work() -> None:
        await agent.adapter.start(agent.spec())
        await agent.turn()

    run(agent, work())
    assert agent.said(Usage) == [Usage(5, 7)]


def test_events_after_the_end_of_a_turn_are_nobodys(run_dir: Path) -> None:
    agent = ScriptedAgent(run_dir, prompt=[text("in time"), DONE, text("late"), {"stderr": "said it\n"}])

    async def work() -> None:
        await agent.adapter.start(agent.spec())
        await agent.turn()
        process = agent.adapter._lines
        assert process is not None
        await until(process.last_words, "the late words to have passed")
        assert agent.events[-1] == TurnEnded("completed")

    run(agent, work())


# ----------------------------------------------------------------------- misbehaviour


def test_a_line_without_end_fails_the_turn_and_ends_the_process(run_dir: Path) -> None:
    agent = ScriptedAgent(run_dir, prompt=[text("before"), {"long_line": 100 << 20}, DONE])

    async def work() -> None:
        await agent.adapter.start(agent.spec())
        await agent.adapter.prompt("go", [], agent.events.append)
        end = await agent.ended()
        assert end == TurnEnded("failed", "Scripted sent a line of more than 64 MiB")
        assert not agent.adapter.alive
        await until(lambda: agent.adapter.pid is None, "the process to be ended")

    run(agent, work())


def test_lines_that_are_no_messages_are_counted_and_ignored(run_dir: Path) -> None:
    odd = ["no json", "[1, 2]", '"text"', "{", '{"jsonrpc": "2.0"}', '{"id": 77, "result": {}}', "[" * 5000]
    agent = ScriptedAgent(run_dir, prompt=[*({"line": line} for line in odd), text("on"), DONE])

    async def work() -> None:
        await agent.adapter.start(agent.spec())
        await agent.turn()
        process = agent.adapter._lines
        assert process is not None
        assert process.garbage_lines == 5

    run(agent, work())
    assert agent.said(TextDone) == [TextDone("text-1", "on")]
    assert agent.journal.written == ["agent.garbage"]


def test_half_of_a_surrogate_pair_does_not_lose_the_line(run_dir: Path) -> None:
    line = r'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"conversation-1","update":'
    line += r'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a\ud83d"}}}}'
    agent = ScriptedAgent(run_dir, prompt=[{"line": line}, DONE])

    async def work() -> None:
        await agent.adapter.start(agent.spec())
        await agent.turn()

    run(agent, work())
    assert agent.said(TextDone) == [TextDone("text-1", "a?")]


def test_a_stubborn_agent_is_ended_by_force(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acp, "CANCEL_S", 0.2)
    monkeypatch.setattr(acp, "EXIT_S", 0.2)
    monkeypatch.setattr(lines, "EXIT_S", 0.2)
    agent = ScriptedAgent(run_dir, behaviour="stubborn", prompt=[text("a"), {"wait_for": "never"}])

    async def work() -> None:
        await agent.adapter.start(agent.spec())
        await agent.adapter.prompt("go", [], agent.events.append)
        await until(lambda: agent.said(TextDelta), "the turn to be under way")
        await agent.adapter.interrupt()
        assert agent.events[-1] == TurnEnded("interrupted")
        assert agent.adapter.pid is None

    run(agent, work())


def test_an_agent_that_dies_in_a_turn_loses_it_with_its_last_words(run_dir: Path) -> None:
    prompt = [tool("tool_call", "t1", kind="execute", title="make"), {"stderr": "no memory"}, {"die": 1}]
    agent = ScriptedAgent(run_dir, prompt=prompt)

    async def work() -> None:
        await agent.adapter.start(agent.spec())
        await agent.turn()
        with pytest.raises(AgentFailed, match="is not running"):
            await agent.adapter.prompt("again", [], agent.events.append)

    run(agent, work())
    assert agent.said(ToolEnded) == [ToolEnded("tool:t1", "error")]
    assert agent.events[-1] == TurnEnded("lost", "the Scripted process ended before the turn did: no memory")
