"""Codex itself behind its adapter: what the suite for every agent does not ask of it."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from termal.config import AgentConfig, Config
from termal.wire.thread_operations import ThreadAction, ThreadCommand, ThreadDone
from termal.wire.turns import (
    ApprovalAsked,
    ElicitationAsked,
    FileChanged,
    McpServer,
    Notice,
    SessionSpec,
    ToolEnded,
    ToolOutput,
    ToolStarted,
    Usage,
)
from tests.agents.kit import Scene, require, shell
from tests.agents.scenario import gone, option, prompt, sent, written_pid
from tests.support.scripted_requests import Json
from workers.runtime.adapter import Adapter, AgentFailed, CommandRefused, HasThreads

pytestmark = [pytest.mark.agents, pytest.mark.timeout(120)]

MCP_SERVER = Path(__file__).resolve().parents[1] / "support" / "acp_mcp_server.py"
PATCH = "*** Begin Patch\n*** Add File: new.txt\n+one\n*** End Patch\n"
EDIT: Json = {"tool": "apply_patch", "freeform": True, "args": {"input": PATCH}}


@pytest.fixture(autouse=True)
def _required() -> None:
    require("Codex")


def drive(scene: Scene, scenario: Callable[[Adapter], Coroutine[Any, Any, None]], **changes: object) -> None:
    async def run() -> None:
        adapter = scene.agents().make("Codex")
        try:
            await adapter.start(scene.spec("Codex", **changes))
            await scenario(adapter)
        finally:
            await adapter.close()

    asyncio.run(run())


def modes(policy: str, sandbox: str) -> dict[str, str]:
    return {"approvalPolicy": policy, "sandboxMode": sandbox}


def run_in_sandbox(command: str) -> Json:
    return {"tool": "~exec_command", "args": {"cmd": command}}


def test_a_file_is_changed_inside_the_sandbox_and_its_diff_shown(scene: Scene) -> None:
    scene.model.play([{"match": "edit$", "turns": [[EDIT], [{"text": "done"}]]}])

    async def scenario(adapter: Adapter) -> None:
        turn = await prompt(adapter, "edit")
        assert (await turn.end()).outcome == "completed"
        assert (scene.work / "new.txt").read_text() == "one\n"
        (change,) = turn.of(FileChanged)
        assert (change.path, change.change) == ("new.txt", "create")
        assert "+one" in change.diff
        assert turn.of(Usage)[0].input_tokens > 0

    drive(scene, scenario)


@pytest.mark.parametrize("decision", ["accepted", "rejected"])
def test_a_change_that_the_sandbox_forbids_is_asked_about(scene: Scene, decision: str) -> None:
    scene.model.play([{"match": "edit$", "turns": [[EDIT], [{"text": "done"}]]}])

    async def scenario(adapter: Adapter) -> None:
        turn = await prompt(adapter, "edit")
        asked = await turn.question()
        assert "+one" in asked.detail
        await adapter.answer(asked.request, option(asked, decision))
        assert (await turn.end()).outcome == "completed"
        assert (scene.work / "new.txt").exists() is (decision == "accepted")

    drive(scene, scenario, modes=modes("on-request", "read-only"))


def test_a_read_only_session_writes_nothing_and_asks_nobody(scene: Scene) -> None:
    scene.model.play(
        [
            {"match": "edit$", "turns": [[EDIT], [{"text": "done"}]]},
            {"match": "touch$", "turns": [[run_in_sandbox("touch made.txt")], [{"text": "done"}]]},
            {"match": "leave$", "turns": [[shell("touch made.txt")], [{"text": "done"}]]},
        ]
    )

    async def scenario(adapter: Adapter) -> None:
        for text in ("edit", "touch", "leave"):
            turn = await prompt(adapter, text)
            assert (await turn.end()).outcome == "completed"
            # Codex does not always tell of a command that its sandbox ends at once.
            assert {event.status for event in turn.of(ToolEnded)} <= {"error"}, text
            assert not turn.of(ApprovalAsked)
        assert [file.name for file in scene.work.iterdir()] == [".git"]

    drive(scene, scenario, read_only=True)


def test_never_declines_what_leaves_the_sandbox_and_lets_our_own_server_work(scene: Scene) -> None:
    scene.model.play(
        [
            {"match": "leave$", "turns": [[shell("touch made.txt")], [{"text": "done"}]]},
            {"match": "ours$", "turns": [[_call("termal-delegation")], [{"text": "done"}]]},
            {"match": "other$", "turns": [[_call("other")], [{"text": "done"}]]},
        ]
    )

    async def scenario(adapter: Adapter) -> None:
        for text, status in (("leave", "error"), ("ours", "success"), ("other", "error")):
            turn = await prompt(adapter, text)
            assert (await turn.end()).outcome == "completed"
            told = [event.status for event in turn.of(ToolEnded)]
            # Codex does not always tell of a command that is refused before it begins.
            assert told == [status] or (text, told) == ("leave", []), text
            assert not turn.of(ApprovalAsked) + turn.of(ElicitationAsked)

    servers = [_server("termal-delegation"), _server("other")]
    drive(scene, scenario, modes=modes("never", "workspace-write"), mcp_servers=servers)


def test_a_tool_of_an_mcp_server_is_called_when_a_person_allows_it(scene: Scene) -> None:
    scene.model.play([{"match": "call$", "turns": [[_call("other")], [{"text": "done"}]]}])

    async def scenario(adapter: Adapter) -> None:
        turn = await prompt(adapter, "call")
        await turn.until(lambda: turn.of(ElicitationAsked), "a question")
        asked = turn.of(ElicitationAsked)[0]
        assert (asked.title, asked.detail) == ("Codex wants to use other.echo", 'other.echo {"text": "hello"}')
        await adapter.answer(asked.request, "accept")
        assert (await turn.end()).outcome == "completed"
        (ended,) = turn.of(ToolEnded)
        assert (ended.status, ended.output) == ("success", "hello")
        assert turn.of(ToolStarted)[0].command == 'other.echo {"text": "hello"}'

    drive(scene, scenario, mcp_servers=[_server("other")])


def test_output_comes_while_a_command_runs_and_an_interrupt_ends_it(scene: Scene) -> None:
    marker = scene.work / "pid"
    slow = f"echo $$ > {marker}; for i in 1 2 3; do echo line $i; sleep 0.3; done; exec sleep 600"
    scene.model.play(
        [
            {"match": "run$", "turns": [[run_in_sandbox(slow)]]},
            {"match": "next$", "turns": [[{"text": "goes on"}]]},
        ]
    )

    async def scenario(adapter: Adapter) -> None:
        turn = await prompt(adapter, "run")
        await turn.until(lambda: turn.of(ToolOutput), "output of the command")
        assert not turn.of(ToolEnded)
        await adapter.interrupt()
        assert (await turn.end()).outcome == "interrupted"
        (ended,) = turn.of(ToolEnded)
        assert "line 1" in (ended.output or "")
        after = await prompt(adapter, "next")
        assert (await after.end()).outcome == "completed"
        assert after.text() == "goes on"
        assert [process for process in psutil.process_iter(["cmdline"]) if marker.name in str(process.info)] == []

    drive(scene, scenario)


def test_an_escalated_command_is_ended_with_its_session(scene: Scene) -> None:
    marker = scene.work / "pid"
    scene.model.play([{"match": "run$", "turns": [[shell(f"echo $$ > {marker}; exec sleep 600")]]}])

    async def scenario(adapter: Adapter) -> None:
        turn = await prompt(adapter, "run")
        asked = await turn.question()
        await adapter.answer(asked.request, option(asked, "accepted"))
        command = psutil.Process(await written_pid(marker))
        await adapter.close()
        assert (await turn.end()).outcome == "interrupted"
        await gone(command)

    drive(scene, scenario)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"modes": modes("never", "danger-full-access")}, id="without-a-sandbox"),
        pytest.param({"delegated": True}, id="a-child-in-its-sandbox"),
    ],
)
def test_what_commands_left_running_ends_with_their_thread_and_no_other(scene: Scene, changes: Json) -> None:
    mark = scene.work / "left"
    loop = f"while sleep 0.05; do echo x >> {mark}; done"
    goes_on: Json = {"tool": "~exec_command", "args": {"cmd": loop, "yield_time_ms": 250}}
    left = f"setsid sh -c '{loop}' > /dev/null 2>&1 & until test -s {mark}; do sleep 0.05; done"
    scene.model.play(
        [
            {"match": "leave$", "turns": [[run_in_sandbox(left)], [goes_on], [{"text": "done"}]]},
            {"match": "beside$", "turns": [[{"text": "goes on"}]]},
        ]
    )

    def running() -> list[int]:
        rows = psutil.process_iter(["cmdline"])
        return [row.pid for row in rows if str(mark) in " ".join(row.info["cmdline"] or ())]

    async def scenario() -> None:
        agents = scene.agents()
        beside, adapter = agents.make("Codex"), agents.make("Codex")
        try:
            await beside.start(scene.spec("Codex"))
            await adapter.start(scene.spec("Codex", **changes))
            assert (await (await prompt(adapter, "leave")).end()).outcome == "completed"
            assert running()
            await adapter.close()
            assert running() == []
            assert (await (await prompt(beside, "beside")).end()).outcome == "completed"
        finally:
            await asyncio.gather(beside.close(), adapter.close())

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("part", "outcome", "notices"),
    [
        pytest.param({"error": {"status": 500}}, "failed", 2, id="500-for-ever"),
        pytest.param({"drop": True}, "completed", 0, id="stream-ends-early"),
    ],
)
def test_a_provider_that_fails_ends_the_turn_and_the_next_prompt_is_answered(
    scene: Scene, part: Json, outcome: str, notices: int
) -> None:
    first = [part] if "error" in part else [{"text": ["par", "tial"]}, part]
    scene.model.play([{"match": "and now$", "turns": [[{"text": "better"}]]}, {"match": "bad$", "turns": [first]}])

    async def scenario(adapter: Adapter) -> None:
        turn = await prompt(adapter, "bad")
        end = await turn.end()
        assert (end.outcome, len(turn.of(Notice)), bool(end.detail)) == (outcome, notices, outcome == "failed")
        after = await prompt(adapter, "and now")
        assert (await after.end()).outcome == "completed"
        assert after.text() == "better"

    drive(scene, scenario)


def test_another_model_answers_the_next_turn(scene: Scene) -> None:
    async def scenario(adapter: Adapter) -> None:
        assert (await (await prompt(adapter, "one")).end()).outcome == "completed"
        assert await adapter.apply(scene.spec("Codex", model="gpt-5.6", modes=modes("untrusted", "read-only")))
        assert (await (await prompt(adapter, "two")).end()).outcome == "completed"
        assert [entry["body"]["model"] for entry in scene.model.asked()] == ["gpt-5.5", "gpt-5.6"]

    drive(scene, scenario)


@pytest.mark.parametrize("subfolder", [False, True])
def test_a_repository_runs_nothing_and_is_not_trusted_by_a_session_that_may_write(
    scene: Scene, subfolder: bool
) -> None:
    mark = scene.home / "ran"
    (scene.work / ".codex").mkdir()
    evil = f'[mcp_servers.evil]\ncommand = "/bin/sh"\nargs = ["-c", "touch {mark}; sleep 3"]\n'
    (scene.work / ".codex" / "config.toml").write_text(evil)
    (scene.work / "AGENTS.md").write_text("Say BANANA.\n")
    workdir = scene.work / "inner" if subfolder else scene.work
    workdir.mkdir(exist_ok=True)
    scene.model.play([{"match": "touch$", "turns": [[run_in_sandbox("touch made.txt")], [{"text": "done"}]]}])

    async def scenario(adapter: Adapter) -> None:
        turn = await prompt(adapter, "touch")
        assert (await turn.end()).outcome == "completed"
        assert (workdir / "made.txt").exists()
        assert not mark.exists()
        assert "trust_level" not in (scene.codex_home / "config.toml").read_text()
        assert "BANANA" in sent(scene)

    drive(scene, scenario, workdir=str(workdir))


def test_a_folder_that_the_user_trusts_runs_its_own_servers(scene: Scene) -> None:
    mark = scene.home / "ran"
    (scene.work / ".codex").mkdir()
    server = f'[mcp_servers.own]\ncommand = "/bin/sh"\nargs = ["-c", "touch {mark}; sleep 1"]\n'
    (scene.work / ".codex" / "config.toml").write_text(server)

    async def run() -> None:
        agents = scene.agents()
        config = Config(agents={"Codex": AgentConfig(trusted=[str(scene.work)])})
        agents.place = msgspec.structs.replace(agents.place, config=config)
        adapter = agents.make("Codex")
        try:
            await adapter.start(scene.spec("Codex"))
            assert (await (await prompt(adapter, "hello")).end()).outcome == "completed"
            assert mark.exists()
            assert "trust_level" not in (scene.codex_home / "config.toml").read_text()
        finally:
            await adapter.close()

    asyncio.run(run())


# ------------------------------------------------------------------------------ threads


def test_threads_are_forked_put_away_shortened_and_taken_back(scene: Scene) -> None:
    scene.model.play(
        [
            {"match": "one$", "turns": [[{"text": "first"}]]},
            {"match": "two$", "turns": [[run_in_sandbox("echo hi")], [{"text": "zebra"}]]},
            {"match": "three$", "turns": [[{"text": "third"}]]},
        ]
    )

    async def run() -> None:
        agents = scene.agents()
        adapter, fork = agents.make("Codex"), agents.make("Codex")
        assert isinstance(adapter, HasThreads)
        try:
            thread = (await adapter.start(scene.spec("Codex"))).external_session_id
            spec = scene.spec("Codex", external_session_id=thread)
            for text in ("one", "two"):
                assert (await (await prompt(adapter, text)).end()).outcome == "completed"
            forked = await _order(adapter, spec, "fork")
            kinds = [(item.kind, item.text) for item in forked.items or []]
            whole = [
                ("prompt", "one"),
                ("text", "first"),
                ("prompt", "two"),
                ("command", "echo hi"),
                ("text", "zebra"),
            ]
            assert kinds == whole
            left = await _order(adapter, spec, "rollback")
            assert [item.text for item in left.items or []] == ["one", "first"]
            assert (await (await prompt(adapter, "three")).end()).outcome == "completed"
            assert "zebra" not in sent(scene)
            await fork.start(scene.spec("Codex", session_id="session-2", external_session_id=forked.thread_id))
            assert (await (await prompt(fork, "three")).end()).outcome == "completed"
            assert "zebra" in sent(scene)
            await _order(adapter, spec, "compact")
            assert (await (await prompt(adapter, "one")).end()).outcome == "completed"
            await _order(adapter, spec, "archive")
            with pytest.raises(AgentFailed, match="archived"):
                await agents.make("Codex").start(spec)
            await _order(adapter, spec, "unarchive")
            assert (await adapter.start(spec)).note == ""
            assert (await (await prompt(adapter, "one")).end()).outcome == "completed"
        finally:
            await asyncio.gather(adapter.close(), fork.close())

    asyncio.run(run())


def test_the_servers_of_a_thread_are_listed(scene: Scene) -> None:
    async def scenario(adapter: Adapter) -> None:
        assert (await (await prompt(adapter, "hello")).end()).outcome == "completed"
        assert isinstance(adapter, HasThreads)
        spec = scene.spec("Codex", mcp_servers=[_server("other")])
        done = await _order(adapter, spec, "servers")
        (server,) = msgspec.json.decode(done.servers)
        assert (server["name"], server["authStatus"]) == ("other", "unsupported")
        assert [tool["name"] for tool in server["tools"]] == ["broken", "echo", "make_item", "token"]
        unknown = scene.spec("Codex", external_session_id="5e1f0c3a-0000-4000-8000-000000000001")
        with pytest.raises(CommandRefused):
            await _order(adapter, unknown, "archive")

    drive(scene, scenario, mcp_servers=[_server("other")])


async def _order(adapter: HasThreads, spec: SessionSpec, action: ThreadAction) -> ThreadDone:
    return await adapter.thread(ThreadCommand(spec, action), lambda _: None)


def _server(name: str) -> McpServer:
    return McpServer(name, sys.executable, ["-P", str(MCP_SERVER)], {"TOKEN": "t"})


def _call(server: str) -> Json:
    # The model sees the name without hyphens, the client sees it as it was given.
    return {"tool": f"mcp__{server.replace('-', '_')}/echo", "args": {"text": "hello"}}
