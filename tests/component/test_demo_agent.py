"""The demo agent as a process of its own, spoken to line by line as any client of the protocol does."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from termal.demo_agent import directives as d
from termal.demo_agent.directives import directives, with_last
from tests.support.waiting import wait_until

_SERVER = str(Path(__file__).parents[1] / "support" / "acp_mcp_server.py")
MCP = {
    "name": "termal-delegation",
    "command": sys.executable,
    "args": [_SERVER],
    "env": [{"name": "TOKEN", "value": "secret"}],
}


class Demo:
    """A client that allows everything that ``option`` names."""

    def __init__(self, folder: Path, option: str = "allow") -> None:
        self.folder = folder
        self.option = option
        self.asked: list[dict[str, Any]] = []
        self._number = 0
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "termal.demo_agent"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env={"PATH": os.environ["PATH"], "TERMAL_DEMO_HOME": str(folder / "memory")},
        )
        self.ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})

    def begin(self, *servers: dict[str, Any]) -> str:
        answer = self.ask("session/new", {"cwd": str(self.folder), "mcpServers": list(servers)})[0]
        return str(answer["result"]["sessionId"])

    def send(self, method: str, params: dict[str, Any]) -> int:
        self._number += 1
        self._write({"id": self._number, "method": method, "params": params})
        return self._number

    def ask(self, method: str, params: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The answer, and the updates that came before it."""
        return self.answer_to(self.send(method, params))

    def answer_to(
        self, number: int, react: Callable[[dict[str, Any]], None] = lambda _: None
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        updates: list[dict[str, Any]] = []
        while True:
            message = self.read()
            if message.get("method") == "session/request_permission":
                self.asked.append(message["params"])
                outcome = {"outcome": "selected", "optionId": self.option}
                self._write({"id": message["id"], "result": {"outcome": outcome}})
            elif message.get("method") == "session/update":
                updates.append(message["params"]["update"])
                react(updates[-1])
            elif message.get("id") == number:
                return message, updates

    def prompt(self, conversation: str, text: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        return self.ask("session/prompt", _prompt(conversation, text))

    def said(self, conversation: str, text: str) -> str:
        return _text(self.prompt(conversation, text)[1])

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the agent has ended"
        message: dict[str, Any] = json.loads(line)
        return message

    def notify(self, method: str, params: dict[str, Any]) -> None:
        self._write({"method": method, "params": params})

    def _write(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def _prompt(conversation: str, text: str) -> dict[str, Any]:
    return {"sessionId": conversation, "prompt": [{"type": "text", "text": text}]}


def _text(updates: list[dict[str, Any]]) -> str:
    chunks = [update for update in updates if update["sessionUpdate"] == "agent_message_chunk"]
    return "".join(update["content"]["text"] for update in chunks)


@pytest.fixture
def demo(run_dir: Path) -> Iterator[Demo]:
    made = Demo(run_dir)
    yield made
    made.close()


# ------------------------------------------------------------------------ directives


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("say hello there", d.Say("hello there")),
        ("think hm", d.Think("hm")),
        ("wait 0.5", d.Wait(0.5)),
        ("wait for it", None),
        ("run echo a | cat", d.Run("echo a | cat")),
        ("edit a/b.txt some text", d.Edit("a/b.txt", "some text")),
        ("edit a.txt", None),
        ('tool send {"to": [1]}', d.Tool("send", {"to": [1]})),
        ("tool list", d.Tool("list", {})),
        ("tool use is limited", None),
        ("flood 1000", d.Flood(1000)),
        ("garbage", d.Garbage()),
        ("garbage collection", None),
        ("stderr oh no", d.Complain("oh no")),
        ("fail because", d.Fail("because")),
        ("exit 3", d.Exit(3)),
        ("exit now", None),
        ("hang", d.Hang()),
        ("hang on", None),
        ("Say hello", None),
        (" say hello", None),
        ("say", None),
    ],
)
def test_a_line_is_a_directive_or_not(line: str, expected: d.Directive | None) -> None:
    assert directives(f"some words\n{line}\nmore words") == ([] if expected is None else [expected])


def test_broken_arguments_of_a_tool_fail_the_turn() -> None:
    (failure,) = directives("tool send {nonsense")
    assert isinstance(failure, d.Fail)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"id": "$LAST.item.id"}, {"id": "i-1"}),
        ("$LAST.item", {"id": "i-1", "rows": [5]}),
        (["see $LAST.item.id."], ["see i-1."]),
        ("$LAST.item.rows.0", 5),
        ("rows $LAST.item.rows", "rows [5]"),
        (7, 7),
    ],
)
def test_fields_of_the_last_result_can_be_used(value: Any, expected: Any) -> None:
    assert with_last(value, {"item": {"id": "i-1", "rows": [5]}}) == expected


def test_a_field_that_the_last_result_does_not_have_is_an_error() -> None:
    with pytest.raises(KeyError, match=r"no field item\.name"):
        with_last("$LAST.item.name", {"item": {}})


# ---------------------------------------------------------------------------- speech


def test_a_prompt_without_directives_is_answered_with_itself(demo: Demo) -> None:
    assert demo.said(demo.begin(), "What now?\nWho knows.") == "You said: What now?\nWho knows."


def test_lines_around_a_directive_are_ignored(demo: Demo) -> None:
    assert demo.said(demo.begin(), "Please do this:\nsay one\n\nsay two\nThanks.") == "one\ntwo"


def test_a_flood_has_exactly_its_size(demo: Demo) -> None:
    assert len(demo.said(demo.begin(), "flood 100001")) == 100_001


def test_a_failed_turn_ends_with_the_text_and_the_next_one_works(demo: Demo) -> None:
    conversation = demo.begin()
    answer, _ = demo.prompt(conversation, "fail no such model")
    assert answer["error"]["message"] == "no such model"
    assert demo.said(conversation, "say on") == "on"


def test_a_cancelled_command_ends_with_its_processes(demo: Demo) -> None:
    conversation = demo.begin()
    number = demo.send("session/prompt", _prompt(conversation, "run echo $$ > pid; echo up; sleep 3600"))

    def cancel_when_up(update: dict[str, Any]) -> None:
        if update.get("status") == "in_progress":
            demo.notify("session/cancel", {"sessionId": conversation})

    answer, _ = demo.answer_to(number, cancel_when_up)
    assert answer["result"]["stopReason"] == "cancelled"
    pid = int((demo.folder / "pid").read_text())
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the command to be gone")


def test_what_a_command_leaves_in_the_background_does_not_hold_the_turn(demo: Demo) -> None:
    _, updates = demo.prompt(demo.begin(), "run sleep 3600 & echo $! > pid; echo done")
    assert updates[-1]["status"] == "completed"
    os.kill(int((demo.folder / "pid").read_text()), signal.SIGKILL)


def test_allowing_for_the_session_asks_once(demo: Demo) -> None:
    demo.option = "allow-always"
    demo.prompt(demo.begin(), "run true\nrun true\nedit a.txt x")
    assert [asked["toolCall"]["kind"] for asked in demo.asked] == ["execute", "edit"]


def test_a_file_outside_of_the_folder_is_not_written(demo: Demo, run_dir: Path) -> None:
    (run_dir / "link").symlink_to("/")
    text = demo.said(demo.begin(), "edit ../outside.txt x\nedit link/outside.txt y")
    assert "../outside.txt is not in the folder" in text
    assert "link/outside.txt is not in the folder" in text
    assert demo.asked == []
    assert not (run_dir.parent / "outside.txt").exists()


# ---------------------------------------------------------------------------- memory


def test_a_conversation_is_replayed_to_a_later_process(run_dir: Path) -> None:
    first = Demo(run_dir)
    conversation = first.begin()
    first.said(conversation, "say one")
    first.send("session/prompt", _prompt(conversation, "say half\nhang"))
    assert first.read()["params"]["update"]["content"]["text"] == "half"
    first.process.send_signal(signal.SIGKILL)
    first.close()

    second = Demo(run_dir)
    try:
        answer, updates = second.ask("session/load", {"sessionId": conversation, "cwd": str(run_dir), "mcpServers": []})
        assert "result" in answer
        kinds = [(update["sessionUpdate"], update["content"]["text"]) for update in updates]
        assert kinds == [
            ("user_message_chunk", "say one"),
            ("agent_message_chunk", "one"),
            ("user_message_chunk", "say half\nhang"),
        ]
        assert second.said(conversation, "say three") == "three"
    finally:
        second.close()


@pytest.mark.parametrize("conversation", ["demo-" + "0" * 32, "../../etc/passwd", ""])
def test_an_unknown_conversation_cannot_be_loaded(demo: Demo, conversation: str) -> None:
    answer, _ = demo.ask("session/load", {"sessionId": conversation, "cwd": str(demo.folder), "mcpServers": []})
    assert "no conversation" in answer["error"]["message"]


def test_the_memory_is_for_the_owner_alone(demo: Demo) -> None:
    demo.begin()
    memory = demo.folder / "memory"
    assert memory.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in memory.iterdir()} == {0o600}


# ----------------------------------------------------------------------------- tools


@pytest.mark.slow
def test_tools_of_the_given_server_are_called_over_one_connection(demo: Demo) -> None:
    conversation = demo.begin(MCP)
    first = json.loads(demo.said(conversation, 'tool make_item {"name": "a"}'))
    assert demo.said(conversation, 'tool echo {"text": "got $LAST.item.id", "count": "$LAST.item.parts.1"}') == (
        "got item-a got item-a"
    )
    assert json.loads(demo.said(conversation, 'tool make_item {"name": "b"}'))["pid"] == first["pid"]
    assert demo.said(conversation, "tool token") == "secret"
    assert demo.said(conversation, "tool broken").startswith("tool broken failed: ")
    answer, _ = demo.prompt(conversation, 'tool echo {"text": "$LAST.no"}')
    assert "no field" in answer["error"]["message"]


def test_a_conversation_without_the_server_has_no_tools(demo: Demo) -> None:
    answer, _ = demo.prompt(demo.begin({**MCP, "name": "other"}), "tool echo")
    assert "was given no MCP server" in answer["error"]["message"]


def test_a_server_that_cannot_be_started_fails_the_turn(demo: Demo) -> None:
    conversation = demo.begin({**MCP, "command": "/no/such/program"})
    answer, _ = demo.prompt(conversation, "tool echo")
    assert "the MCP server termal-delegation ended" in answer["error"]["message"]
