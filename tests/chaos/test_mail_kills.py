"""Sixteen clients send, read and acknowledge while coordination and state are killed every second.

``MAIL_CHAOS_S`` in the environment asks for another length than the short one.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import apsw
import pytest

from termal.wire.control import Ready
from tests.support.bus import BusThread
from tests.support.control_peer import ControlPeer
from tests.support.fake_runtime import FakeRuntime
from tests.support.invariants import check_database
from tests.support.mail_load import MailClient
from tests.support.state_worker import StateWorker
from tests.support.waiting import wait_until

SECONDS = float(os.environ.get("MAIL_CHAOS_S", "8"))
CLIENTS = 16
RUNTIME = "runtime-acp"

pytestmark = [pytest.mark.chaos, pytest.mark.slow, pytest.mark.timeout(120 + 3 * SECONDS)]


class Workers:
    """State, coordination and wake as processes, with the test as supervisor: a killed one is replaced at once."""

    def __init__(self, home: Path, run_dir: Path) -> None:
        self._home = home
        self._run_dir = run_dir
        self.state = StateWorker(home, run_dir)
        self.runtime: FakeRuntime = self.state.runtime(RUNTIME)
        self.state.start()
        self._peers = {name: self._start(name, "boot") for name in ("coordination", "wake")}
        self.kills = 0

    def kill(self, name: str) -> None:
        self.kills += 1
        if name == "state":
            self.state.process.kill()
            self.state.start("replacement", running=[RUNTIME])
            return
        self._peers[name].kill()
        self._peers[name].__exit__(None, None, None)
        self._peers[name] = self._start(name, "replacement")

    def close(self) -> None:
        with ExitStack() as ends:
            ends.callback(self.state.close)
            for peer in self._peers.values():
                ends.callback(peer.__exit__, None, None, None)

    def _start(self, name: str, start: str) -> ControlPeer:
        peer = ControlPeer(f"workers.{name}", self._home, self._run_dir, start=start)  # type: ignore[arg-type]
        peer.wait_for(Ready)
        return peer


@pytest.fixture
def workers(home_dir: Path, run_dir: Path) -> Iterator[Workers]:
    made = Workers(home_dir, run_dir)
    yield made
    made.close()


@pytest.fixture
def bus(run_dir: Path) -> Iterator[BusThread]:
    made = BusThread("poll", run_dir)
    yield made
    made.close()


def busy_sessions(workers: Workers) -> list[str]:
    """Sessions whose agents work on something that does not end: every wake is queued."""
    made = [workers.state.create() for _ in range(CLIENTS)]
    for session_id in made:
        workers.state.send(session_id, "work")
    return made


def test_no_message_is_lost_or_doubled_and_no_cursor_goes_back(
    workers: Workers, bus: BusThread, home_dir: Path
) -> None:
    sessions = busy_sessions(workers)
    link = bus.client("coordination", "gateway")
    bus.wait_up(link)
    clients = [
        MailClient(link, session_id, [sessions[at ^ 1], sessions[(at + 2) % CLIENTS], sessions[at - 2]], at)
        for at, session_id in enumerate(sessions)
    ]
    for client in clients:
        bus.run(client.step)
    for second in range(int(SECONDS)):
        goal = min(len(client.receipts) for client in clients) + 1
        workers.kill("coordination" if second % 2 else "state")
        wait_until(lambda goal=goal: progress(clients, goal), "every client to get on", 20)  # type: ignore[misc]
        workers.kill("state" if second % 2 else "coordination")
        wait_until(lambda goal=goal: progress(clients, goal + 1), "every client to get on", 20)  # type: ignore[misc]
    for client in clients:
        bus.run(client.stop)
    wait_until(lambda: all(client.ended for client in clients), "the last answers", 20)
    assert [fault for client in clients for fault in client.faults] == []
    for client in clients:
        check_receipts(home_dir, client)
    check_rows(home_dir)
    for session_id in sessions:
        check_queue(workers, session_id)
    check_database(home_dir / "coordination.sqlite")


def progress(clients: list[MailClient], goal: int) -> bool:
    faults = [fault for client in clients for fault in client.faults]
    assert not faults, faults
    return all(len(client.receipts) >= goal for client in clients)


def rows_of(home_dir: Path, query: str, *parameters: str) -> list[tuple[object, ...]]:
    connection = apsw.Connection(str(home_dir / "coordination.sqlite"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return list(connection.execute(query, parameters).fetchall())
    finally:
        connection.close()


def check_receipts(home_dir: Path, client: MailClient) -> None:
    """Every message that was acknowledged to its sender is there once, as its receipt says."""
    stored = rows_of(
        home_dir,
        "SELECT idempotency_key, mailbox_id, id, sequence, body FROM mailbox_messages WHERE sender_session_id = ?"
        " ORDER BY rowid",
        client.session_id,
    )
    told = [
        (key, one["mailboxId"], one["messageId"], one["sequence"], f"{client.session_id} {key}")
        for key, one in client.receipts.items()
    ]
    assert stored == told


def check_rows(home_dir: Path) -> None:
    """Sequences are dense, cursors within them, and what was counted at an append is what was unread then."""
    for _, count, low, high, following in rows_of(
        home_dir,
        "SELECT m.mailbox_id, count(*), min(sequence), max(sequence), b.next_sequence FROM mailbox_messages AS m"
        " JOIN mailboxes AS b ON b.id = m.mailbox_id GROUP BY m.mailbox_id",
    ):
        assert (low, high, following) == (1, count, count + 1)  # type: ignore[operator]
    beyond = rows_of(
        home_dir,
        "SELECT p.session_id FROM mailbox_participants AS p JOIN mailboxes AS b ON b.id = p.mailbox_id"
        " WHERE p.processed_through >= b.next_sequence OR p.left_at IS NOT NULL",
    )
    assert beyond == []


def check_queue(workers: Workers, session_id: str) -> None:
    """At most one wake for each mailbox."""
    prompts = workers.state.read(session_id).get("pendingPrompts") or []
    mailboxes = [prompt["source"]["mailbox"]["mailboxId"] for prompt in prompts]
    assert len(mailboxes) == len(set(mailboxes))
