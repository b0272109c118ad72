"""Any sequence of sends, repeats, reads, acknowledgements, kills and clock jumps, against a model of plain lists.

After every step each session's list is what the model says. ``MAIL_MACHINE_EXAMPLES`` and ``MAIL_MACHINE_STEPS`` in the
environment ask for more or longer sequences.
"""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from termal.rules.mail import mail_preview
from termal.wire.errors import Conflict, TermalError
from termal.wire.mail_operations import MAILBOX_SEND
from tests.support.mail_worker import MailWorker
from tests.support.model_mail import Json, ModelBox, ModelMail

EXAMPLES = int(os.environ.get("MAIL_MACHINE_EXAMPLES", "8"))
STEPS = int(os.environ.get("MAIL_MACHINE_STEPS", "25"))
SESSIONS = ("a", "b", "c")
OUTCOMES = ("queuedBehindActiveTurn", "deliveredToIdleSession", "durableButNotWoken")
CLOCK = """
import os, time
_real, _file = time.time_ns, os.environ.get("TEST_CLOCK", "")

def _shifted():
    try:
        with open(_file) as offset:
            return _real() + int(offset.read() or 0)
    except OSError:
        return _real()

time.time_ns = _shifted
"""
PAIRS = st.permutations(SESSIONS).map(lambda order: order[:2])
NUMBERS = st.integers(-2, 3)


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="tml-"))
        self.clock = self.folder / "clock"
        self.faults = self.folder / "faults"
        (self.folder / "site").mkdir()
        (self.folder / "site" / "sitecustomize.py").write_text(CLOCK)
        self.mail = MailWorker(self.folder / "home", self.folder)
        self.environment = {"PYTHONPATH": str(self.folder / "site"), "TEST_CLOCK": str(self.clock)}
        self.model = ModelMail()
        self.mail.start(faults=self.faults, environment=self.environment)

    def teardown(self) -> None:
        self.mail.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    # ----------------------------------------------------------------------- sends

    @rule(pair=PAIRS, key=st.sampled_from("123456789"), text=st.sampled_from(["x", "y z", "long " * 40]))
    def send(self, pair: list[str], key: str, text: str) -> None:
        sender, target = pair
        known = self.model.keys.get((sender, key))
        if known is not None and known[0] != (target, text):
            with pytest.raises(Conflict):
                self.mail.send(sender, target, key, message=text)
            return
        receipt = self.mail.send(sender, target, key, message=text)
        self.sent(sender, target, key, text, receipt, self.mail.wake.outcome)

    @rule(pair=PAIRS, key=st.sampled_from("123456789"), point=st.sampled_from(["in_group", "after_commit"]))
    def send_while_the_worker_is_killed(self, pair: list[str], key: str, point: str) -> None:
        """Before the commit, or behind it: whoever asks gets one message and a receipt."""
        sender, target = pair
        if (sender, key) in self.model.keys:
            return
        (self.faults / f"coordination.{point}").write_text("kill")
        outcome = self.mail.begin(MAILBOX_SEND, self.mail.mail(sender, target, key, message="killed"))
        self.mail.process.wait()
        self.replace()
        receipt = self.mail.receipt(outcome)
        assert receipt["duplicate"] is (point == "after_commit")
        recorded = "durableButNotWoken" if receipt["duplicate"] else self.mail.wake.outcome
        self.sent(sender, target, key, "killed", {**receipt, "duplicate": False}, recorded)

    def sent(self, sender: str, target: str, key: str, text: str, receipt: Json, outcome: str) -> None:
        known = self.model.keys.get((sender, key))
        if known is not None:
            assert receipt == {**known[1], "duplicate": True}
            return
        box = self.model.box(sender, target)
        sequence, depth = box.append(sender, target, text)
        box.id = box.id or receipt["mailboxId"]
        assert receipt == {
            "mailboxId": box.id,
            "messageId": receipt["messageId"],
            "sequence": sequence,
            "unreadDepth": depth,
            "notificationDisposition": outcome,
            "duplicate": False,
        }
        self.model.keys[sender, key] = ((target, text), receipt)

    @rule(outcome=st.sampled_from(OUTCOMES))
    def wake_says_something_else(self, outcome: str) -> None:
        self.mail.wake.outcome = outcome

    # --------------------------------------------------------------- reads and acks

    @rule(pair=PAIRS, after=st.integers(0, 6), limit=st.integers(0, 4))
    def read(self, pair: list[str], after: int, limit: int) -> None:
        box = self.model.of(pair[0]).get(pair[1])
        if box is None:
            return
        page = self.mail.read(pair[0], box.id, after, limit)
        wanted = list(enumerate(box.messages, 1))[after : after + max(limit, 1)]
        assert [
            (one["sequence"], (one["senderSessionId"], one["targetSessionId"], one["body"])) for one in page
        ] == wanted

    @rule(pair=PAIRS, expected=NUMBERS, through=NUMBERS)
    def acknowledge(self, pair: list[str], expected: int, through: int) -> None:
        """Numbers around the cursor, right ones and wrong ones."""
        box = self.model.of(pair[0]).get(pair[1])
        if box is None:
            return
        cursor = box.cursors[pair[0]]
        expected, through = max(0, cursor + expected), max(0, cursor + through)
        status = box.acknowledge(pair[0], expected, through)
        if status == 200:
            check_summary(self.mail.acknowledge(pair[0], box.id, expected, through), box, pair[0])
            return
        with pytest.raises(TermalError) as refused:
            self.mail.acknowledge(pair[0], box.id, expected, through)
        assert refused.value.status == status

    # -------------------------------------------------------------------- accidents

    @rule(graceful=st.booleans())
    def the_worker_is_replaced(self, graceful: bool) -> None:
        if graceful:
            assert self.mail.process.stop() == 0
        else:
            self.mail.process.kill()
        self.replace()

    @rule(hours=st.integers(-50, 50))
    def the_clock_jumps(self, hours: int) -> None:
        self.clock.write_text(str(hours * 3600 * 10**9))

    def replace(self) -> None:
        self.mail.start("replacement", faults=self.faults, environment=self.environment)

    @invariant()
    def lists_are_those_of_the_model(self) -> None:
        for session_id in SESSIONS:
            boxes = {box.id: box for box in self.model.of(session_id).values()}
            listed = self.mail.mailboxes(session_id)
            assert {mailbox["id"] for mailbox in listed} == set(boxes)
            for mailbox in listed:
                check_summary(mailbox, boxes[mailbox["id"]], session_id)
            by_id = sorted(listed, key=lambda mailbox: str(mailbox["id"]))
            assert listed == sorted(by_id, key=lambda mailbox: str(mailbox["latestMessageAt"]), reverse=True)


def check_summary(mailbox: dict[str, Any], box: ModelBox, session_id: str) -> None:
    cursors = {one["sessionId"]: one["processedThrough"] for one in mailbox["participants"]}
    assert cursors == box.cursors
    assert mailbox["unreadCount"] == box.unread(session_id)
    assert mailbox["latestSequence"] == len(box.messages)
    assert mailbox["latestMessagePreview"] == mail_preview(box.messages[-1][2])


@pytest.mark.chaos
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_mail_is_what_a_model_says_whatever_happens() -> None:
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=EXAMPLES, stateful_step_count=STEPS, deadline=None, phases=(Phase.explicit, Phase.generate)
        ),
    )
