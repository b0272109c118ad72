"""The one app-server that all Codex sessions share: start, end, faults, and that no thread disturbs another."""

import asyncio
import contextlib
import signal
from typing import Any

import psutil
import pytest

from termal.wire.launch import MARK_VARIABLE
from termal.wire.turns import McpServer, TextDelta, TextDone, ToolEnded, ToolOutput, TurnEnded
from tests.support.codex_kit import CodexKit
from tests.support.waiting import wait_until
from workers.runtime import codex as codex_module
from workers.runtime import codex_server
from workers.runtime.adapter import AgentFailed
from workers.runtime.codex import FRESH_NOTE, CodexAdapter

MANY = 20


def tree(adapter: CodexAdapter) -> list[psutil.Process]:
    """The shim and all below it."""
    assert adapter.pid is not None
    shim = psutil.Process(adapter.pid)
    return [shim, *shim.children(recursive=True)]


def app_server(adapter: CodexAdapter) -> psutil.Process:
    return next(process for process in tree(adapter) if "codex_server.py" in " ".join(process.cmdline()[:3]))


async def gone(processes: list[psutil.Process]) -> None:
    def all_gone() -> bool:
        return not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes)

    await asyncio.to_thread(wait_until, all_gone, "the processes to be gone")


@pytest.mark.parametrize("portable", [False, True], ids=["linux", "portable"])
def test_twenty_sessions_share_one_process_and_their_turns_do_not_mix(codex: CodexKit, portable: bool) -> None:
    codex.portable = portable

    async def one(number: int) -> None:
        adapter = await codex.started(session_id=f"session-{number}")
        words = [f"s{number}w{index}" for index in range(30)]
        turn = await codex.prompt(adapter, "\n".join(f"say {word}" for word in words))
        assert await turn.end() == TurnEnded("completed")
        assert [event.text for event in turn.of(TextDone)] == words
        assert [event.text for event in turn.of(TextDelta)] == words

    async def scenario() -> None:
        await asyncio.gather(*(one(number) for number in range(MANY)))
        assert len({adapter.pid for adapter in codex.adapters}) == 1
        assert len(codex.requests("initialize")) == 1
        processes = tree(codex.adapters[0])
        await asyncio.gather(*(adapter.close() for adapter in codex.adapters))
        await gone(processes)

    codex.run(scenario)


def test_an_open_approval_holds_up_no_other_thread(codex: CodexKit) -> None:
    async def scenario() -> None:
        asking, talking = await codex.started(), await codex.started(session_id="session-2")
        waits = await codex.prompt(asking, "ask ls")
        asked = await waits.question()
        for _ in range(3):
            turn = await codex.prompt(talking, "say hello")
            assert (await turn.end()).outcome == "completed"
        await asking.answer(asked.request, "accept")
        assert (await waits.end()).outcome == "completed"

    codex.run(scenario)


def test_an_interrupt_ends_the_turn_after_its_commands_were_ended(codex: CodexKit) -> None:
    async def scenario() -> None:
        adapter = await codex.started()
        turn = await codex.prompt(adapter, "say first\nhold\nsay never")
        await turn.until(lambda: turn.of(ToolOutput), "output of the command")
        await adapter.interrupt()
        assert await turn.end() == TurnEnded("interrupted")
        assert [(event.status, event.output) for event in turn.of(ToolEnded)] == [("error", "begun\ncut off\n")]
        after = await codex.prompt(adapter, "say second")
        assert (await after.end()).outcome == "completed"
        assert after.text() == "second"

    codex.run(scenario)


def test_a_thread_that_does_not_stop_is_given_up_and_the_others_go_on(
    codex: CodexKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codex_module, "END_S", 0.3)

    async def scenario() -> None:
        deaf, other = await codex.started(), await codex.started(session_id="session-2")
        turn = await codex.prompt(deaf, "deaf")
        await turn.until(lambda: turn.text() == "deaf", "the turn to be under way")
        with pytest.raises(AgentFailed) as failure:
            await deaf.interrupt()
        assert failure.value.conversation_lost
        assert (await turn.end()).outcome == "interrupted"
        assert not deaf.alive
        after = await codex.prompt(other, "say still here")
        assert (await after.end()).outcome == "completed"

    codex.run(scenario)


def test_a_process_that_hangs_is_ended_by_a_stop_and_replaced(codex: CodexKit, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("END_S", "ALIVE_S"):
        monkeypatch.setattr(codex_module, name, 0.3)

    async def scenario() -> None:
        adapter, other = await codex.started(), await codex.started(session_id="session-2")
        held = await codex.prompt(other, "hold")
        turn = await codex.prompt(adapter, "say before\nfreeze")
        await turn.until(lambda: turn.of(TextDone), "the text before")
        processes, frozen = tree(adapter), app_server(adapter)
        is_frozen = lambda: frozen.status() == psutil.STATUS_STOPPED  # noqa: E731
        await asyncio.to_thread(wait_until, is_frozen, "the app-server to hang")
        await adapter.interrupt()
        assert (await turn.end()).outcome == "interrupted"
        assert (await held.end()).outcome == "lost"
        await gone(processes)
        again = await codex.started(external_session_id=None)
        assert (await (await codex.prompt(again, "say hello")).end()).outcome == "completed"

    codex.run(scenario)


def test_a_killed_app_server_loses_all_turns_and_each_session_resumes_its_thread(codex: CodexKit) -> None:
    async def scenario() -> None:
        adapters = [await codex.started(session_id=f"session-{number}") for number in range(3)]
        for adapter in adapters:
            assert (await (await codex.prompt(adapter, "say remembered")).end()).outcome == "completed"
        turns = [await codex.prompt(adapter, "hold") for adapter in adapters]
        threads = [sent["params"]["threadId"] for sent in codex.requests("turn/start")[:3]]
        app_server(adapters[0]).kill()
        for turn in turns:
            end = await turn.end()
            assert (end.outcome, end.detail) == ("lost", "the Codex process ended before the turn did")
        assert not any(adapter.alive for adapter in adapters)
        for number, adapter in enumerate(adapters):
            await adapter.close()
            successor = codex.make()
            started = await successor.start(codex.spec(external_session_id=threads[number]))
            assert (started.external_session_id, started.note) == (threads[number], "")
            assert (await (await codex.prompt(successor, "say again")).end()).outcome == "completed"
        assert len(codex.requests("initialize")) == 2

    codex.run(scenario)


@pytest.mark.parametrize("unknown", ["5e1f0c3a-0000-4000-8000-000000000001"])
def test_an_unknown_thread_is_replaced_once_by_a_fresh_one_and_a_note(codex: CodexKit, unknown: str) -> None:
    async def scenario() -> None:
        adapter = codex.make()
        started = await adapter.start(codex.spec(external_session_id=unknown))
        assert started.external_session_id not in (None, unknown)
        assert started.note == FRESH_NOTE
        assert len(codex.requests("thread/start")) == 1
        assert (await (await codex.prompt(adapter, "say hello")).end()).outcome == "completed"

    codex.run(scenario)


@pytest.mark.parametrize(
    ("vice", "text"),
    [
        ("mute", "Codex did not come up: no answer to initialize within 0.3 s"),
        ("leaves", "the Codex process ended right after its start: no such key [path]"),
    ],
)
def test_an_app_server_that_does_not_come_up_fails_with_a_sentence(
    codex: CodexKit, monkeypatch: pytest.MonkeyPatch, vice: str, text: str
) -> None:
    monkeypatch.setattr(codex_server, "INITIALIZE_S", 0.3 if vice == "mute" else 10.0)
    codex.vice = vice

    async def scenario() -> None:
        for _ in range(2):
            with pytest.raises(AgentFailed) as failure:
                await codex.started()
            assert failure.value.text == text
        assert psutil.Process().children() == []
        codex.vice = ""
        monkeypatch.setattr(codex_server, "INITIALIZE_S", 10.0)
        assert (await codex.started()).alive, "the next start is a new one"

    codex.run(scenario)


@pytest.mark.parametrize(
    ("script", "outcome", "has"),
    [
        ("endless", "lost", "a line of more than 64 MiB"),
        ("leave 3", "lost", "cannot read [path]"),
        ("garbage\nsay heard", "completed", ""),
        ("flood 1000", "completed", ""),
    ],
)
def test_whatever_it_writes_the_turn_ends_once(codex: CodexKit, script: str, outcome: str, has: str) -> None:
    async def scenario() -> None:
        adapter, other = await codex.started(), await codex.started(session_id="session-2")
        turn = await codex.prompt(adapter, script)
        end = await turn.end()
        assert has in end.detail
        assert end.outcome == outcome
        if outcome != "completed":
            assert not other.alive
        again = await codex.started(session_id="session-3")
        assert (await (await codex.prompt(again, "say hello")).end()).outcome == "completed"

    codex.run(scenario)


def test_one_that_ignores_every_request_to_end_is_killed(codex: CodexKit) -> None:
    codex.vice = "rude"

    async def scenario() -> None:
        adapter = await codex.started()
        processes = tree(adapter)
        await adapter.close()
        await gone(processes)

    codex.run(scenario)


def test_a_flooded_session_slows_the_process_down_until_it_has_room(codex: CodexKit) -> None:
    async def scenario() -> None:
        adapter = await codex.started()
        turn = await codex.prompt(adapter, "wait go\nsay hello")
        adapter.hold_back(True)
        (codex.home / "go").touch()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await turn.end()
        adapter.hold_back(False)
        assert (await turn.end()).outcome == "completed"

    codex.run(scenario)


def test_settings_go_with_the_turn_and_what_the_thread_began_with_needs_a_new_attachment(codex: CodexKit) -> None:
    async def scenario() -> None:
        adapter = await codex.started()
        assert (await (await codex.prompt(adapter, "say hello")).end()).outcome == "completed"
        modes = {
            "sandboxMode": "danger-full-access",
            "approvalPolicy": "untrusted",
            "reasoningEffort": "low",
            "codexFastMode": "true",
        }
        assert await adapter.apply(codex.spec(modes=modes))
        assert (await (await codex.prompt(adapter, "say hello")).end()).outcome == "completed"
        assert await adapter.apply(codex.spec(model="gpt-small"))
        assert (await (await codex.prompt(adapter, "say hello")).end()).outcome == "completed"
        first, second, third = (sent["params"] for sent in codex.requests("turn/start"))
        assert first["sandboxPolicy"] == {
            "type": "workspaceWrite",
            "writableRoots": ["/opt/more"],
            "networkAccess": True,
            "excludeTmpdirEnvVar": False,
            "excludeSlashTmp": False,
        }, "what the user has configured for this sandbox stays"
        assert (second["sandboxPolicy"], second["approvalPolicy"]) == ({"type": "dangerFullAccess"}, "untrusted")
        assert (second["effort"], second["serviceTierForTurn"]) == ("low", "priority")
        assert third["model"] == "gpt-small"
        others: list[dict[str, Any]] = [
            {"workdir": str(codex.home)},
            {"read_only": True},
            {"mcp_servers": [McpServer("other", "/bin/true")]},
            {"external_session_id": "another"},
        ]
        for changes in others:
            assert not await adapter.apply(codex.spec(**changes))

    codex.run(scenario)


def test_a_thread_begins_without_the_right_to_write_and_secrets_travel_in_the_pipe_alone(codex: CodexKit) -> None:
    (codex.work / ".git").mkdir()
    (codex.work / "AGENTS.md").write_text("Be brief.\n")

    async def scenario() -> None:
        server = McpServer("termal-delegation", "/bin/true", ["delegation-mcp"], {"TERMAL_TOKEN": "t0p-secret"})
        adapter = await codex.started(mcp_servers=[server])
        read_only = await codex.started(session_id="session-2", read_only=True)
        assert read_only.alive
        first, second = (sent["params"] for sent in codex.requests("thread/start"))
        assert first["sandbox"] == "read-only", "more would make Codex trust the folder and run what it configures"
        assert first["config"]["mcp_servers"]["termal-delegation"]["env"]["TERMAL_TOKEN"] == "t0p-secret"
        assert "projects" not in first["config"]
        assert second["developerInstructions"].endswith("Be brief."), "advice is text, and is given"
        assert "developerInstructions" not in first
        assert second["config"]["projects"] == {str(codex.work): {"trust_level": "untrusted"}}
        for process in tree(adapter):
            assert "t0p-secret" not in " ".join(process.cmdline())
            assert "t0p-secret" not in process.environ().values()
            assert process.environ()["TERMAL_RUNTIME"] == "codex-test"

    codex.run(scenario)


def test_a_closed_session_leaves_nothing_of_its_thread_and_the_others_alone(codex: CodexKit) -> None:
    async def scenario() -> None:
        closing, other = await codex.started(), await codex.started(session_id="session-2")
        turn = await codex.prompt(closing, "hold")
        await turn.until(lambda: turn.of(ToolOutput), "output of the command")
        goes_on = await codex.prompt(other, "wait go\nsay done")
        await closing.close()
        assert (await turn.end()).outcome == "interrupted"
        (codex.home / "go").touch()
        assert (await goes_on.end()).outcome == "completed"
        thread = codex.requests("turn/start")[0]["params"]["threadId"]
        methods = ["turn/interrupt", "thread/backgroundTerminals/clean", "thread/archive", "thread/unarchive"]
        assert [[sent["params"]["threadId"] for sent in codex.requests(method)] for method in methods] == [[thread]] * 4

    codex.run(scenario)


def test_models_come_with_what_each_of_them_takes(codex: CodexKit) -> None:
    async def scenario() -> None:
        started = await codex.make().start(codex.spec())
        assert [value for value, _, _ in started.models] == ["gpt-5.4", "gpt-small"], "hidden ones are left out"
        detail = started.details["gpt-5.4"]
        assert (detail.default_effort, detail.efforts) == ("medium", ["low", "medium"])
        assert detail.tiers == [("priority", "Fast", "twice the price")]
        assert (started.current_model, started.version) == ("gpt-5.4", "0.0.1")

    codex.run(scenario)


@pytest.mark.parametrize("portable", [False, True], ids=["linux", "portable"])
@pytest.mark.parametrize(
    ("delegated", "mark", "ends"),
    [
        (False, "codex-test", True),
        (False, "another-daemon", False),
        (False, None, False),
        (True, "codex-test", True),
        (True, None, True),
    ],
    ids=["ours", "another-daemons", "a-persons", "a-delegations", "a-delegations-without-mark"],
)
@pytest.mark.parametrize("variable", ["CODEX_THREAD_ID", "CODEX_SESSION_ID"])
def test_a_close_ends_what_was_left_of_a_thread_and_nothing_of_a_persons_terminal(
    codex: CodexKit, *, portable: bool, delegated: bool, mark: str | None, ends: bool, variable: str
) -> None:
    codex.portable = portable

    async def scenario() -> None:
        await codex.started(session_id="session-2")
        closing = await codex.started(delegated=delegated)
        assert closing._attachment is not None
        environment = {variable: closing._attachment.thread_id, **({MARK_VARIABLE: mark} if mark else {})}
        left = await asyncio.create_subprocess_exec("/bin/sleep", "60", env=environment, start_new_session=True)
        try:
            await closing.close()
        finally:
            with contextlib.suppress(ProcessLookupError):
                left.terminate()
            # It was killed before, or is there to take this.
            assert await left.wait() == (-signal.SIGKILL if ends else -signal.SIGTERM)

    codex.run(scenario)
