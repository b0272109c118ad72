"""``termal answer`` against a small server that plays the daemon: what is sent for what is typed."""

import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from termal.cli import main as cli
from tests.support.client_replies import session as session_of
from tests.support.client_replies import session_reply, state

Json = dict[str, Any]


def interaction(kind: str, **fields: Any) -> Json:
    common = {"type": kind, "id": "message-1", "timestamp": "2026-01-01 10:00:00", "author": "assistant"}
    return {**common, "title": "Asked", "detail": "", "state": "pending", **fields}


def question(number: int, *labels: str, secret: bool = False) -> Json:
    options = [{"label": label, "description": f"is {label}"} for label in labels]
    about = {"id": f"q{number}", "header": "H", "question": f"What {number}?", "isOther": True, "isSecret": secret}
    return {**about, **({"options": options} if options else {})}


QUESTIONS = interaction("userInputRequest", questions=[question(1, "red", "blue"), question(2, secret=True)])
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}, "count": {"type": "integer"}}}
FORM = interaction("mcpElicitationRequest", request={"mode": "form", "message": "m", "requestedSchema": SCHEMA})
LINK = interaction("mcpElicitationRequest", request={"mode": "url", "url": "https://example.org/x"})
CODEX = interaction("codexAppRequest", method="some/method", params={"a": 1})
APPROVAL = {**interaction("approval"), "command": "ls", "commandLanguage": "bash", "decision": "pending"}


class Daemon:
    """Serves one session with one open request; ``posted`` has the path and body of each answer."""

    def __init__(self) -> None:
        self.message: Json = QUESTIONS
        self.posted: list[tuple[str, Any]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._send(session_reply(outer.message, status="approval"))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                outer.posted.append((self.path.split("session-1/")[1], body))
                self._send(state(session_of(status="active")))

            def _send(self, reply: Json) -> None:
                encoded = json.dumps(reply).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(encoded)))
                self.end_headers()
                self.wfile.write(encoded)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    running = Daemon()
    yield running
    running.close()


def run(daemon: Daemon, *arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main([*arguments, "--base-url", daemon.url])
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    ("message", "words", "path", "body"),
    [
        (QUESTIONS, ["red", "s3"], "user-input/message-1", {"answers": {"q1": ["red"], "q2": ["s3"]}}),
        (
            FORM,
            ["name=a=b", "count=3"],
            "mcp-elicitation/message-1",
            {"action": "accept", "content": {"name": "a=b", "count": 3}},
        ),
        (FORM, ["--decline"], "mcp-elicitation/message-1", {"action": "decline"}),
        (LINK, ["--cancel"], "mcp-elicitation/message-1", {"action": "cancel"}),
        (LINK, [], "mcp-elicitation/message-1", {"action": "accept"}),
        (
            FORM,
            ["--content", '{"name": "x"}'],
            "mcp-elicitation/message-1",
            {"action": "accept", "content": {"name": "x"}},
        ),
        (CODEX, ["--content", '{"ok": true}'], "codex/requests/message-1", {"result": {"ok": True}}),
    ],
    ids=["questions", "fields", "declined", "canceled", "a link", "a whole form", "Codex"],
)
def test_what_is_typed_is_sent(daemon: Daemon, message: Json, words: list[str], path: str, body: Json) -> None:
    daemon.message = message
    assert run(daemon, "answer", "session-1", *words) == 0
    ((sent, content),) = daemon.posted
    assert sent == path
    assert {key: value for key, value in content.items() if value is not None} == body


def test_secrets_need_no_command_line(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("blue\nhush\n"))
    assert run(daemon, "answer", "session-1") == 0
    assert daemon.posted == [("user-input/message-1", {"answers": {"q1": ["blue"], "q2": ["hush"]}})]


@pytest.mark.parametrize(
    ("message", "words", "code", "said"),
    [
        (QUESTIONS, ["red"], 2, "2 answers are wanted, not 1"),
        (QUESTIONS, [], 2, "stdin has no answer to 'What 1?'"),
        (QUESTIONS, ["a", "b", "--decline"], 2, "questions take answers"),
        (FORM, ["other=1"], 2, "whose fields are: name, count"),
        (FORM, ["count=many"], 2, "count wants integer as JSON"),
        (FORM, ["--content", "{"], 2, "JSON"),
        (FORM, ["--decline", "--cancel"], 2, "exclude each other"),
        (LINK, ["a=b"], 2, "no form"),
        (CODEX, ["yes"], 2, "--content"),
        (APPROVAL, ["yes"], 1, "termal approve session-1"),
        ({**QUESTIONS, "state": "submitted"}, ["a", "b"], 1, "waits for no answer"),
    ],
)
def test_what_does_not_fit_is_said_and_nothing_is_sent(
    daemon: Daemon,
    message: Json,
    words: list[str],
    code: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    daemon.message = message
    assert run(daemon, "answer", "session-1", *words) == code
    assert said in capsys.readouterr().err
    assert daemon.posted == []


def test_questions_are_shown_without_being_answered(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(daemon, "answer", "session-1", "--show") == 0
    shown = capsys.readouterr().out
    assert "1. What 1?\n   1) red - is red\n   2) blue - is blue\n2. What 2?" in shown
    assert daemon.posted == []


def test_who_approves_a_question_is_told_how_to_answer_it(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(daemon, "approve", "session-1") == 1
    assert "termal answer session-1" in capsys.readouterr().err
