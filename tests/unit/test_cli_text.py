"""What the commands print: filtered text, figures, the status tables, messages as lines."""

from typing import Any

import msgspec
import pytest
from rich.console import Console

from termal.cli.console import printable
from termal.cli.figures import as_count, as_duration, as_size
from termal.cli.health import explain
from termal.cli.printer import Printer
from termal.cli.send import Turn, find_prompt
from termal.cli.tables import show_status
from termal.client.replies import Health
from termal.client.transcript import Said, Shown, StatusIs, Update
from termal.model.message import Approval, Command, Message, Question, QuestionOption, Text, UserInputRequest
from termal.model.session import Session
from termal.model.status import DaemonStatus
from tests.support.client_replies import session, text


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("plain\ttext\nhere", "plain\ttext\nhere"),
        ("\x1b]0;title\x07red \x1b[31m!", "]0;titlered [31m!"),
        ("one\r\ntwo\rthree", "one\ntwothree"),
        ("\u202eabc\u2066\x9b2J", "abc2J"),
        ("Grüße 🙂", "Grüße 🙂"),
    ],
)
def test_text_of_others_cannot_steer_the_terminal(given: str, shown: str) -> None:
    assert printable(given) == shown


@pytest.mark.parametrize(
    ("size", "shown"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 20, "5.0 MiB"), (3 << 50, "3072.0 TiB")]
)
def test_sizes_are_shown_in_binary_units(size: int, shown: str) -> None:
    assert as_size(size) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-1, "0.0 s"), (0.42, "0.4 s"), (59, "59 s"), (60, "1 min"), (3725, "1 h 2 min"), (3600 * 50, "2 d 2 h")],
)
def test_durations_are_shown_by_their_largest_parts(seconds: float, shown: str) -> None:
    assert as_duration(seconds) == shown


def test_counts_agree_with_their_noun() -> None:
    assert [as_count(1, "wait"), as_count(2, "wait"), as_count(0, "mailbox", "mailboxes")] == [
        "1 wait",
        "2 waits",
        "0 mailboxes",
    ]


STATUS: dict[str, Any] = {
    "state": "degraded",
    "version": "1.2.3",
    "home": "/home/ada/.termal",
    "url": "http://127.0.0.1:8787",
    "serverInstanceId": "one",
    "startedAt": "2026-01-01T10:00:00Z",
    "uptimeSeconds": 3725.0,
    "processes": [
        {
            "name": "wake",
            "pid": 4711,
            "state": "restarting",
            "startedAt": "2026-01-01T10:00:00Z",
            "uptimeSeconds": 12.0,
            "restarts": 3,
            "lastExit": {"code": None, "signal": 9, "at": "2026-01-01T11:00:00Z"},
            "cpuPercent": 12.4,
            "rssBytes": 30 << 20,
            "ussBytes": None,
            "fds": 17,
            "threads": 2,
            "queueDepth": 5,
            "opLatencyMs": {"p50": 0.4, "p99": 3.25},
            "detail": None,
        }
    ],
    "databases": [
        {
            "name": "termal.sqlite",
            "bytes": 2048,
            "walBytes": 0,
            "schemaVersion": "2",
            "sqliteVersion": "3.54.1",
            "quarantined": 1,
        }
    ],
    "sessions": {"total": 4, "active": 1, "idle": 2, "approval": 1, "error": 0},
    "agents": [
        {"sessionIds": ["session-1"], "agent": "Demo", "pid": 99, "processes": 3, "cpuPercent": 0.0, "rssBytes": 1024}
    ],
    "mailboxes": {"count": 1, "unread": 2, "unwoken": 3},
    "delegations": {"running": 1},
    "waits": {"pending": 1},
    "outbox": {"scopeDeletions": 1, "departures": 0, "wakeReports": 2},
    "reason": "wake failed [red]3 times[/red]",
}


def shown(**changes: Any) -> str:
    console = Console(width=160, markup=False, force_terminal=False)
    with console.capture() as capture:
        console.print(show_status(msgspec.convert({**STATUS, **changes}, DaemonStatus)))
    return capture.get()


@pytest.mark.parametrize(
    "words",
    [
        "TermAl 1.2.3 is degraded at http://127.0.0.1:8787, up 1 h 2 min, data in /home/ada/.termal",
        "wake failed [red]3 times[/red]",
        "4711",
        "restarting",
        "last exit: signal 9 at 2026-01-01T11:00:00Z",
        "12%",
        "30.0 MiB",
        "0.4/3.2",
        "termal.sqlite",
        "3.54.1",
        "session-1",
        "4: 1 active, 1 waiting for an answer, 2 idle, 0 in error",
        "1 mailbox, 2 unread, 3 not woken",
        "1 running, 1 wait pending",
        "1 scope deletion, 0 departures, 2 wake reports",
    ],
)
def test_status_shows_everything_that_the_object_has(words: str) -> None:
    assert words in shown()


def test_status_shows_since_when_mail_waits() -> None:
    mail = {"count": 1, "unread": 2, "unwoken": 1, "unreadSince": "2026-01-01T10:00:00.123456+00:00"}
    assert "1 mailbox, 2 unread since 2026-01-01T10:00:00Z, 1 not woken\n" in shown(mailboxes=mail)
    both = {**mail, "unwokenSince": "2026-01-02T10:00:00.123456+00:00"}
    assert "1 not woken since 2026-01-02T10:00:00Z" in shown(mailboxes=both)


def test_a_status_from_outside_says_so_in_its_first_line_and_claims_no_counts() -> None:
    lines = shown(source="process table", state="down").splitlines()
    assert lines[0].startswith("The daemon does not answer")
    assert not any("mailbox" in line for line in lines)


@pytest.mark.parametrize(
    ("workers", "reason"),
    [
        ({"state": "ready", "wake": "ready", "runtime-acp": "stopped"}, "2 processes ready at http://x, version 1"),
        ({"state": "ready", "wake": "failed", "gateway": "unresponsive"}, "gateway is unresponsive, wake is failed"),
    ],
)
def test_health_names_the_workers_that_are_not_ready(workers: dict[str, str], reason: str) -> None:
    body = {"ok": True, "state": "ok", "version": "1", "workers": workers}
    assert explain(msgspec.convert(body, Health), "http://x") == reason


@pytest.mark.parametrize(
    ("workers", "reason"),
    [
        pytest.param({"state": "ready", "coordination": "ready"}, "state is away", id="nobody is late"),
        pytest.param({}, "state is away", id="nobody is known"),
        pytest.param({"state": "ready", "coordination": "restarting"}, "coordination is restarting", id="one is late"),
    ],
)
def test_health_says_why_the_daemon_is_down_in_its_own_words(workers: dict[str, str], reason: str) -> None:
    body = {"ok": False, "state": "down", "version": "1", "workers": workers, "reason": "state is away"}
    assert explain(msgspec.convert(body, Health), "http://x") == reason


def said(number: int, piece: str, *, first: bool = False, author: Any = "assistant", whole: str = "") -> Said:
    text = Text(id=f"message-{number}", timestamp="", author=author, text=whole or piece)
    return Said(text, piece, first)


COMMAND = Command(id="message-3", timestamp="", author="assistant", command="ls", output="a\n", status="running")
QUESTION = UserInputRequest(
    id="message-3",
    timestamp="2026-01-01 10:00:00",
    author="assistant",
    title="Asked",
    detail="",
    questions=[Question("q", "H", "Which?", is_other=True, is_secret=False, options=[QuestionOption("red", "")])],
    state="pending",
)
APPROVAL = Approval(
    id="message-4", timestamp="", author="assistant", title="Run?", command="ls", detail="", decision="pending"
)


@pytest.mark.parametrize(
    ("updates", "lines"),
    [
        pytest.param(
            [said(1, "Hi", first=True, author="you"), said(2, "Hel", first=True), said(2, "lo")],
            ["you: Hi", "assistant: Hello"],
            id="streamed text goes on in its line",
        ),
        pytest.param(
            [said(2, "Hel", first=True), Shown(APPROVAL), said(2, "lo", whole="Hello")],
            ["assistant: Hel", "? Run? [pending]", "  ls", "assistant: Hello"],
            id="text that was cut off is told from its start",
        ),
        pytest.param(
            [Shown(COMMAND), Shown(COMMAND), Shown(msgspec.structs.replace(COMMAND, status="success"))],
            ["$ ls", "a", "[success]"],
            id="a command is shown once, its output at its end",
        ),
        pytest.param(
            [StatusIs("active"), StatusIs("approval"), StatusIs("error"), StatusIs("idle")],
            ["[waits for an answer: termal approve session-1]", "[error]"],
            id="a status is told where somebody should act",
        ),
        pytest.param(
            [Shown(QUESTION), StatusIs("approval")],
            ["? Asked [pending]", "  Which?", "     1) red", "[waits for an answer: termal answer session-1]"],
            id="a question is shown with what may be said",
        ),
        pytest.param([said(1, "\x1b[2Jx", first=True)], ["assistant: [2Jx"], id="an agent cannot clear the screen"),
    ],
)
def test_updates_become_lines(updates: list[Update], lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    printer = Printer("session-1")
    for update in updates:
        printer.show(update)
    printer.finish()
    assert capsys.readouterr().out.splitlines() == lines


@pytest.mark.parametrize(
    ("record", "found"),
    [
        pytest.param(session(text(1, "Hi", "you"), text(2, "Hi")), ("message-1", False), id="running"),
        pytest.param(
            session(text(1, "Hi", "you"), pendingPrompts=[{"id": "message-9", "timestamp": "", "text": "Hi"}]),
            ("message-9", True),
            id="queued behind its twin",
        ),
        pytest.param(session(text(1, "Hi", "you"), text(5, "Hi", "you")), ("message-5", False), id="the newest of two"),
        pytest.param(session(), ("", False), id="none"),
    ],
)
def test_the_prompt_that_was_sent_is_found_in_the_reply(record: dict[str, Any], found: tuple[str, bool]) -> None:
    assert find_prompt(msgspec.convert(record, Session), " Hi\n") == found


def message(number: int, author: Any) -> Said:
    return said(number, f"text {number}", first=True, author=author)


@pytest.mark.parametrize(
    ("updates", "kept", "over", "failed"),
    [
        pytest.param([message(1, "you"), message(2, "assistant")], [2], False, False, id="goes on"),
        pytest.param([message(1, "you"), message(2, "assistant"), StatusIs("idle")], [2], True, False, id="done"),
        pytest.param([message(1, "you"), message(2, "assistant"), StatusIs("error")], [2], True, True, id="failed"),
        pytest.param([message(0, "assistant"), StatusIs("idle"), message(1, "you")], [], False, False, id="queued"),
        pytest.param(
            [message(1, "you"), message(2, "assistant"), message(3, "you"), message(4, "assistant")],
            [2],
            True,
            False,
            id="the next prompt began",
        ),
    ],
)
def test_the_answer_is_what_comes_between_the_prompt_and_the_end_of_its_turn(
    updates: list[Update], kept: list[int], over: bool, failed: bool
) -> None:
    turn = Turn("message-1")
    taken: list[Message] = []
    for update in updates:
        if turn.take(update) and not isinstance(update, StatusIs):
            taken.append(update.message)
        if turn.over:
            break
    assert [one.id for one in taken] == [f"message-{number}" for number in kept]
    assert (turn.over, turn.failed) == (over, failed)
