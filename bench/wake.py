"""From a send to the turn that it starts, over the workers as they run; and the pass over all mail at a start."""

import tempfile
import time
from pathlib import Path

import apsw

from bench.figures import median, percentile, row
from termal.wire.control import Ready
from tests.support.control_peer import ControlPeer
from tests.support.coordination_rows import TIME
from tests.support.mail_daemon import MailDaemon, receipt

SENDS = 300
SESSIONS = 1000
MAILBOXES = 10
MEDIAN_MS = 25.0
SLOWEST_MS = 100.0
PASS_S = 2.0
PROMPTS = 300


def _sending(mail: MailDaemon) -> bool:
    """The receiver is idle each time; the turn has started when its runtime worker has it."""
    a, b = mail.state.create(), mail.state.create()
    times, answers = [], []
    for number in range(SENDS):
        began = time.perf_counter()
        outcome = mail.begin_send(a, b, f"k{number}")
        while len(mail.runtime.turns) <= number:
            time.sleep(0.0002)
        times.append((time.perf_counter() - began) * 1e3)
        box = receipt(outcome)["mailboxId"]
        answers.append((time.perf_counter() - began) * 1e3)
        mail.acknowledge(b, box, number, number + 1)
        mail.runtime.end(mail.runtime.turns[number])
        while mail.state.status(b) != "idle":
            time.sleep(0.001)
    good = median(times) <= MEDIAN_MS and percentile(times, 0.99) <= SLOWEST_MS
    figure = f"{median(times):.1f} ms, p99 {percentile(times, 0.99):.1f}"
    budget = f"{MEDIAN_MS:.0f}, p99 {SLOWEST_MS:.0f} ms"
    row("send until its receipt", f"{median(answers):.1f} ms, p99 {percentile(answers, 0.99):.1f}", "-", good=True)
    return row("send to an idle session until its turn starts", figure, budget, good)


def _prompting(mail: MailDaemon) -> bool:
    """What a dispatch pays for the question after mail: sessions that mail was sent to, and one without any."""
    figures = []
    a, b, c = (mail.state.create() for _ in range(3))
    for number, session in enumerate((b, c)):
        times = []
        for prompt in range(PROMPTS):
            if session == b and prompt == 0:
                box = mail.send(a, b, "first")["mailboxId"]
                mail.acknowledge(b, box, 0, 1)
                mail.runtime.end(mail.runtime.turns[-1])
            while mail.state.status(session) != "idle":
                time.sleep(0.001)
            began = time.perf_counter()
            mail.state.send(session, f"{number} {prompt}")
            times.append((time.perf_counter() - began) * 1e3)
            mail.runtime.end(mail.runtime.turns[-1])
        figures.append(times)
    figure = f"{median(figures[0]):.2f} and {median(figures[1]):.2f} ms"
    return row("a prompt with and without a question after mail", figure, "-", good=True)


def _fill(home: Path) -> None:
    connection = apsw.Connection(str(home / "coordination.sqlite"))
    with connection:
        for session in range(1, SESSIONS + 1):
            for peer in range(MAILBOXES):
                one, other = f"session-{session}", f"session-{SESSIONS + 1 + peer}"
                box = f"mailbox-{session}-{peer}"
                connection.execute("INSERT INTO mailboxes VALUES (?, ?, ?, 2)", (box, f"{one} {other}", TIME))
                for member in (one, other):
                    connection.execute(
                        "INSERT INTO mailbox_participants (mailbox_id, session_id, display_name, joined_at)"
                        " VALUES (?, ?, ?, ?)",
                        (box, member, member, TIME),
                    )
                connection.execute(
                    "INSERT INTO mailbox_messages (id, mailbox_id, sequence, sender_session_id, sender_name,"
                    " target_session_id, target_name, created_at, class, idempotency_key, unread_depth_at_append,"
                    " notification_disposition, body) VALUES (?, ?, 1, ?, 'Peer', ?, 'Me', ?, 'routine', ?, 1,"
                    " 'deliveredToIdleSession', 'hello')",
                    (f"message-{box}", box, other, one, TIME, box),
                )
    connection.close()


def _booting(folder: Path) -> bool:
    mail = MailDaemon(folder)
    try:
        mail.boot(wake=False)
        for _ in range(SESSIONS + MAILBOXES):
            mail.state.create()
        mail.crash()
        _fill(mail.home.root)
        mail.boot(wake=False)
        began = time.perf_counter()
        peer = ControlPeer("workers.wake", mail.home.root, folder, start="boot")
        mail.others["wake"] = peer
        while not peer.said(Ready):
            time.sleep(0.002)
        took_s = time.perf_counter() - began
        waiting = sum(len(mail.queue(f"session-{number}")) for number in (1, SESSIONS // 2, SESSIONS))
        assert waiting == 3 * MAILBOXES, waiting
    finally:
        mail.close()
    what = f"start with {SESSIONS} sessions, {SESSIONS * MAILBOXES} unread mailboxes"
    return row(what, f"{took_s:.2f} s", f"{PASS_S:.0f} s", took_s <= PASS_S)


def main() -> bool:
    with tempfile.TemporaryDirectory(prefix="tml-") as name:
        folder = Path(name)
        folder.chmod(0o700)
        mail = MailDaemon(folder).boot()
        try:
            good = _sending(mail)
            good = _prompting(mail) and good
        finally:
            mail.close()
    with tempfile.TemporaryDirectory(prefix="tml-") as name:
        folder = Path(name)
        folder.chmod(0o700)
        return _booting(folder) and good
