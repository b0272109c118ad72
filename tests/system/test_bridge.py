"""Bridges on a real daemon: sessions that write to each other, a board, a delegated child, processes killed."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client, StdioServerParameters

from tests.support.bridge_process import COMMAND, BridgeProcess
from tests.support.daemon import Daemon, Person
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system]

CHILD_TOOLS = 8
ROOT_TOOLS = 17


@pytest.fixture
def project(shared_daemon: Daemon, tmp_path: Path) -> str:
    with shared_daemon.client() as http:
        made = http.post("/api/projects", json={"rootPath": str(tmp_path)})
        assert made.status_code == 201
        return str(made.json()["projectId"])


def session_in(daemon: Daemon, name: str, folder: Path, project: str | None = None) -> str:
    body = {"agent": "Demo", "name": name, "workdir": str(folder), "projectId": project}
    with daemon.client() as http:
        made = http.post("/api/sessions", json={key: value for key, value in body.items() if value is not None})
        assert made.status_code == 201, made.text
        return str(made.json()["sessionId"])


def done(bridge: BridgeProcess, tool: str, **arguments: Any) -> Any:
    result = bridge.call(tool, arguments)
    assert result["isError"] is False, result
    return result["structuredContent"]


def test_two_sessions_write_to_each_other(shared_daemon: Daemon, tmp_path: Path) -> None:
    one, other = (session_in(shared_daemon, name, tmp_path) for name in ("Writer", "Reader Ä"))
    with (
        BridgeProcess(shared_daemon.url, session_id=one) as writer,
        BridgeProcess(shared_daemon.url, session_id=other) as reader,
    ):
        for bridge in (writer, reader):
            bridge.greet()
            assert len(bridge.ask("tools/list")["result"]["tools"]) == ROOT_TOOLS
        mail = {"sessionId": "reader ä", "message": "wait 0", "idempotencyKey": "one"}
        receipt = done(writer, "termal_send_to_session", **mail)
        assert (receipt["sessionId"], receipt["resolvedFrom"], receipt["duplicate"]) == (other, "reader ä", False)
        again = done(writer, "termal_send_to_session", **{**mail, "sessionId": other})
        assert (again["messageId"], again["duplicate"]) == (receipt["messageId"], True)
        (box,) = done(reader, "termal_list_mailboxes")["mailboxes"]
        assert (box["id"], box["unreadCount"]) == (receipt["mailboxId"], 1)
        (message,) = done(reader, "termal_read_mailbox", mailboxId=box["id"])["messages"]
        assert message["body"] == "wait 0"
        assert done(reader, "termal_read_mailbox_message", messageId=message["id"])["body"] == "wait 0"
        move = {"mailboxId": box["id"], "expectedProcessedThrough": 0, "processedThrough": 1}
        assert done(reader, "termal_acknowledge_mailbox", **move)["unreadCount"] == 0
        stale = reader.call("termal_acknowledge_mailbox", {**move, "expectedProcessedThrough": 5})
        assert stale["content"][0]["text"].startswith("400 ")


def test_a_board_is_shared_by_the_sessions_of_a_project(shared_daemon: Daemon, project: str, tmp_path: Path) -> None:
    one, other = (session_in(shared_daemon, name, tmp_path, project) for name in ("Boards", "Boards too"))
    with (
        BridgeProcess(shared_daemon.url, session_id=one) as first,
        BridgeProcess(shared_daemon.url, session_id=other) as second,
    ):
        first.greet()
        second.greet()
        write = {"key": "gates.union", "expectedRevision": 0, "idempotencyKey": "k"}
        assert done(first, "termal_board_set", **write, value={"z": 1, "a": [None, True]})["revision"] == 1
        assert done(second, "termal_board_get", key="gates.union")["value"] == {"a": [None, True], "z": 1}
        assert [row["key"] for row in done(second, "termal_board_list")["entries"]] == ["gates.union"]
        conflict = second.call("termal_board_set", {**write, "value": 2, "idempotencyKey": "other"})
        assert conflict["content"][0]["text"].startswith("409 ")
        assert '"currentGeneration":1' in conflict["content"][0]["text"]


def test_a_delegated_child_works_and_has_fewer_tools(shared_daemon: Daemon, tmp_path: Path) -> None:
    parent = session_in(shared_daemon, "Parent", tmp_path)
    with BridgeProcess(shared_daemon.url, session_id=parent) as bridge:
        bridge.greet()
        task = {"prompt": "say looked around", "agent": "Demo", "mode": "explorer", "title": "Look"}
        spawned = done(bridge, "termal_spawn_session", **task)
        assert (spawned["outcome"], spawned["delegation"]["title"]) == ("completed", "Look")
        delegation, child = spawned["delegationId"], spawned["childSessionId"]
        waited = done(bridge, "termal_wait_delegations", delegationIds=[delegation], pollIntervalMs=500)
        assert (waited["outcome"], waited["results"][0]["result"]["status"]) == ("completed", "completed")
        page = done(bridge, "termal_get_session_result", delegationId=delegation, outputOffset=0)
        assert "looked around" in page["output"]
        assert [row["id"] for row in done(bridge, "termal_list_delegations")["delegations"]] == [delegation]
        with BridgeProcess(shared_daemon.url, session_id=child) as inner:
            inner.greet()
            assert len(inner.ask("tools/list")["result"]["tools"]) == CHILD_TOOLS
            refused = inner.call("termal_send_to_session", {"sessionId": parent, "message": "m", "idempotencyKey": "k"})
            assert refused["isError"] is True
        resumed = done(bridge, "termal_resume_after_delegations", delegationIds=[delegation], title="Done")
        assert resumed["resumePromptQueued"] is True
    with shared_daemon.client() as http:
        shown = wait_until(
            lambda: [
                message
                for message in http.get(f"/api/sessions/{parent}").json()["session"]["messages"]
                if message["type"] == "text" and delegation in message.get("text", "")
            ],
            "the fan-in in the parent's transcript",
            20,
        )
    assert shown


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_official_client_works_with_a_real_daemon(shared_daemon: Daemon, tmp_path: Path, mode: str) -> None:
    one, other = (session_in(shared_daemon, f"{name}-{mode}", tmp_path) for name in ("official", "receiver"))
    arguments = [*COMMAND[1:], "--parent-session-id", one, "--base-url", shared_daemon.url]

    async def story() -> None:
        async with Client(StdioServerParameters(command=COMMAND[0], args=arguments), mode=mode) as client:
            assert len((await client.list_tools()).tools) == ROOT_TOOLS
            mail = {"sessionId": other, "message": "wait 0", "idempotencyKey": "one"}
            first, again = [await client.call_tool("termal_send_to_session", mail) for _ in range(2)]
            assert (first.is_error, again.is_error) == (False, False)
            assert first.structured_content is not None
            assert again.structured_content == {**first.structured_content, "duplicate": True}
            refused = await client.call_tool("termal_send_to_session", {**mail, "sessionId": one})
            assert refused.is_error

    asyncio.run(story())


def test_a_bridge_outlives_a_killed_gateway_and_a_killed_state(shared_daemon: Daemon, tmp_path: Path) -> None:
    number = session_in(shared_daemon, "Survivor", tmp_path)
    with BridgeProcess(shared_daemon.url, session_id=number) as bridge:
        bridge.greet()
        assert done(bridge, "termal_list_mailboxes") == {"mailboxes": []}
        for name in ("gateway-worker", "state", "coordination"):
            before = shared_daemon.kill(name)
            wait_until(partial(_replaced, shared_daemon, name, before), f"a new {name}", 20)
            result = bridge.call("termal_list_mailboxes")
            assert result["isError"] is False, (name, result)


def _replaced(daemon: Daemon, name: str, before: int) -> bool:
    try:
        if daemon.pid_of(name) == before:
            return False
        return bool(httpx.get(f"{daemon.url}/api/health", timeout=2).json()["state"] == "ok")
    except (AssertionError, IndexError, OSError, httpx.HTTPError):
        return False


def test_the_demo_agent_reaches_its_own_bridge(shared_daemon: Daemon, tmp_path: Path) -> None:
    person = Person(shared_daemon, "calls-tools", workdir=tmp_path)
    try:
        person.prompt("tool termal_list_sessions {}", key="tool")
        session = person.wait_idle(40)
        assert session["status"] == "idle"
        assert person.session_id in str(session["messages"][-1])
    finally:
        person.close()
