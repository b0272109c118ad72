"""Mail that arrives in the moment in which its receiver's turn ends: woken for exactly once, never parked.

A fault point decides each round's order of the two. ``TERMAL_RACE_ROUNDS`` asks for more rounds than the few of CI.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fake_runtime import FakeTurn
from tests.support.mail_daemon import MailDaemon, receipt
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.slow, pytest.mark.timeout(1800)]

ROUNDS = int(os.environ.get("TERMAL_RACE_ROUNDS", "40"))
ORDERS = (
    None,
    "state.after_turn_end_before_drain",
    "state.after_commit_before_reply",
    "coordination.before_notice",
    "coordination.finalize",
    "wake.before_offer",
    "wake.offered",
    "state.before_commit",
)
LIMIT_S = 20.0


@pytest.fixture
def mail(run_dir: Path) -> Iterator[MailDaemon]:
    daemon = MailDaemon(run_dir)
    try:
        yield daemon.boot()
    finally:
        daemon.close()


class Race:
    """A sends, B's turn ends; `rest` ends what that starts, as an agent that reads its mail and acknowledges it."""

    def __init__(self, mail: MailDaemon) -> None:
        self.mail = mail
        self.a, self.b = mail.state.create(), mail.state.create()
        self.ended: set[str] = set()
        self.box = ""

    def turn(self) -> FakeTurn | None:
        """The running turn of B."""
        return next((turn for turn in self.mail.runtime.turns if turn.id not in self.ended), None)

    def begin(self, number: int) -> FakeTurn:
        self.mail.state.send(self.b, f"work {number}")
        return wait_until(self.turn, "the turn of B", LIMIT_S)

    def end(self, turn: FakeTurn, *, wait: bool = True) -> None:
        self.ended.add(turn.id)
        self.mail.runtime.end(turn, wait=wait)

    def run(self, number: int, point: str | None) -> None:
        """One round: message ``number`` meets the end of B's turn, in the order that ``point`` makes."""
        mail, turn = self.mail, self.begin(number)
        if point is not None:
            for suffix in (".held", ".go"):
                (mail.faults / f"{point}{suffix}").unlink(missing_ok=True)
            mail.arm(point, "hold")
        of_state = point is not None and point.startswith("state.")
        if of_state:
            self.end(turn, wait=False)
            mail.wait_held(str(point))
        outcome = mail.begin_send(self.a, self.b, f"k{number}")
        if point is None:
            self.end(turn, wait=False)
        elif not of_state:
            mail.wait_held(point)
            self.end(turn, wait=False)
            if not point.startswith("wake."):
                mail.runtime.wait_confirmed(turn)
        if point is not None:
            mail.go(point)
            (mail.faults / point).unlink(missing_ok=True)
        self.box = receipt(outcome, LIMIT_S)["mailboxId"]
        self.rest(number)

    def undelivered(self) -> int:
        query = "SELECT count(*) FROM mailbox_messages WHERE notification_disposition <> 'deliveredToIdleSession'"
        return int(self.mail.rows(query)[0][0])

    def rest(self, number: int) -> None:
        woken = wait_until(self.turn, f"a turn for message {number}", LIMIT_S)
        wait_until(lambda: self.undelivered() == 0, "the message to be delivered", LIMIT_S)
        self.mail.acknowledge(self.b, self.box, number - 1, number)
        self.end(woken)
        wait_until(lambda: self.mail.state.status(self.b) == "idle" and not self.mail.queue(self.b), "rest", LIMIT_S)


def test_mail_at_the_end_of_a_turn_is_woken_for_once(mail: MailDaemon) -> None:
    race = Race(mail)
    for number in range(1, ROUNDS + 1):
        before = len(mail.runtime.turns)
        race.run(number, ORDERS[number % len(ORDERS)])
        turns = mail.runtime.turns[before:]
        assert len(turns) == 2, f"round {number}: {[turn.start.prompt[:60] for turn in turns]}"
        assert turns[0].start.prompt == f"work {number}"
        assert f"#{number} from" in turns[1].start.prompt
