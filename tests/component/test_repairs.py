"""Stale departures of living sessions: taken back by their next use of mail, put back when they were none."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from termal.bus.server import Request
from termal.wire.control import EXIT_INTERNAL, Beat, Ready
from termal.wire.coordination_operations import SCOPE_DELETE, DeleteScope
from termal.wire.errors import Busy, Conflict, InvalidRequest, NotFound, TermalError
from termal.wire.mail_operations import (
    MAILBOX_ACKNOWLEDGE,
    MAILBOX_LIST,
    MAILBOX_MESSAGE,
    MAILBOX_READ,
    MAILBOX_SEND,
    SESSION_DEPART,
    AboutSession,
    AcknowledgeMail,
    Depart,
    ReadMailbox,
    ReadMessage,
    SendMail,
)
from termal.wire.operation import Operation
from termal.wire.review_operations import REVIEW_APPEND, AppendReview
from termal.wire.session_operations import AskEligibility, Eligibilities, Eligibility
from termal.wire.turns import Anything
from tests.support.bus_peer import call, serving
from tests.support.control_peer import ControlPeer
from tests.support.coordination_rows import TIME, add_mailbox, add_message, coordination_file
from tests.support.waiting import wait_until

A, B, C = "session-1", "session-2", "session-3"
STALE = "2026-02-02T00:00:00.000000+00:00"
LATER = "2026-03-03T00:00:00.000000+00:00"
Verdicts = Callable[[str, int], str | None]
"""What state says of a session when it is asked for the n-th time, from 1; None: nothing."""


class Mail:
    """The worker on a file with a mailbox of A and B that B has left by mistake, one message to B in it."""

    def __init__(self, home_dir: Path, run_dir: Path) -> None:
        self.home_dir = home_dir
        self.run_dir = run_dir
        self.faults = run_dir / "faults"
        self.faults.mkdir()
        self.asked: dict[str, int] = {}
        with coordination_file(home_dir) as connection:
            self.mailbox_id = add_mailbox(connection, A, B)
            self.message_id = add_message(connection, self.mailbox_id, A, B)
            connection.execute("UPDATE mailbox_participants SET left_at = ? WHERE session_id = ?", (STALE, B))

    @contextmanager
    def running(self, verdicts: Verdicts = lambda _, n: "") -> Iterator[ControlPeer]:
        def answer(request: Request, body: AskEligibility) -> None:
            said: list[Eligibility] = []
            for session_id in body.session_ids:
                self.asked[session_id] = self.asked.get(session_id, 0) + 1
                verdict = verdicts(session_id, self.asked[session_id])
                if verdict is None:
                    return
                said.append(Eligibility(session_id, verdict, name=session_id))
            request.reply(Eligibilities(said))

        def ready(request: Request, _: object) -> None:
            request.reply(Anything())

        handlers: Any = {"session.eligibility": answer, "coordination.ready": ready}
        with (
            serving(self.run_dir, "state", handlers),
            ControlPeer("workers.coordination", self.home_dir, self.run_dir, faults=self.faults) as worker,
        ):
            worker.wait_for(Ready)
            yield worker

    def ask(self, op: Operation[Any, Any], body: object, *, within_s: float = 5.0) -> Any:
        return call(self.run_dir, "coordination", op, body, deadline_s=time.monotonic() + within_s)

    def listed(self, session_id: str = B, **limits: float) -> Any:
        return json.loads(self.ask(MAILBOX_LIST, AboutSession(session_id), **limits).json)

    def send(self, sender: str, target: str) -> Any:
        mail = SendMail(session_id=sender, target_session_id=target, message="x", idempotency_key="k")
        return json.loads(self.ask(MAILBOX_SEND, mail).json)

    def rows(self, query: str) -> list[Any]:
        connection = apsw.Connection(str(self.home_dir / "coordination.sqlite"), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()

    @property
    def left(self) -> list[Any]:
        return self.rows("SELECT session_id, left_at FROM mailbox_participants ORDER BY mailbox_id, session_id")

    @property
    def remembered(self) -> list[Any]:
        return self.rows("SELECT value FROM meta WHERE key LIKE 'left_at_repair:%'")

    def hold_writer(self) -> None:
        """Have the next group of writes wait in the middle, with one write in it."""
        (self.faults / "coordination.in_group").write_text("hold")
        threading.Thread(target=self._occupy).start()
        wait_until((self.faults / "coordination.in_group.held").exists, "the writer to be held")

    def _occupy(self) -> None:
        self.ask(SCOPE_DELETE, DeleteScope("project-1"), within_s=30.0)

    def free_writer(self) -> None:
        (self.faults / "coordination.in_group.go").touch()

    def depth(self, worker: ControlPeer) -> int:
        """Writes that have not ended, by the newest heartbeat."""
        return worker.said(Beat)[-1].queue_depth


@pytest.fixture
def mail(home_dir: Path, run_dir: Path) -> Mail:
    return Mail(home_dir, run_dir)


def listing(mail: Mail) -> None:
    [mailbox] = mail.listed()
    assert [(party["sessionId"], party["processedThrough"]) for party in mailbox["participants"]] == [(A, 0), (B, 0)]
    assert mailbox["unreadCount"] == 1


def reading(mail: Mail) -> None:
    assert len(json.loads(mail.ask(MAILBOX_READ, ReadMailbox(B, mail.mailbox_id)).json)) == 1


def exact(mail: Mail) -> None:
    assert json.loads(mail.ask(MAILBOX_MESSAGE, ReadMessage(B, mail.message_id)).json)["body"] == "hello"


def acknowledging(mail: Mail) -> None:
    summary = json.loads(mail.ask(MAILBOX_ACKNOWLEDGE, AcknowledgeMail(B, mail.mailbox_id, 0, 1)).json)
    assert summary["unreadCount"] == 0


def sending_to_it(mail: Mail) -> None:
    assert (mail.send(A, B)["sequence"], mail.send(A, B)["duplicate"]) == (2, True)


def sending_from_it(mail: Mail) -> None:
    assert mail.send(B, A)["sequence"] == 2


@pytest.mark.case("C48")
@pytest.mark.parametrize("use", [listing, reading, exact, acknowledging, sending_to_it, sending_from_it])
def test_a_living_session_is_back_with_its_first_use_of_mail(mail: Mail, use: Callable[[Mail], None]) -> None:
    with mail.running():
        use(mail)
        wait_until(lambda: mail.remembered == [], "nothing to be remembered")
        assert mail.left == [(A, None), (B, None)]
        moved = 1 if use is acknowledging else 0
        cursors = mail.rows("SELECT processed_through FROM mailbox_participants WHERE session_id = 'session-2'")
        assert cursors == [(moved,)]
        assert mail.rows("SELECT body FROM mailbox_messages WHERE sequence = 1") == [("hello",)]


def test_a_review_reaches_a_parent_that_had_left_by_mistake(mail: Mail) -> None:
    with mail.running():
        review = AppendReview(
            delegation_id="delegation-1",
            attempt=1,
            child_session_id=A,
            child_name="child",
            parent_session_id=B,
            parent_name="parent",
            body="{}",
        )
        assert mail.ask(REVIEW_APPEND, review).sequence == 2
        assert mail.left == [(A, None), (B, None)]


def test_who_never_left_is_not_asked_about_twice(mail: Mail) -> None:
    with mail.running():
        assert mail.listed(C) == []
        assert mail.send(A, C)["sequence"] == 1
    assert (mail.asked[A], mail.asked[C]) == (1, 2)
    assert (B, STALE) in mail.left


@pytest.mark.case("C50")
def test_a_departure_between_the_repair_and_the_append_is_a_conflict_without_a_sequence(mail: Mail) -> None:
    with mail.running() as worker:
        listing(mail)
        mail.hold_writer()
        answers: list[object] = []

        def depart() -> None:
            answers.append(mail.ask(SESSION_DEPART, Depart([B], LATER)))

        def send() -> None:
            try:
                mail.send(A, B)
            except TermalError as error:
                answers.append(error)

        departing, sending = threading.Thread(target=depart), threading.Thread(target=send)
        departing.start()
        wait_until(lambda: mail.depth(worker) == 2, "the departure to wait for the writer")
        sending.start()
        wait_until(lambda: mail.depth(worker) == 3, "the append to wait behind it")
        mail.free_writer()
        departing.join()
        sending.join()
        [conflict] = [answer for answer in answers if isinstance(answer, Conflict)]
        assert conflict.reason == "departed"
        assert mail.rows("SELECT next_sequence FROM mailboxes") == [(2,)]


@pytest.mark.case("C51")
@pytest.mark.parametrize(
    ("verdict", "kind"), [("hidden", InvalidRequest), ("unknown", NotFound)], ids=["hidden", "gone"]
)
def test_a_session_that_becomes_ineligible_after_the_repair_gets_exactly_its_departures_back(
    mail: Mail, verdict: str, kind: type[TermalError]
) -> None:
    (mail.faults / "coordination.left_at_cleared").write_text("hold")
    refused: list[TermalError] = []

    def read() -> None:
        try:
            mail.listed()
        except TermalError as error:
            refused.append(error)

    with mail.running(lambda session_id, n: verdict if session_id == B and n == 2 else ""):
        reader = threading.Thread(target=read)
        reader.start()
        wait_until((mail.faults / "coordination.left_at_cleared.held").exists, "the departures to be taken back")
        assert mail.left == [(A, None), (B, None)]
        assert mail.remembered == [(f'[["{mail.mailbox_id}","{STALE}"]]',)]
        other = apsw.Connection(str(mail.home_dir / "coordination.sqlite"))
        add_mailbox(other, B, C)
        other.close()
        (mail.faults / "coordination.left_at_cleared.go").touch()
        reader.join()
        assert isinstance(refused[0], kind)
        assert mail.left == [(A, None), (B, STALE), (B, None), (C, None)]
        assert mail.remembered == []
        assert [mailbox["id"] for mailbox in mail.listed()] == [mail.mailbox_id]


@pytest.mark.case("C52")
def test_a_repair_that_gets_no_place_in_the_line_of_writes_has_written_nothing(mail: Mail) -> None:
    with mail.running():
        mail.hold_writer()
        with pytest.raises(Busy) as busy:
            mail.listed(within_s=0.5)
        assert busy.value.code == "no_write_committed"
        mail.free_writer()
        mail.ask(SCOPE_DELETE, DeleteScope("project-2"))
        assert mail.left == [(A, None), (B, STALE)]
        listing(mail)


def test_a_state_that_does_not_answer_the_second_question_leaves_everything_as_it_was(mail: Mail) -> None:
    with mail.running(lambda session_id, n: None if session_id == B and n == 2 else ""):
        with pytest.raises(Busy):
            mail.listed(within_s=0.6)
        wait_until(lambda: mail.left == [(A, None), (B, STALE)], "the departure to be put back")
        wait_until(lambda: mail.remembered == [], "nothing to be remembered")
        listing(mail)


@pytest.mark.parametrize(
    ("verdict", "after"), [("", None), ("unknown", STALE)], ids=["it lives", "it was deleted meanwhile"]
)
def test_a_repair_that_was_cut_off_is_settled_by_the_next_start(mail: Mail, verdict: str, after: str | None) -> None:
    (mail.faults / "coordination.left_at_cleared").write_text("kill")
    with mail.running() as worker:
        threading.Thread(target=lambda: _ignored(lambda: mail.listed(within_s=1.0))).start()
        assert worker.wait() == -9
    assert mail.left == [(A, None), (B, None)]
    assert len(mail.remembered) == 1
    with mail.running(lambda session_id, _: verdict if session_id == B else ""):
        wait_until(lambda: mail.remembered == [], "the repair to be settled")
        assert mail.left == [(A, None), (B, after)]


def test_a_request_waits_for_the_end_of_a_repair_that_was_cut_off(mail: Mail) -> None:
    (mail.faults / "coordination.left_at_cleared").write_text("kill")
    with mail.running() as worker:
        threading.Thread(target=lambda: _ignored(lambda: mail.listed(within_s=1.0))).start()
        assert worker.wait() == -9
    # The first question of the start, and that of the request, get no answer.
    with mail.running(lambda session_id, n: None if session_id == B and n <= 3 else ""):
        with pytest.raises(Busy):
            mail.listed(within_s=0.6)
        assert len(mail.remembered) == 1


def test_a_departure_is_never_overwritten_and_reaches_every_mailbox(mail: Mail) -> None:
    with coordination_file(mail.home_dir) as connection:
        add_mailbox(connection, B, C)
    with mail.running():
        for _ in range(2):
            mail.ask(SESSION_DEPART, Depart([B, "session-99"], LATER))
        assert mail.left == [(A, None), (B, STALE), (B, LATER), (C, None)]
        mail.ask(SESSION_DEPART, Depart([A, B, C], TIME))
        assert mail.left == [(A, TIME), (B, STALE), (B, LATER), (C, TIME)]


def test_many_requests_of_one_session_share_one_repair(mail: Mail) -> None:
    with mail.running():
        readers = [threading.Thread(target=listing, args=(mail,)) for _ in range(6)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        assert mail.left == [(A, None), (B, None)]


def test_a_fault_behind_a_commit_ends_the_process_and_the_next_one_reads_what_is_stored(mail: Mail) -> None:
    (mail.faults / "coordination.left_at_cleared").write_text("raise")
    with mail.running() as worker:
        threading.Thread(target=lambda: _ignored(lambda: mail.listed(within_s=1.0))).start()
        assert worker.wait() == EXIT_INTERNAL
        assert "a callback failed" in worker.stderr()
    with mail.running():
        listing(mail)
        assert mail.remembered == []


def _ignored(ask: Callable[[], object]) -> None:
    try:
        ask()
    except TermalError:
        return
