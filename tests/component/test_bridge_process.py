"""The bridge as a process: what is on its pipes, how it ends, and that the official client understands it."""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters, stdio_client

from termal import __version__
from termal.procs.tree import find_marked
from tests.support.bridge_kit import OWN, about, record, result, session, state
from tests.support.bridge_process import COMMAND, INITIALIZE, BridgeProcess
from tests.support.scripted_api import Reply, ScriptedApi, failure
from tests.support.waiting import wait_until

LOOK = f"GET {OWN}/delegations/delegation-1"


@pytest.fixture
def api() -> Iterator[ScriptedApi]:
    with ScriptedApi() as api:
        api.on("GET /api/state", state())
        api.on(f"GET {OWN}/mailboxes", Reply(200, []))
        yield api


@pytest.mark.case("B01")
@pytest.mark.parametrize("arguments", [[], ["--parent-session-id", "a/b"], ["--parent-session-id", "a%2f"], ["-h"]])
def test_a_wrong_command_line_ends_it_before_it_reads_anything(arguments: list[str]) -> None:
    ended = subprocess.run(
        [*COMMAND, *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False
    )
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert b"--parent-session-id" in ended.stderr


@pytest.mark.case("B02", "B03", "B04", "B05", "B06")
def test_the_lines_of_one_connection(api: ScriptedApi) -> None:
    with BridgeProcess(api.url + "/") as bridge:
        greeting = bridge.greet()
        assert greeting["protocolVersion"] == "2024-11-05"
        assert "tools" in greeting["capabilities"]
        assert greeting["serverInfo"] == {"name": "termal-delegation", "version": __version__}

        bridge.send(b"this is no JSON")
        assert bridge.read() == {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}}
        bridge.send(b"")
        bridge.send(b"   ")
        bridge.send(b'\xef\xbb\xbf{"jsonrpc":"2.0","id":"bom","method":"ping"}')
        assert bridge.read() == {"jsonrpc": "2.0", "id": "bom", "result": {}}

        bridge.send(b'{"jsonrpc":"2.0","id":7}')
        assert bridge.read()["error"]["code"] == -32600
        bridge.send(b'{"jsonrpc":"2.0","id":8,"method":5}')
        assert bridge.read()["error"]["code"] == -32600
        unknown = bridge.ask("no/such")["error"]
        assert (unknown["code"], "no/such" in json.dumps(unknown)) == (-32601, True)

        bridge.send(b'[{"jsonrpc":"2.0","id":"b","method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"}]')
        assert bridge.read() == [{"jsonrpc": "2.0", "id": "b", "result": {}}]
        bridge.send(b'[{"jsonrpc":"2.0","method":"notifications/x"}]')
        bridge.send(b'[{"id":1},{"jsonrpc":"2.0","id":"c","method":"ping"}]')
        first, second = bridge.read()
        assert (first["error"]["code"], second) == (-32600, {"jsonrpc": "2.0", "id": "c", "result": {}})

        assert len(bridge.ask("tools/list")["result"]["tools"]) == 17
        failed = bridge.ask("tools/call", {"name": "no_such_tool"})
        assert failed["result"]["isError"] is True
        assert "error" not in failed
        assert api.asked[0].path == "/api/state"
        assert bridge.close() == 0


def test_it_starts_without_what_only_a_later_call_or_a_newer_agent_needs() -> None:
    """A start takes what it imports: whoever adds to this list has measured it."""
    script = (
        "import sys\n"
        "from termal.bridge import lean\n"
        "lean.import_sdk()\n"
        "import termal.bridge.process\n"
        "heavy = ['httpx', 'httpx2', 'starlette', 'uvicorn', 'mcp.client', 'mcp.server.lowlevel', 'rich', 'email']\n"
        "print([name for name in heavy if name in sys.modules])\n"
        "print(type(sys.modules['mcp_types._v2026_07_28']).__module__)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=20, check=True)
    assert ran.stdout.splitlines() == ["[]", "termal.bridge.lean"]


@pytest.mark.case("B63")
def test_it_runs_with_the_mark_as_its_only_variable_and_is_found_by_it(api: ScriptedApi) -> None:
    mark = "bridge-test-mark"
    created = {
        "revision": 1,
        "delegation": record(),
        "childSession": session("child-of-delegation-1"),
        "serverInstanceId": "life-1",
    }
    api.on(f"POST {OWN}/delegations", Reply(201, created))
    with BridgeProcess(api.url, environment={"TERMAL_RUNTIME": mark}) as bridge:
        bridge.greet()
        assert bridge.call("termal_spawn_session", {"prompt": "x"})["isError"] is False
        assert bridge.pid in [process.pid for process in find_marked(mark)]


def test_calls_run_side_by_side_and_a_cancelled_one_stops_waiting(api: ScriptedApi) -> None:
    api.on(LOOK, about(record()))
    with BridgeProcess(api.url) as bridge:
        bridge.greet()
        wait = bridge.request(
            "tools/call",
            {
                "name": "termal_wait_delegations",
                "arguments": {"delegationIds": ["delegation-1"], "pollIntervalMs": 500},
                "_meta": {"progressToken": "p"},
            },
        )
        wait_until(lambda: api.count(LOOK) >= 1, "the first look")
        assert bridge.call("termal_list_mailboxes")["structuredContent"] == {"mailboxes": []}
        progress = [each["params"] for each in bridge.notifications if each["method"] == "notifications/progress"]
        assert progress[0]["progressToken"] == "p"
        assert (progress[0]["progress"], progress[0]["total"]) == (0, 1)
        bridge.notify("notifications/cancelled", {"requestId": wait})
        # What it asks next is answered: it neither waits any more nor is it gone.
        assert bridge.ask("ping")["result"] == {}
        assert bridge.close() == 0


def test_the_list_grows_by_itself_once_the_daemon_is_back(api: ScriptedApi) -> None:
    api.on("GET /api/state", failure(503, "no_mutation_attempted"), Reply(200, state()))
    with BridgeProcess(api.url) as bridge:
        bridge.greet()
        assert len(bridge.ask("tools/list")["result"]["tools"]) == 8
        assert bridge.read()["method"] == "notifications/tools/list_changed"
        assert len(bridge.ask("tools/list")["result"]["tools"]) == 17
    assert api.count("GET /api/state") == 2


def test_an_agent_that_stops_reading_ends_the_bridge(api: ScriptedApi) -> None:
    with subprocess.Popen(
        [*COMMAND, "--parent-session-id", "session-1", "--base-url", api.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.close()
        request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        assert process.wait(20) == 1


def test_the_official_client_lists_and_calls_the_tools(api: ScriptedApi) -> None:
    """The client of the MCP SDK, over stdio, as an agent uses it."""
    api.on(LOOK, about(record()), about(record(status="completed")))
    api.on(f"{LOOK}/result", result())
    told: list[tuple[float, float | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total))

    async def story() -> None:
        parameters = StdioServerParameters(
            command=sys.executable, args=[*COMMAND[1:], "--parent-session-id", "session-1", "--base-url", api.url]
        )
        async with stdio_client(parameters) as (reader, writer), ClientSession(reader, writer) as client:
            await client.initialize()
            listed = await client.list_tools()
            assert [tool.name for tool in listed.tools][:2] == ["termal_spawn_session", "termal_list_delegations"]
            assert len(listed.tools) == 17
            mail = await client.call_tool("termal_list_mailboxes", {})
            assert (mail.is_error, mail.structured_content) == (False, {"mailboxes": []})
            waited = await client.call_tool(
                "termal_wait_delegations",
                {"delegationIds": ["delegation-1"], "pollIntervalMs": 500},
                progress_callback=on_progress,
            )
            assert waited.structured_content is not None
            assert waited.structured_content["outcome"] == "completed"
            refused = await client.call_tool("termal_get_session_status", {"delegationId": "a/b"})
            assert refused.is_error

    asyncio.run(story())
    assert told == [(0, 1), (1, 1)]


def test_a_secret_in_its_environment_is_sent_as_a_token_and_written_nowhere(api: ScriptedApi, tmp_path: Path) -> None:
    with BridgeProcess(api.url, environment={"TERMAL_RUNTIME": "m", "TERMAL_TOKEN": "ts1.secret"}) as bridge:
        bridge.greet()
        bridge.call("termal_list_mailboxes")
        arguments = Path(f"/proc/{bridge.pid}/cmdline").read_bytes() if sys.platform == "linux" else b""
    assert {asked.headers["authorization"] for asked in api.asked} == {"Bearer ts1.secret"}
    assert b"secret" not in arguments


def test_a_call_in_flight_does_not_hold_up_the_end(api: ScriptedApi) -> None:
    release = threading.Event()
    api.on(LOOK, Reply(200, about(record()), hold=release))
    try:
        with BridgeProcess(api.url) as bridge:
            bridge.greet()
            arguments: dict[str, Any] = {"delegationId": "delegation-1"}
            bridge.request("tools/call", {"name": "termal_get_session_status", "arguments": arguments})
            wait_until(lambda: api.count(LOOK) == 1, "the call")
            assert bridge.close() == 0
    finally:
        release.set()
