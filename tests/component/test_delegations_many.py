"""A parent that goes on for long: it has hundreds of delegations, and its transcript may be another one meanwhile."""

import json
from collections.abc import Iterator

import pytest

from termal.wire.delegation_operations import DELEGATION_LIST, DelegationsOf
from termal.wire.errors import Conflict
from termal.wire.thread_operations import THREAD_ROLLBACK, PastItem, RollBack, ThreadDone
from termal.wire.turns import ExternalSession, TextDelta, TextDone
from tests.support.delegating import House, a_house, packet
from tests.support.state_worker import Json
from tests.support.waiting import wait_until

MANY = 400


@pytest.fixture
def house() -> Iterator[House]:
    with a_house() as house:
        yield house


def copied(house: House, spawned: Json, count: int = MANY) -> None:
    """The stored record ``count`` times more, under other ids; their children are gone."""
    house.state.stop()
    house.state.write(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) INSERT INTO delegations"
        " SELECT 'delegation-copy-' || i, json_set(value_json, '$.id', 'delegation-copy-' || i, '$.childSessionId',"
        " 'session-gone-' || i) FROM delegations, n WHERE id = ?",
        (count, spawned["delegation"]["id"]),
    )
    house.state.start(environment=house.environment)
    house.serving()


@pytest.mark.parametrize("handed_in", [True, False], ids=["with-review", "without"])
def test_hundreds_of_reviewers_that_are_over_are_listed(house: House, handed_in: bool) -> None:
    work = house.work()
    spawned = work.spawn(mode="reviewer")
    if handed_in:
        work.submit(spawned)
    work.finish(spawned, packet())
    work.wait_status(spawned, "completed" if handed_in else "failed")
    copied(house, spawned)
    pid = house.state.process.pid
    revision = house.state.state()["revision"]
    for _ in range(2):
        assert len(work.listed()) == MANY + 1
    assert house.state.state()["revision"] == revision
    assert house.state.process.pid == pid
    assert {record["status"] for record in work.listed()} == {"completed" if handed_in else "failed"}


def test_a_delegation_that_ends_while_another_ones_review_is_looked_for_ends_once(house: House) -> None:
    work = house.work()
    running = work.spawn()
    turn = work.child_turn(running)
    work.runtime.report(turn, TextDelta("text", packet("Once.")))
    missing = work.spawn(mode="reviewer")
    work.finish(missing, packet())
    work.wait_status(missing, "failed")
    house.state.kill()
    work.shelf.hold_finds = True
    house.state.start("replacement", running=["runtime-acp"], environment=house.environment)
    asked = house.state.begin(DELEGATION_LIST, DelegationsOf(work.parent))
    wait_until(lambda: work.shelf.held, "the review to be looked for")
    work.finish(running)
    work.wait_told("delegationCompleted")
    work.shelf.hold_finds = False
    work.shelf.release()
    assert {one["status"] for one in json.loads(asked.reply().json)["delegations"]} == {"completed", "failed"}
    house.state.deltas()
    ends = [event for event in work.told("delegationCompleted") if event["delegationId"] == running["delegation"]["id"]]
    assert len(ends) == 1


@pytest.mark.parametrize("said", [0, 1, 4], ids=["shorter", "other-there", "longer"])
def test_a_child_ends_after_its_parents_turns_were_taken_back(house: House, said: int) -> None:
    work = house.work("Codex")
    house.state.send(work.parent, "hello")
    own = wait_until(lambda: work.turns_of(work.parent), "the parent's own turn")[0]
    work.runtime.report(own, ExternalSession("thread-1"), TextDone("t", "hello"))
    work.runtime.end(own)
    house.state.wait_status(work.parent, "idle")
    spawned = work.spawn()
    work.child_turn(spawned)
    pid = house.state.process.pid
    work.runtime.thread = ThreadDone(items=[PastItem("text", f"said {number}") for number in range(said)])
    house.state.json(THREAD_ROLLBACK, RollBack(work.parent, 1))
    before = house.state.read(work.parent)["messages"]
    work.finish(spawned, packet())
    assert work.wait_status(spawned, "completed")
    assert work.follow_up(spawned)["delegation"]["status"] == "running"
    work.cancel(spawned)
    assert house.state.read(work.parent)["messages"] == before
    assert house.state.process.pid == pid


@pytest.mark.slow
def test_two_hundred_delegations_of_one_parent_pass_four_at_a_time(house: House) -> None:
    work = house.work()
    active: list[Json] = []
    for number in range(200):
        if len(active) == 4:
            if number % 50 == 4:
                with pytest.raises(Conflict) as refused:
                    work.spawn()
                assert refused.value.reason == "activeLimit"
            oldest = active.pop(0)
            work.finish(oldest, packet(f"Number {number - 4}."))
            work.wait_status(oldest, "completed")
        active.append(work.spawn())
    for left in active:
        work.finish(left, packet())
        work.wait_status(left, "completed")
    assert [one["status"] for one in work.listed()] == ["completed"] * 200
