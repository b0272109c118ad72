"""Waits for delegations under random kills: no parent is forgotten, none is resumed twice."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.delegating import House, a_house
from tests.support.lost_wakeups import one_round

ROUNDS = int(os.environ.get("TERMAL_WAKEUP_ROUNDS", "24"))
PARTS = 4


@pytest.fixture(scope="module")
def shared_daemon() -> Iterator[House]:
    with a_house() as house:
        yield house


@pytest.mark.chaos
@pytest.mark.timeout(60 + 5 * ROUNDS // PARTS)
@pytest.mark.parametrize("part", range(PARTS))
def test_a_parent_that_waits_is_resumed_exactly_once(shared_daemon: House, tmp_path: Path, part: int) -> None:
    chance = random.Random(part)
    assert one_round(shared_daemon, tmp_path / "first", chance, kill=("state.before_commit", 1))
    for number in range(1, ROUNDS // PARTS):
        one_round(shared_daemon, tmp_path / str(number), chance)
    shared_daemon.warm()
