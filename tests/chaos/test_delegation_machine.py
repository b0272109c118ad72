"""Delegations as a state machine: whatever is asked and whenever state is killed, what is shown is what was done."""

import contextlib
import os

import pytest
from hypothesis import settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from termal.wire.delegation_operations import DELEGATION_WAIT
from termal.wire.errors import Conflict
from tests.support.delegating import Delegating, House, a_house, packet
from tests.support.state_worker import Json
from tests.support.waiting import wait_until

EXAMPLES = int(os.environ.get("DELEGATION_MACHINE_EXAMPLES", "6"))
STEPS = int(os.environ.get("DELEGATION_MACHINE_STEPS", "12"))
ENDS = {"completed": ("completed", packet("Well.")), "failed": ("failed", None)}
LIMIT = 4
MODES = strategies.sampled_from(["any", "all"])


class Machine(RuleBasedStateMachine):
    """``status`` is what each delegation must be; ``waits`` what each wait watches, with its mode."""

    house: House

    def __init__(self) -> None:
        super().__init__()
        self.work: Delegating = self.house.work()
        self.spawned: list[Json] = []
        self.status: dict[str, str] = {}
        self.gone: set[str] = set()
        self.waits: dict[str, tuple[list[str], str]] = {}
        self.met: set[str] = set()

    # -------------------------------------------------------------------------- rules

    @precondition(lambda self: self.active() < LIMIT)
    @rule()
    def spawn(self) -> None:
        made = self.work.spawn()
        self.spawned.append(made)
        self.status[self.name(made)] = "running"

    @precondition(lambda self: self.active() == LIMIT)
    @rule()
    def spawn_too_many(self) -> None:
        with contextlib.suppress(Conflict):
            self.work.spawn()
            raise AssertionError("a fifth delegation was made")

    @precondition(lambda self: self.active() > 0)
    @rule(choice=strategies.integers(0, 9), end=strategies.sampled_from(sorted(ENDS)))
    def finish(self, choice: int, end: str) -> None:
        made = self.pick("running", choice)
        outcome, text = ENDS[end]
        self.work.finish(made, text, outcome=outcome, detail="" if text else "boom")
        self.become(made, end)

    @precondition(lambda self: self.spawned)
    @rule(choice=strategies.integers(0, 9))
    def cancel(self, choice: int) -> None:
        made = self.spawned[choice % len(self.spawned)]
        answer = self.work.cancel(made)["delegation"]["status"]
        if self.status[self.name(made)] == "running":
            assert answer == "canceled"
            self.become(made, "canceled")
        assert answer == self.status[self.name(made)]

    @precondition(lambda self: self.over() and self.active() < LIMIT)
    @rule(choice=strategies.integers(0, 9))
    def follow_up(self, choice: int) -> None:
        made = self.over()[choice % len(self.over())]
        self.work.follow_up(made)
        self.status[self.name(made)] = "running"

    @precondition(lambda self: self.spawned)
    @rule(
        first=strategies.integers(0, 9), second=strategies.integers(0, 9), mode=strategies.sampled_from(["any", "all"])
    )
    def wait(self, first: int, second: int, mode: str) -> None:
        ids = list(dict.fromkeys(self.name(self.spawned[number % len(self.spawned)]) for number in (first, second)))
        pending = self.work.waiting(ids, mode=mode)
        answer = self.work.state.json(DELEGATION_WAIT, pending)
        self.waits[pending.wait_id] = (ids, mode)
        self.look()
        assert answer["resumePromptQueued"] == (pending.wait_id in self.met)

    @precondition(lambda self: len(self.gone) < len(self.spawned))
    @rule(choice=strategies.integers(0, 9))
    def remove_child(self, choice: int) -> None:
        there = [made for made in self.spawned if self.name(made) not in self.gone]
        made = there[choice % len(there)]
        self.work.state.kill_session(made["delegation"]["childSessionId"])
        self.gone.add(self.name(made))
        if self.status[self.name(made)] == "running":
            self.become(made, "failed")

    @rule()
    def kill(self) -> None:
        self.house.state.kill()
        self.house.state.start("replacement", running=["runtime-acp"], environment=self.house.environment)

    # ---------------------------------------------------------------------- what holds

    @invariant()
    def every_status_is_shown(self) -> None:
        listed = {one["id"]: one for one in self.work.listed()}
        assert {name: one["status"] for name, one in listed.items()} == self.status
        for name, one in listed.items():
            assert ("result" in one) == (self.status[name] != "running")

    @invariant()
    def exactly_the_waits_that_are_not_met_are_pending(self) -> None:
        pending = {wait["id"] for wait in self.work.state.state().get("delegationWaits", [])}
        assert pending & set(self.waits) == set(self.waits) - self.met

    @invariant()
    def every_met_wait_resumes_its_parent_once(self) -> None:
        for wait_id in self.met:
            wait_until(lambda name=wait_id: self.told(name), f"{wait_id} to be told")  # type: ignore[misc]
            assert self.told(wait_id) == 1

    # ------------------------------------------------------------------------- reading

    def told(self, wait_id: str) -> int:
        """How often the parent is, or will be, resumed by it; its turns end at once."""
        for turn in self.work.turns_of(self.work.parent):
            if not turn.events:
                self.work.runtime.end(turn, wait=False)
        line = f"Wait id: {wait_id}\n"
        sent = [turn for turn in self.work.turns_of(self.work.parent) if line in turn.start.prompt]
        return len(sent)

    @staticmethod
    def name(made: Json) -> str:
        return str(made["delegation"]["id"])

    def active(self) -> int:
        return list(self.status.values()).count("running")

    def over(self) -> list[Json]:
        return [
            made
            for made in self.spawned
            if self.status[self.name(made)] in ("completed", "failed") and self.name(made) not in self.gone
        ]

    def pick(self, status: str, choice: int) -> Json:
        found = [made for made in self.spawned if self.status[self.name(made)] == status]
        return found[choice % len(found)]

    def become(self, made: Json, status: str) -> None:
        self.status[self.name(made)] = status
        self.look()

    def look(self) -> None:
        """Which waits are met by now; met ones stay so."""
        for wait_id, (ids, mode) in self.waits.items():
            over = [self.status[name] != "running" for name in ids]
            if any(over) if mode == "any" else all(over):
                self.met.add(wait_id)

    def teardown(self) -> None:
        with contextlib.suppress(Conflict):
            self.work.state.kill_session(self.work.parent)


@pytest.mark.chaos
def test_delegations_are_what_was_done_to_them() -> None:
    with a_house() as house:
        Machine.house = house
        run_state_machine_as_test(Machine, settings=settings(max_examples=EXAMPLES, stateful_step_count=STEPS))
