"""``termal mail`` against a real daemon: what it prints, and the exit codes that scripts branch on."""

import io
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from termal.cli.main import main
from tests.support.daemon import Daemon
from tests.support.mail_http import MailHttp
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.slow]

Run = Callable[..., str]


@pytest.fixture
def mail(shared_daemon: Daemon) -> Iterator[MailHttp]:
    with shared_daemon.client() as http:
        yield MailHttp(http)


@pytest.fixture
def run(shared_daemon: Daemon, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The output of ``termal mail ...``; on stderr where it fails."""
    monkeypatch.setenv("TERMAL_HOME", str(shared_daemon.home.root))
    monkeypatch.delenv("TERMAL_BASE_URL", raising=False)

    def act(*arguments: str, code: int = 0) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["mail", *arguments])
        printed = capsys.readouterr()
        assert (ended.value.code or 0) == code, printed
        return printed.out or printed.err

    return act


def test_mail_is_sent_read_and_acknowledged_from_a_shell(run: Run, mail: MailHttp) -> None:
    a, b = mail.a, mail.b
    mail.occupy(b)
    assert run("list", b) == "no mail yet\n"
    assert "#1 of mailbox-" in run("send", a, b, "first\nsecond line", "--topic", "review", "--key", "k1")
    assert run("send", a, b, "first\nsecond line", "--topic", "review", "--key", "k1").endswith(", as before\n")
    run("send", a, b, "more")
    listed = run("list", b).splitlines()
    assert listed[0].split() == ["mailbox", "with", "unread", "latest", "at", "message"]
    assert f"A ({a})" in listed[1]
    read = run("read", b, a)
    assert read.startswith("#1 A -> B, ")
    assert "review\n  first\n  second line\n#2 A -> B" in read
    assert run("read", b, a, "--after", "2") == "nothing after #2\n"
    box = json.loads(run("list", b, "--json"))[0]["id"]
    assert run("ack", b, box, "1") == f"{box} is done up to #1: 1 unread\n"
    assert run("ack", b, a) == f"{box} is done up to #2: 0 unread\n"
    assert run("read", b, box) == "nothing after #2\n"
    sent = run("sent", a).splitlines()
    assert [line.split()[-2:] for line in sent[1:]] == [["yes", "more"], ["second", "line"]]
    assert run("sent", a, "--state", "undeliverable") == "nothing sent\n"
    assert json.loads(run("sent", a, "--json", "--limit", "1"))["messages"][0]["processed"] is True


def test_a_message_may_come_from_standard_input(run: Run, mail: MailHttp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("from a pipe"))
    receipt = json.loads(run("send", mail.a, mail.b, "--json"))
    assert mail.read(mail.b, receipt["mailboxId"]).json()[0]["body"] == "from a pipe"


def test_exit_codes_tell_what_happened(run: Run, mail: MailHttp) -> None:
    a, b = mail.a, mail.b
    assert "has no mailbox" in run("read", b, a, code=3)
    assert run("send", a, "session-999", "x", code=3) == "termal: the target session does not exist\n"
    assert run("list", "session-999", code=3) == "termal: the session does not exist\n"
    run("send", a, b, "x", "--key", "k1")
    assert "k1" in run("send", a, b, "y", "--key", "k1", code=4)
    run("ack", b, a, "1")
    run("send", a, b, "z")
    assert "stale" in run("ack", b, a, "2", "--expect", "0", code=4)
    assert "beyond" in run("ack", b, a, "9", code=1)
    assert run("send", a, b, " ", code=1) == "termal: the message must not be blank\n"
    told = json.loads(run("ack", b, a, "2", "--expect", "0", "--json", code=4))
    assert (told["code"], told["reason"]) == ("conflict", "staleExpected")


def test_what_cannot_be_done_now_says_how_to_repeat_it(shared_daemon: Daemon, run: Run, mail: MailHttp) -> None:
    mail.send(mail.a, mail.b)
    shared_daemon.arm("coordination.in_group", "hold")
    try:
        told = run("send", mail.a, mail.b, "x", "--key", "k1", code=5)
    finally:
        (shared_daemon.faults / "coordination.in_group.go").touch()
    assert "--key k1" in told
    assert '"duplicate"' in run("send", mail.a, mail.b, "x", "--key", "k1", "--json")


def test_mail_can_be_watched(shared_daemon: Daemon, mail: MailHttp) -> None:
    mail.send(mail.a, mail.b, message="unread")
    arguments = ["mail", "watch", mail.b, "--json", "--home", str(shared_daemon.home.root)]
    program = "import sys; from termal.cli.main import main; main(sys.argv[1:])"
    with subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        try:
            assert json.loads(watching.stdout.readline())["body"] == "unread"
            mail.send(mail.b, mail.a, message="answer")
            other = mail.session("C")
            mail.send(other, mail.b, message="from another")
            seen = {json.loads(watching.stdout.readline())["body"] for _ in range(2)}
            assert seen == {"answer", "from another"}
        finally:
            watching.send_signal(signal.SIGINT)
        assert watching.wait(10) == 130
    assert mail.mailboxes(mail.b)[0]["unreadCount"] == 1


def test_status_counts_mail(shared_daemon: Daemon, mail: MailHttp) -> None:
    before = mail.http.get("/api/status").json()["mailboxes"]
    box = mail.send(mail.a, mail.b)["mailboxId"]

    def counted() -> dict[str, int]:
        counts: dict[str, int] = mail.http.get("/api/status").json()["mailboxes"]
        return counts

    wait_until(lambda: counted()["count"] == before["count"] + 1, "the mailbox to be counted")
    wait_until(lambda: counted()["unread"] == before["unread"] + 1, "the message to be counted")
    mail.acknowledge(mail.b, box, 0, 1)
    wait_until(lambda: counted()["unread"] == before["unread"], "the acknowledgement to be counted")
