"""The Inspector of the MCP project, as a program, with the bridges of a root session and of a delegated child."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.kit import program_of, require
from tests.support.daemon import Person
from tests.support.scripted_requests import Json
from tests.support.token_daemon import TokenDaemon
from tests.support.waiting import wait_until
from tests.system.test_bridge import CHILD_TOOLS, ROOT_TOOLS

pytestmark = [pytest.mark.agents, pytest.mark.system, pytest.mark.timeout(240)]

INSPECTOR = "mcp-inspector-cli"
LIMIT_S = 60


@pytest.fixture
def daemon(run_dir: Path) -> Iterator[TokenDaemon]:
    require(INSPECTOR)
    daemon = TokenDaemon(run_dir / "home")
    with daemon:
        daemon.start()
        yield daemon


def inspect(daemon: TokenDaemon, session_id: str, *arguments: str) -> Json:
    token = daemon.bearer(session_id)["Authorization"].removeprefix("Bearer ")
    bridge = [sys.executable, "-m", "termal", "delegation-mcp"]
    own = ["--parent-session-id", session_id, "--base-url", daemon.url]
    program = program_of(INSPECTOR)
    assert program is not None
    ran = subprocess.run(
        [program, "--cli", "-e", f"TERMAL_TOKEN={token}", *bridge, *own, *arguments],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    answer: Json = json.loads(ran.stdout)
    return answer


def tool(daemon: TokenDaemon, session_id: str, name: str, **arguments: str) -> Json:
    given = [word for key, value in arguments.items() for word in ("--tool-arg", f"{key}={value}")]
    return inspect(daemon, session_id, "--method", "tools/call", "--tool-name", name, *given)


def names(daemon: TokenDaemon, session_id: str) -> list[str]:
    return [each["name"] for each in inspect(daemon, session_id, "--method", "tools/list")["tools"]]


def test_the_inspector_lists_and_calls_the_tools(daemon: TokenDaemon, tmp_path: Path) -> None:
    writer, reader = (Person(daemon, name, workdir=tmp_path) for name in ("writer", "reader"))
    try:
        listed = names(daemon, writer.session_id)
        assert (len(listed), listed[0], listed[-1]) == (ROOT_TOOLS, "termal_spawn_session", "termal_board_set")
        mail = {"sessionId": reader.session_id, "message": "wait 0", "idempotencyKey": "one"}
        sent = tool(daemon, writer.session_id, "termal_send_to_session", **mail)
        assert (sent["isError"], sent["structuredContent"]["sessionId"]) == (False, reader.session_id)
        box = tool(daemon, reader.session_id, "termal_list_mailboxes")["structuredContent"]["mailboxes"][0]["id"]
        read = tool(daemon, reader.session_id, "termal_read_mailbox", mailboxId=box)["structuredContent"]
        assert [message["body"] for message in read["messages"]] == ["wait 0"]
    finally:
        writer.close()
        reader.close()


def test_a_delegated_child_is_shown_no_peer_tool_and_served_none(daemon: TokenDaemon, tmp_path: Path) -> None:
    parent = Person(daemon, "parent", workdir=tmp_path)
    try:
        with daemon.client() as http:
            own = f"/api/sessions/{parent.session_id}/delegations"
            made = http.post(own, json={"prompt": "say done", "agent": "Demo", "mode": "explorer"})
            child = made.json()["childSession"]["id"]
            listed = names(daemon, child)
            assert len(listed) == CHILD_TOOLS
            assert not {"termal_send_to_session", "termal_list_sessions", "termal_board_set"} & set(listed)
            mail = {"sessionId": parent.session_id, "message": "m", "idempotencyKey": "k"}
            refused = tool(daemon, child, "termal_send_to_session", **mail)
            assert refused["isError"] is True
            assert "root sessions" in refused["content"][0]["text"]
            assert http.get(f"/api/sessions/{parent.session_id}/mailboxes").json() == []

            def over() -> bool:
                return all(row["status"] == "completed" for row in http.get(own).json()["delegations"])

            wait_until(over, "the end of the child's work", 20)
    finally:
        parent.close()
