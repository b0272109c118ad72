"""What only Claude Code does: its edits, modes, tools, models and costs, and what a repository may not do to it."""

import asyncio
import contextlib
import json
import sys
from typing import Any

import psutil
import pytest

from termal.wire.session_operations import PromptImage
from termal.wire.turns import (
    ApprovalAsked,
    FileChanged,
    McpServer,
    Notice,
    QuestionAsked,
    SessionSpec,
    ToolEnded,
    ToolStarted,
    Usage,
)
from tests.agents.kit import Scene, require, shell
from tests.agents.recorder import Recorder
from tests.agents.scenario import option, prompt, sent
from tests.support.scripted_requests import Json
from workers.runtime.adapter import Adapter, AgentFailed, TakesAnswers

pytestmark = [pytest.mark.agents, pytest.mark.timeout(120)]

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
    "0000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)
ECHO_SERVER = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    results = {
        "initialize": {"protocolVersion": (asked.get("params") or {}).get("protocolVersion", "2025-06-18"),
                       "capabilities": {"tools": {}}, "serverInfo": {"name": "echo", "version": "1"}},
        "tools/list": {"tools": [{"name": "echo", "description": "says it again", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "token " + os.environ["ECHO_TOKEN"][:3]}]},
    }
    answer = {"jsonrpc": "2.0", "id": asked["id"], "result": results.get(asked["method"], {})}
    sys.stdout.write(json.dumps(answer) + "\\n")
    sys.stdout.flush()
"""


@pytest.fixture(autouse=True)
def claude_is_here() -> None:
    require("Claude")


class Claude:
    """An adapter for the length of a ``with`` block."""

    def __init__(self, scene: Scene, spec: SessionSpec) -> None:
        self.adapter = scene.agents(TERMAL_LAUNCH="must not pass", UNKNOWN_NAME="must not pass").make("Claude")
        self.spec = spec

    async def __aenter__(self) -> Adapter:
        try:
            await self.adapter.start(self.spec)
        except AgentFailed:
            await self.adapter.close()
            raise
        return self.adapter

    async def __aexit__(self, *error: object) -> None:
        await self.adapter.close()


def with_mode(scene: Scene, mode: str) -> SessionSpec:
    return scene.spec("Claude", modes={"claudeApprovalMode": mode})


async def completed(adapter: Adapter, text: str) -> Recorder:
    turn = await prompt(adapter, text)
    end = await turn.end()
    assert end.outcome == "completed", end
    return turn


def write(scene: Scene, content: str) -> Json:
    return {"tool": "Write", "args": {"file_path": str(scene.work / "a.txt"), "content": content}}


def test_created_and_edited_files_are_shown_as_diffs(scene: Scene) -> None:
    edit: Json = {
        "tool": "Edit",
        "args": {"file_path": str(scene.work / "a.txt"), "old_string": "two", "new_string": "2"},
    }
    scene.model.play([{"match": "go$", "turns": [[write(scene, "one\ntwo\n")], [edit], [{"text": "done"}]]}])

    async def scenario() -> None:
        async with Claude(scene, with_mode(scene, "auto-approve")) as adapter:
            turn = await completed(adapter, "go")
            created, edited = turn.of(FileChanged)
            assert (created.change, created.summary) == ("create", "Created a.txt")
            assert created.diff == "--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n"
            assert (edited.change, edited.path) == ("edit", str(scene.work / "a.txt"))
            assert edited.diff == "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
            assert [card.kind for card in turn.of(ToolStarted)] == ["edit", "edit"]
            assert not turn.of(ApprovalAsked)

    asyncio.run(scenario())


def test_allowing_for_the_session_stops_further_questions(scene: Scene) -> None:
    scene.model.play(
        [
            {"match": "first$", "turns": [[write(scene, "1\n")], [{"text": "done"}]]},
            {"match": "second$", "turns": [[{"tool": "Edit", "args": _edit(scene, "1", "2")}], [{"text": "done"}]]},
        ]
    )

    async def scenario() -> None:
        async with Claude(scene, scene.spec("Claude")) as adapter:
            turn = await prompt(adapter, "first")
            asked = await turn.question()
            assert "+1" in asked.detail
            await adapter.answer(asked.request, option(asked, "acceptedForSession"))
            assert (await turn.end()).outcome == "completed"
            again = await completed(adapter, "second")
            assert not again.of(ApprovalAsked)
            assert (scene.work / "a.txt").read_text() == "2\n"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "changes",
    [{"modes": {"claudeApprovalMode": "read-only-auto-approve"}}, {"read_only": True}],
    ids=["approval mode", "read-only session"],
)
def test_a_read_only_conversation_reads_and_can_write_nothing(scene: Scene, changes: dict[str, Any]) -> None:
    (scene.work / "b.txt").write_text("the content")
    read: Json = {"tool": "Read", "args": {"file_path": str(scene.work / "b.txt")}}
    turns = [[read], [write(scene, "x")], [shell("touch a.txt")], [{"text": "done"}]]
    scene.model.play([{"match": "go$", "turns": turns}])

    async def scenario() -> None:
        async with Claude(scene, scene.spec("Claude", **changes)) as adapter:
            turn = await completed(adapter, "go")
            assert [card.status for card in turn.of(ToolEnded)] == ["success", "error", "error"]
            assert not turn.of(ApprovalAsked)
            assert not (scene.work / "a.txt").exists()
            offered = set(scene.model.asked()[-1]["tools"])
            assert {"Bash", "Glob", "Grep", "Read"} <= offered
            assert not {"Edit", "Write", "NotebookEdit", "Task"} & offered
            assert "the content" in sent(scene)

    asyncio.run(scenario())


def settings_that_allow_bash(scene: Scene) -> None:
    """The user's own rules, which outrank every question."""
    folder = scene.home / ".claude"
    folder.mkdir(exist_ok=True)
    (folder / "settings.json").write_text(json.dumps({"permissions": {"allow": ["Bash"]}}))


@pytest.mark.case("A98")
def test_a_read_only_child_runs_what_is_proven_to_read_whatever_the_user_allows(scene: Scene) -> None:
    settings_that_allow_bash(scene)
    faults = scene.work.parent / "faults"
    calls = [[shell("git status --short --branch")], [shell("git diff --output=x")], [shell("touch a.txt")]]
    scene.model.play(
        [
            {"match": "go$", "turns": [*calls, [{"text": "done"}]]},
            {"match": "again$", "turns": [[shell("git status")], [{"text": "done"}]]},
        ]
    )

    async def scenario(monkeypatch: pytest.MonkeyPatch) -> None:
        async with Claude(scene, scene.spec("Claude", read_only=True, delegated=True)) as adapter:
            turn = await completed(adapter, "go")
            assert [card.status for card in turn.of(ToolEnded)] == ["success", "error", "error"]
            assert not turn.of(ApprovalAsked)
            assert "No commits yet" in sent(scene)
            assert "Write" not in set(scene.model.asked()[-1]["tools"])
            faults.mkdir()
            (faults / "claude.guard").write_text("raise")
            monkeypatch.setattr("termal.faults._DIRECTORY", str(faults))
            broken = await completed(adapter, "again")
            assert [card.status for card in broken.of(ToolEnded)] == ["error"]
            assert not broken.of(ApprovalAsked)
        assert sorted(path.name for path in scene.work.iterdir()) == [".git"]

    with pytest.MonkeyPatch.context() as patched:
        asyncio.run(scenario(patched))


@pytest.mark.case("A107")
def test_a_delegated_child_asks_for_every_commit_in_every_mode(scene: Scene) -> None:
    settings_that_allow_bash(scene)
    commit = shell("git commit --allow-empty -m x")
    scene.model.play(
        [
            {"match": "first$", "turns": [[shell("touch free")], [commit], [{"text": "done"}]]},
            {"match": "second$", "turns": [[commit], [{"text": "done"}]]},
        ]
    )

    async def scenario() -> None:
        spec = scene.spec("Claude", delegated=True, modes={"claudeApprovalMode": "auto-approve"})
        async with Claude(scene, spec) as adapter:
            for words in ("first", "second"):
                turn = await prompt(adapter, words)
                asked = await turn.question()
                assert "git commit" in asked.command
                offered = {one.decision for one in asked.options}
                assert offered == {"accepted", "acceptedForSession", "rejected"}
                await adapter.answer(asked.request, option(asked, "acceptedForSession"))
                assert (await turn.end()).outcome == "completed"
            assert (scene.work / "free").exists()

    asyncio.run(scenario())


def test_a_delegated_child_writes_no_file_outside_of_its_worktree(scene: Scene) -> None:
    outside = scene.work.parent / "outside.txt"
    calls: list[Json] = [
        {"tool": "Write", "args": {"file_path": str(path), "content": "x"}}
        for path in (outside, scene.work / "inside.txt", scene.work / ".git" / "hook")
    ]
    scene.model.play([{"match": "go$", "turns": [*([one] for one in calls), [{"text": "done"}]]}])

    async def scenario() -> None:
        spec = scene.spec("Claude", delegated=True, modes={"claudeApprovalMode": "auto-approve"})
        async with Claude(scene, spec) as adapter:
            turn = await completed(adapter, "go")
            assert not turn.of(ApprovalAsked)
            assert (scene.work / "inside.txt").exists()
            assert not outside.exists()
            assert not (scene.work / ".git" / "hook").exists()

    asyncio.run(scenario())


def test_plan_mode_can_be_entered_and_left_without_a_new_process(scene: Scene) -> None:
    scene.model.play([{"match": "one$|two$", "turns": [[{"text": "ok"}]]}])

    async def scenario() -> None:
        async with Claude(scene, with_mode(scene, "plan")) as adapter:
            pid = adapter.pid
            await completed(adapter, "one")
            assert await adapter.apply(with_mode(scene, "ask"))
            await completed(adapter, "two")
            assert adapter.pid == pid
            assert not await adapter.apply(with_mode(scene, "read-only-auto-approve"))

    asyncio.run(scenario())


def test_a_changed_approval_mode_holds_from_the_next_call_of_the_same_turn(scene: Scene) -> None:
    scene.model.play(
        [{"match": "two$", "turns": [[shell("touch one")], [{"gate": "go"}, shell("touch two")], [{"text": "done"}]]}]
    )

    async def scenario() -> None:
        async with Claude(scene, scene.spec("Claude")) as adapter:
            turn = await prompt(adapter, "two")
            asked = await turn.question()
            await adapter.answer(asked.request, option(asked, "accepted"))
            await turn.until(lambda: turn.of(ToolEnded), "the first command")
            assert await adapter.apply(with_mode(scene, "auto-approve"))
            scene.model.gate("go").opened.set()
            assert (await turn.end()).outcome == "completed"
            assert len(turn.of(ApprovalAsked)) == 1
            assert (scene.work / "two").exists()

    asyncio.run(scenario())


def test_a_changed_model_is_used_by_the_running_process(scene: Scene) -> None:
    scene.model.play([{"match": "one$|two$", "turns": [[{"text": "ok"}]]}])

    async def scenario() -> None:
        async with Claude(scene, scene.spec("Claude")) as adapter:
            await completed(adapter, "one")
            assert await adapter.apply(scene.spec("Claude", model="haiku"))
            await completed(adapter, "two")
            first, *_, last = [entry["model"] for entry in scene.model.asked() if entry["tools"]]
            assert "sonnet" in first
            assert "haiku" in last

    asyncio.run(scenario())


def test_each_turn_reports_its_own_tokens_and_cost(scene: Scene) -> None:
    scene.model.play([{"match": "one$|two$", "turns": [[{"text": "ok"}]]}])

    async def scenario() -> None:
        async with Claude(scene, scene.spec("Claude")) as adapter:
            first = (await completed(adapter, "one")).of(Usage)
            second = (await completed(adapter, "two")).of(Usage)
            assert [(usage.input_tokens, usage.output_tokens) for usage in first + second] == [(7, 7), (7, 7)]
            assert first[0].cost_usd is not None
            assert second[0].cost_usd == pytest.approx(first[0].cost_usd)

    asyncio.run(scenario())


def test_a_required_review_whose_tools_do_not_start_ends_at_once(scene: Scene) -> None:
    scene.model.play([{"match": "review$", "turns": [[{"text": "never heard"}, {"gate": "never"}]]}])
    server = McpServer("termal-delegation", sys.executable, ["-c", "raise SystemExit(1)"])
    spec = scene.spec("Claude", mcp_servers=[server], delegated=True, submits_review=True)

    async def scenario() -> None:
        async with Claude(scene, spec) as adapter:
            end = await (await prompt(adapter, "review")).end()
            assert end.outcome == "failed"
            assert "cannot be submitted" in end.detail

    asyncio.run(scenario())


def test_a_provider_that_always_fails_ends_the_turn_with_its_words_once(scene: Scene) -> None:
    scene.model.play(
        [
            {"match": "and now$", "turns": [[{"text": "better"}]]},
            {"match": "broken$", "turns": [[{"error": {"status": 500, "message": "scripted outage"}}]]},
        ]
    )

    async def scenario() -> None:
        async with Claude(scene, scene.spec("Claude")) as adapter:
            turn = await prompt(adapter, "broken")
            end = await turn.end()
            assert end.outcome == "failed"
            assert "scripted outage" in end.detail
            assert turn.text() == ""
            assert len(turn.of(Notice)) == 2
            assert (await completed(adapter, "and now")).text() == "better"

    asyncio.run(scenario())


def test_an_answer_that_breaks_off_is_begun_again_in_a_text_of_its_own(scene: Scene) -> None:
    broken = [{"text": "half"}, {"gate": "break"}, {"stream_error": {"type": "overloaded_error"}}]
    scene.model.play([{"match": "break$", "turns": [broken]}])

    async def scenario() -> None:
        async with Claude(scene, scene.spec("Claude")) as adapter:
            turn = await prompt(adapter, "break")
            await turn.until(lambda: "half" in turn.text(), "the broken text")
            scene.model.play([{"match": "", "turns": [[{"text": "whole"}]]}])
            scene.model.gate("break").opened.set()
            assert (await turn.end()).outcome == "completed"
            assert turn.text().splitlines()[-1] == "whole"

    asyncio.run(scenario())


def test_an_image_reaches_the_model(scene: Scene) -> None:
    scene.model.play([{"match": "look$", "turns": [[{"text": "a dot"}]]}])

    async def scenario() -> None:
        async with Claude(scene, scene.spec("Claude")) as adapter:
            turn = Recorder()
            await adapter.prompt("look", [PromptImage(PIXEL, "image/png")], turn)
            assert (await turn.end()).outcome == "completed"
            assert '"media_type":"image/png"' in sent(scene)

    asyncio.run(scenario())


def test_a_question_is_answered_by_a_person(scene: Scene) -> None:
    question = {"question": "Which?", "header": "Pick", "multiSelect": False, "options": _options()}
    ask: Json = {"tool": "AskUserQuestion", "args": {"questions": [question]}}
    scene.model.play([{"match": "ask$", "turns": [[ask], [{"text": "then I choose"}]]}])

    async def scenario() -> None:
        async with Claude(scene, with_mode(scene, "auto-approve")) as adapter:
            turn = await prompt(adapter, "ask")
            await turn.until(lambda: turn.of(QuestionAsked), "a question")
            (asked,) = turn.of(QuestionAsked)
            (shown,) = asked.questions
            assert (shown.header, shown.question) == ("Pick", "Which?")
            label = shown.options[-1].label
            assert isinstance(adapter, TakesAnswers)
            await adapter.answer_with(asked.request, "", json.dumps({shown.id: [label]}).encode())
            assert (await turn.end()).outcome == "completed"
            assert not turn.of(ApprovalAsked)
            assert f'\\"Which?\\"=\\"{label}\\"' in sent(scene), sent(scene)[-2000:]

    asyncio.run(scenario())


def test_an_own_mcp_server_gets_its_token_and_no_command_line_shows_it(scene: Scene) -> None:
    script = scene.home / "echo.py"
    script.write_text(ECHO_SERVER)
    server = McpServer("termal-delegation", sys.executable, ["-I", str(script)], {"ECHO_TOKEN": "abc-secret-token"})
    call: Json = {"tool": "mcp__termal-delegation__echo", "args": {}}
    scene.model.play([{"match": "call$", "turns": [[call], [{"text": "done"}]]}])
    spec = scene.spec("Claude", mcp_servers=[server], modes={"claudeApprovalMode": "read-only-auto-approve"})

    async def scenario() -> None:
        async with Claude(scene, spec) as adapter:
            turn = await prompt(adapter, "call")
            asked = await turn.question()
            lines = _command_lines(adapter)
            assert any("mcp-config" in line for line in lines)
            assert not any("abc-secret" in line for line in lines)
            await adapter.answer(asked.request, option(asked, "accepted"))
            assert (await turn.end()).outcome == "completed"
            assert "token abc" in sent(scene)
            assert not list(scene.home.glob("claude-*"))

    asyncio.run(scenario())


def test_only_allowed_variables_reach_the_agent_and_its_commands(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERMAL_LAUNCH", "must not pass")
    scene.model.play([{"match": "go$", "turns": [[shell("env > env.txt")], [{"text": "done"}]]}])

    async def scenario() -> None:
        async with Claude(scene, with_mode(scene, "auto-approve")) as adapter:
            await completed(adapter, "go")
            names = {line.split("=")[0] for line in (scene.work / "env.txt").read_text().splitlines()}
            assert {"HOME", "TERMAL_RUNTIME"} <= names
            assert not {"TERMAL_LAUNCH", "UNKNOWN_NAME", "PYTEST_CURRENT_TEST"} & names

    asyncio.run(scenario())


@pytest.mark.case("A101")
@pytest.mark.parametrize("delegated", [False, True], ids=["root", "delegated"])
def test_a_repository_can_run_nothing_at_the_start(scene: Scene, delegated: bool) -> None:
    hook = {"matcher": "", "hooks": [{"type": "command", "command": f"touch {scene.home}/hooked"}]}
    settings = scene.work / ".claude"
    settings.mkdir()
    (settings / "settings.json").write_text(json.dumps({"hooks": {"SessionStart": [hook], "UserPromptSubmit": [hook]}}))
    server = {"command": "touch", "args": [f"{scene.home}/served"]}
    (scene.work / ".mcp.json").write_text(json.dumps({"mcpServers": {"evil": server}}))
    scene.model.play([{"match": "hi$", "turns": [[{"text": "hello"}]]}])

    async def scenario() -> None:
        async with Claude(scene, scene.spec("Claude", delegated=delegated, read_only=delegated)) as adapter:
            await completed(adapter, "hi")
        assert not (scene.home / "hooked").exists()
        assert not (scene.home / "served").exists()

    asyncio.run(scenario())


def test_a_missing_folder_is_said_and_leaves_nothing(scene: Scene) -> None:
    async def scenario() -> None:
        with pytest.raises(AgentFailed, match="nowhere"):
            async with Claude(scene, scene.spec("Claude", workdir=str(scene.home / "nowhere"))):
                pass
        assert not list(scene.home.glob("claude-*"))

    asyncio.run(scenario())


def _edit(scene: Scene, old: str, new: str) -> Json:
    return {"file_path": str(scene.work / "a.txt"), "old_string": old, "new_string": new}


def _options() -> list[Json]:
    return [{"label": label, "description": label} for label in ("this", "that")]


def _command_lines(adapter: Adapter) -> list[str]:
    assert adapter.pid is not None
    shim = psutil.Process(adapter.pid)
    lines = []
    for process in (shim, *shim.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):  # a zombie has no command line any more
            lines.append(" ".join(process.cmdline()))
    return lines
