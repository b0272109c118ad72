"""One round of the promise that a wait keeps: children, a wait, a kill somewhere, and the parent is resumed once."""

import json
import random
from pathlib import Path

from termal.wire.delegation_operations import DELEGATION_WAIT
from termal.wire.turns import TextDelta
from tests.support.delegating import Delegating, House, packet
from tests.support.waiting import wait_until

POINTS = (
    "state.before_commit",
    "state.after_commit_before_reply",
    "state.wait_met_before_dispatch",
    "state.after_turn_end_before_drain",
    "state.in_dispatch",
    "state.after_turn_start_sent",
)
LIMIT_S = 20.0


def one_round(house: House, folder: Path, chance: random.Random, kill: tuple[str, int] | None = None) -> bool:
    """Whether state was killed in it: at the point, and the time that it is passed, of ``kill``, else wherever chance
    says, if it comes so far. Fails where the parent is not resumed exactly once."""
    folder.mkdir(parents=True)
    work = house.work()
    children = [work.spawn() for _ in range(chance.randint(1, 3))]
    turns = [work.child_turn(child) for child in children]
    pending = work.waiting([child["delegation"]["id"] for child in children], mode=chance.choice(["any", "all"]))
    _restart(house, faults=folder)
    point, count = kill or (chance.choice(POINTS), chance.randint(1, 4))
    (folder / point).write_text(f"kill {count}", "utf-8")
    asked = house.state.begin(DELEGATION_WAIT, pending)
    for turn in turns:
        work.runtime.report(turn, TextDelta("1", packet(pending.wait_id)), wait=False)
        work.finish_now(turn)
    wait_until(lambda: not house.state.client.up or work.turns_of(work.parent), "a kill or the end", LIMIT_S)
    killed = not (folder / point).exists()
    _restart(house, faults=None)
    assert json.loads(asked.reply().json)["wait"]["id"] == pending.wait_id
    for turn in turns:
        work.runtime.wait_confirmed(turn)
    wait_until(lambda: work.turns_of(work.parent), "the parent to be resumed", LIMIT_S)
    _check(house, work, pending.wait_id)
    return killed


def _restart(house: House, *, faults: Path | None) -> None:
    house.state.kill()
    house.state.start("replacement", running=["runtime-acp"], environment=house.environment, faults=faults)


def _check(house: House, work: Delegating, wait_id: str) -> None:
    waits = house.state.state().get("delegationWaits", [])
    assert wait_id not in [wait["id"] for wait in waits]
    told = [turn for turn in work.turns_of(work.parent) if f"Wait id: {wait_id}" in turn.start.prompt]
    assert (len(told), len(work.turns_of(work.parent)), work.queue()) == (1, 1, [])
