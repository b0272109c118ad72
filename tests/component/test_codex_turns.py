"""The Codex adapter over a scripted app-server: what a turn says, and what is asked in it."""

import json
from typing import Any

import pytest

from termal.wire.turns import (
    AppRequestAsked,
    ApprovalAsked,
    ApprovalWithdrawn,
    ElicitationAsked,
    FileChanged,
    InteractionWithdrawn,
    McpServer,
    Notice,
    QuestionAsked,
    TextDelta,
    TextDone,
    ThinkingDelta,
    ToolEnded,
    ToolOutput,
    ToolStarted,
    TurnEnded,
    Usage,
)
from tests.support.codex_kit import CodexKit
from workers.runtime.adapter import AgentFailed

OWN = McpServer("termal-delegation", "/bin/true", ["delegation-mcp"], {"TERMAL_TOKEN": "secret"})


def test_text_thoughts_commands_and_changes_arrive_as_their_own_kinds(codex: CodexKit) -> None:
    async def scenario() -> None:
        adapter = await codex.started()
        turn = await codex.prompt(adapter, "think hm\nsay Hello there.\nrun ls\nplan\nusage\nusage")
        assert await turn.end() == TurnEnded("completed")
        assert [event.text for event in turn.of(ThinkingDelta)] == ["hm"]
        assert [event.text for event in turn.of(TextDelta)] == ["Hello", "there."]
        assert [event.text for event in turn.of(TextDone)] == ["Hello there."], "the whole text replaces the pieces"
        started, plan = turn.of(ToolStarted)
        assert (started.kind, started.command) == ("execute", "ls")
        assert [event.output for event in turn.of(ToolOutput)] == ["one\n", "two\n", "[x] look\n[ ] act"]
        assert turn.of(ToolEnded)[0] == ToolEnded(started.item, "success", "one\ntwo\n")
        assert turn.of(ToolEnded)[1].item == plan.item
        assert turn.of(Usage) == [Usage(6, 8)]

    codex.run(scenario)


@pytest.mark.parametrize(
    ("option", "status", "output"),
    [
        ("accept", "success", "accept\n"),
        ("acceptForSession", "success", "acceptForSession\n"),
        ("decline", "error", "Refused."),
    ],
)
def test_a_command_waits_for_a_decision(codex: CodexKit, option: str, status: str, output: str) -> None:
    async def scenario() -> None:
        adapter = await codex.started()
        turn = await codex.prompt(adapter, "ask rm -r build\nsay after")
        asked = await turn.question()
        assert asked.command == "rm -r build"
        assert "outside the sandbox" in asked.detail
        assert [known.decision for known in asked.options] == ["accepted", "acceptedForSession", "rejected"]
        with pytest.raises(AgentFailed):
            await adapter.answer(asked.request, "cancel")
        await adapter.answer(asked.request, option)
        assert (await turn.end()).outcome == "completed"
        assert [(event.status, event.output) for event in turn.of(ToolEnded)] == [(status, output)]
        assert not turn.of(ApprovalWithdrawn)
        with pytest.raises(AgentFailed):
            await adapter.answer(asked.request, option)

    codex.run(scenario)


def test_several_open_requests_are_answered_in_any_order(codex: CodexKit) -> None:
    async def scenario() -> None:
        adapter = await codex.started()
        turn = await codex.prompt(adapter, "ask-two touch")
        await turn.until(lambda: len(turn.of(ApprovalAsked)) == 2, "two questions")
        by_command = {asked.command: asked.request for asked in turn.of(ApprovalAsked)}
        await adapter.answer(by_command["touch 2"], "decline")
        await adapter.answer(by_command["touch 1"], "accept")
        assert (await turn.end()).outcome == "completed"
        names = {event.item: event.command for event in turn.of(ToolStarted)}
        assert {names[event.item]: event.status for event in turn.of(ToolEnded)} == {
            "touch 1": "success",
            "touch 2": "error",
        }

    codex.run(scenario)


def test_changed_files_are_asked_about_with_their_diffs_and_then_shown(codex: CodexKit) -> None:
    async def scenario() -> None:
        adapter = await codex.started()
        turn = await codex.prompt(adapter, "edit new.txt")
        asked = await turn.question()
        assert asked.command == "edit new.txt, /elsewhere"
        assert "+one\n+two" in asked.detail
        assert not turn.of(FileChanged)
        await adapter.answer(asked.request, "accept")
        assert (await turn.end()).outcome == "completed"
        created, edited = turn.of(FileChanged)
        assert (created.path, created.summary, created.change) == ("new.txt", "Created new.txt", "create")
        assert created.diff == "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n"
        assert (edited.path, edited.change) == ("/elsewhere", "edit")
        assert "-old\n+new" in edited.diff

    codex.run(scenario)


def test_questions_forms_and_requests_of_its_own_get_their_answers(codex: CodexKit) -> None:
    async def scenario() -> None:
        adapter = await codex.started()
        turn = await codex.prompt(adapter, "question which?\nform\nrequest item/permissions/requestApproval")
        await turn.until(lambda: turn.of(QuestionAsked), "a question")
        asked = turn.of(QuestionAsked)[0]
        assert (asked.title, asked.questions[0].is_other) == ("which?", False)
        assert [option.label for option in asked.questions[0].options] == ["red", "blue"]
        await adapter.answer_with(asked.request, "", b'{"q": ["red"]}')
        await turn.until(lambda: turn.of(ElicitationAsked), "a form")
        form = turn.of(ElicitationAsked)[0]
        assert form.title == "The MCP server forms asks"
        assert json.loads(form.asked_json)["requestedSchema"]["required"] == ["branch"]
        await adapter.answer_with(form.request, "accept", b'{"branch": "main"}')
        await turn.until(lambda: turn.of(AppRequestAsked), "a request")
        rights = turn.of(AppRequestAsked)[0]
        assert (rights.method, rights.detail) == ("item/permissions/requestApproval", "because")
        await adapter.answer_with(rights.request, "", b'{"permissions": {"network": true}, "scope": "turn"}')
        assert (await turn.end()).outcome == "completed"
        first, second, third = (json.loads(event.text) for event in turn.of(TextDone))
        assert first == {"answers": {"q": {"answers": ["red"]}}}
        assert second == {"action": "accept", "content": {"branch": "main"}}
        assert third["scope"] == "turn"

    codex.run(scenario)


def test_a_request_that_is_withdrawn_is_closed_and_takes_no_answer(codex: CodexKit) -> None:
    async def scenario() -> None:
        adapter = await codex.started()
        turn = await codex.prompt(adapter, "withdraw\nform")
        await turn.until(lambda: turn.of(ElicitationAsked), "a form")
        asked = turn.of(ApprovalAsked)[0]
        assert turn.of(ApprovalWithdrawn) == [ApprovalWithdrawn(asked.request)]
        with pytest.raises(AgentFailed):
            await adapter.answer(asked.request, "accept")
        form = turn.of(ElicitationAsked)[0]
        await adapter.interrupt()
        assert (await turn.end()).outcome == "interrupted"
        assert turn.of(InteractionWithdrawn) == [InteractionWithdrawn(form.request)]

    codex.run(scenario)


def test_what_belongs_to_no_turn_of_this_thread_is_not_shown(codex: CodexKit) -> None:
    async def scenario() -> None:
        adapter = await codex.started()
        turn = await codex.prompt(adapter, "foreign\nretry busy\nsay done")
        assert (await turn.end()).outcome == "completed"
        assert turn.text() == "done"
        assert [(event.command) for event in turn.of(ToolStarted)] == ["ls"], "an end of an unknown item makes its card"
        assert len(turn.of(ToolEnded)) == 1
        assert [event.text for event in turn.of(Notice)] == ["Codex tries again: busy (429 Too Many Requests)"]

    codex.run(scenario)


def test_a_failed_turn_says_why_and_the_next_prompt_is_answered(codex: CodexKit) -> None:
    async def scenario() -> None:
        adapter = await codex.started()
        turn = await codex.prompt(adapter, 'say before\nfail {"error": {"message": "no credit"}}')
        assert await turn.end() == TurnEnded("failed", "no credit")
        with pytest.raises(AgentFailed, match="no such prompt"):
            await codex.prompt(adapter, "refuse")
        after = await codex.prompt(adapter, "say again")
        assert (await after.end()).outcome == "completed"

    codex.run(scenario)


def test_a_server_that_does_not_come_up_is_told_of_once(codex: CodexKit) -> None:
    async def scenario() -> None:
        adapter = await codex.started(mcp_servers=[OWN, McpServer("broken", "/nowhere")])
        for notices in (["The MCP server broken did not come up: no such program."], []):
            turn = await codex.prompt(adapter, "say hello")
            assert (await turn.end()).outcome == "completed"
            assert [event.text for event in turn.of(Notice)] == notices

    codex.run(scenario)


# --------------------------------------------------------------- who answers by itself


def modes(policy: str, sandbox: str = "workspace-write") -> dict[str, str]:
    return {"approvalPolicy": policy, "sandboxMode": sandbox}


@pytest.mark.parametrize(
    ("changes", "script", "ends"),
    [
        pytest.param({"modes": modes("never")}, "ask ls", ["error"], id="never-declines-commands"),
        pytest.param({"modes": modes("never")}, "edit a.txt", ["error"], id="never-declines-edits"),
        pytest.param({"modes": modes("never")}, "mcp other tool", ["error"], id="never-declines-other-servers"),
        pytest.param({"modes": modes("never")}, "mcp termal-delegation x", ["success"], id="never-takes-ours"),
        pytest.param({"modes": modes("never", "danger-full-access")}, "ask ls", ["success"], id="full-access-takes"),
        pytest.param({"modes": modes("never", "danger-full-access")}, "mcp other x", ["success"], id="full-access-mcp"),
        pytest.param({"read_only": True}, "ask ls", ["error"], id="read-only-declines-commands"),
        pytest.param({"read_only": True}, "mcp other tool", ["error"], id="read-only-declines-other-servers"),
        pytest.param(
            {"read_only": True, "delegated": True, "submits_review": True},
            "mcp termal-delegation termal_submit_review_result",
            ["success"],
            id="a-running-review-is-submitted",
        ),
    ],
)
def test_a_session_that_asks_nobody_is_answered_by_its_settings(
    codex: CodexKit, changes: dict[str, Any], script: str, ends: list[str]
) -> None:
    async def scenario() -> None:
        adapter = await codex.started(mcp_servers=[OWN], **changes)
        turn = await codex.prompt(adapter, script)
        assert (await turn.end()).outcome == "completed"
        assert [event.status for event in turn.of(ToolEnded)] == ends
        assert not turn.of(ApprovalAsked)
        assert not turn.of(ElicitationAsked)
        told = [sent["params"] for sent in codex.requests("turn/start")][-1]
        assert told["approvalPolicy"] == "on-request", "`never` would refuse every tool of an MCP server"

    codex.run(scenario)


@pytest.mark.parametrize(
    ("changes", "script"),
    [
        pytest.param({"modes": modes("on-request")}, "mcp termal-delegation x", id="ours-in-a-session-that-asks"),
        pytest.param({"modes": modes("never")}, 'mcp termal-delegation x {"other":1}', id="other-arguments-claimed"),
        pytest.param({"read_only": True}, "mcp termal-delegation termal_submit_review_result", id="no-review-runs"),
        pytest.param({"read_only": True, "submits_review": True}, "mcp termal-delegation x", id="another-tool"),
        pytest.param({"modes": modes("on-request")}, "forge submit", id="forged"),
        pytest.param({"modes": modes("never")}, "form", id="a-form-is-a-persons"),
    ],
)
def test_what_cannot_be_proven_is_a_persons_to_answer(codex: CodexKit, changes: dict[str, Any], script: str) -> None:
    async def scenario() -> None:
        adapter = await codex.started(mcp_servers=[OWN], **changes)
        turn = await codex.prompt(adapter, script)
        await turn.until(lambda: turn.of(ElicitationAsked), "a question for a person")
        asked = turn.of(ElicitationAsked)[0]
        if script.startswith("forge"):
            assert asked.title == "Codex wants to use evil.submit", "the name is Codex's word, the text is not"
        await adapter.answer(asked.request, "decline")
        assert (await turn.end()).outcome == "completed"

    codex.run(scenario)


def test_a_forged_request_of_another_server_is_declined_where_nobody_is_asked(codex: CodexKit) -> None:
    async def scenario() -> None:
        adapter = await codex.started(mcp_servers=[OWN], modes=modes("never"))
        turn = await codex.prompt(adapter, "forge termal_submit_review_result")
        assert (await turn.end()).outcome == "completed"
        assert not turn.of(ElicitationAsked)
        assert '"decline"' in (turn.of(ToolEnded)[0].output or "")

    codex.run(scenario)
