"""Cursor, which cannot be installed for tests: a scripted agent that does what its documentation says of ``acp``."""

from pathlib import Path
from typing import Any

import pytest

from termal.wire.turns import ApprovalAsked, ApprovalWithdrawn, TextDone, ToolEnded, TurnEnded
from tests.component.test_runtime_acp import failure, run
from tests.support.acp_script import DONE, ScriptedAgent, ask, text, tool
from tests.support.waiting import until
from workers.runtime import acp
from workers.runtime.adapter import AgentFailed

Json = dict[str, Any]

MODES = {"availableModes": [{"id": mode} for mode in ("agent", "plan", "ask")], "currentModeId": "agent"}
INITIALIZED = {
    "protocolVersion": 1,
    "agentCapabilities": {"loadSession": True, "promptCapabilities": {"image": True}},
    "authMethods": [{"id": "cursor_login", "name": "Cursor Login"}],
}
ANSWERS: Json = {
    "initialize": {"result": INITIALIZED},
    "authenticate": {"result": {}},
    "session/new": {"result": {"sessionId": "conversation-1", "modes": MODES}},
    "session/load": {"result": {"modes": MODES}},
}
OPTIONS = (("allow-once", "allow_once"), ("allow-always", "allow_always"), ("reject-once", "reject_once"))
COMMAND = ask("call-1", *OPTIONS, kind="execute", title="`make`", rawInput={"command": "make"})
OUTPUT = [{"type": "content", "content": {"type": "text", "text": "built"}}]


def cursor(folder: Path, *prompt: Json, **answers: Json) -> ScriptedAgent:
    return ScriptedAgent(folder, name="Cursor", answers={**ANSWERS, **answers}, prompt=[*prompt, DONE])


def test_it_is_signed_in_before_the_conversation_begins(run_dir: Path) -> None:
    agent = cursor(run_dir, text("Hel"), text("lo."))

    async def work() -> None:
        await agent.adapter.start(agent.spec())
        assert [event.text for event in await agent.turn() if isinstance(event, TextDone)] == ["Hello."]

    run(agent, work())
    assert agent.received("authenticate") == [{"methodId": "cursor_login"}]
    assert agent.methods()[:3] == ["initialize", "authenticate", "session/new"]


def test_without_a_sign_in_it_says_so(run_dir: Path) -> None:
    agent = cursor(run_dir, authenticate={"error": {"code": -32000, "message": "run `cursor-agent login`"}})
    assert failure(agent) == "Cursor is not signed in: run `cursor-agent login`"


def test_a_sign_in_that_waits_for_a_browser_is_given_up(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acp, "SIGN_IN_S", 0.3)
    agent = ScriptedAgent(run_dir, name="Cursor", answers=ANSWERS, silent=["authenticate"])
    assert failure(agent) == "Cursor is not signed in: sign in with its own program first"


def test_a_program_that_offers_no_sign_in_is_not_asked_for_one(run_dir: Path) -> None:
    agent = cursor(run_dir, initialize={"result": {"protocolVersion": 1}})

    async def work() -> None:
        await agent.adapter.start(agent.spec())

    run(agent, work())
    assert agent.received("authenticate") == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        ({"modes": {"cursorMode": "agent"}}, []),
        ({"modes": {"cursorMode": "ask"}}, ["ask"]),
        ({"modes": {"cursorMode": "agent"}, "read_only": True}, ["plan"]),
    ],
    ids=["none", "agent", "ask", "read-only"],
)
def test_its_mode_is_the_one_of_the_session(run_dir: Path, spec: Json, expected: list[str]) -> None:
    agent = cursor(run_dir)

    async def work() -> None:
        await agent.adapter.start(agent.spec(**spec))

    run(agent, work())
    assert [params["modeId"] for params in agent.received("session/set_mode")] == expected


@pytest.mark.parametrize(
    ("decision", "option"),
    [("accepted", "allow-once"), ("acceptedForSession", "allow-always"), ("rejected", "reject-once")],
)
def test_a_permission_is_answered_with_its_own_option(run_dir: Path, decision: str, option: str) -> None:
    ended = tool("tool_call_update", "call-1", status="completed", content=OUTPUT)
    agent = cursor(run_dir, COMMAND, {"wait_for": 101}, *([] if decision == "rejected" else [ended]))

    async def work() -> None:
        await agent.adapter.start(agent.spec())
        await agent.adapter.prompt("go", [], agent.events.append)
        asked = (await until(lambda: agent.said(ApprovalAsked), "a request"))[0]
        assert asked.command == "make"
        chosen = next(one.id for one in asked.options if one.decision == decision)
        await agent.adapter.answer(asked.request, chosen)
        assert (await agent.ended()).outcome == "completed"
        (card,) = agent.said(ToolEnded)
        assert card.status == ("error" if decision == "rejected" else "success")

    run(agent, work())
    assert agent.answered() == [{"outcome": {"outcome": "selected", "optionId": option}}]


def test_a_cancel_takes_the_open_request_away(run_dir: Path) -> None:
    cancelled = {"result": {"stopReason": "cancelled"}}
    agent = ScriptedAgent(
        run_dir, name="Cursor", answers=ANSWERS, prompt=[COMMAND, {"wait_for": "session/cancel"}, cancelled]
    )

    async def work() -> None:
        await agent.adapter.start(agent.spec())
        await agent.adapter.prompt("go", [], agent.events.append)
        (asked,) = await until(lambda: agent.said(ApprovalAsked), "a request")
        await agent.adapter.interrupt()
        assert agent.said(TurnEnded) == [TurnEnded("interrupted")]
        assert agent.said(ApprovalWithdrawn) == [ApprovalWithdrawn(asked.request)]
        with pytest.raises(AgentFailed):
            await agent.adapter.answer(asked.request, "allow-once")

    run(agent, work())


def test_its_conversation_is_loaded_again_and_the_replay_is_not_shown(run_dir: Path) -> None:
    agent = ScriptedAgent(
        run_dir, name="Cursor", answers=ANSWERS, replay=[text("old words")["update"]], prompt=[text("new"), DONE]
    )

    async def work() -> None:
        started = await agent.adapter.start(agent.spec(external_session_id="conversation-1"))
        assert (started.external_session_id, started.note) == ("conversation-1", "")
        assert [event.text for event in await agent.turn() if isinstance(event, TextDone)] == ["new"]

    run(agent, work())
    assert agent.received("session/new") == []


def test_what_only_its_own_clients_answer_is_refused_and_the_turn_goes_on(run_dir: Path) -> None:
    agent = cursor(run_dir, {"request": "cursor/ask_question"}, {"wait_for": 1}, text("going on"))

    async def work() -> None:
        await agent.adapter.start(agent.spec())
        assert [event.text for event in await agent.turn() if isinstance(event, TextDone)] == ["going on"]

    run(agent, work())
    (answer,) = agent.answered()
    assert answer["code"] == -32601
