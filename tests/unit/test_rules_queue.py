"""Where a prompt goes and what starts: every row of the queue's table."""

import pytest

from termal.model.stored import QueueSource
from termal.rules.queue import Placement, drains, drains_after_loss, place_prompt

U: QueueSource = "user"
M: QueueSource = "mailbox"
W: QueueSource = "orchestrator"


@pytest.mark.parametrize(
    ("queue", "busy", "blocked", "expected"),
    [
        pytest.param([], True, False, Placement((0,), start=False), id="busy-empty-queue-waits"),
        pytest.param([U, W], True, True, Placement((0, 1, 2), start=False), id="busy-appends-even-when-blocked"),
        pytest.param([], False, False, Placement((0,), start=True), id="free-starts"),
        pytest.param([], False, True, Placement((0,), start=True), id="free-blocked-empty-starts"),
        pytest.param([U], False, False, Placement((0, 1), start=True), id="older-prompt-starts-first"),
        pytest.param([W], False, False, Placement((0, 1), start=True), id="older-workflow-prompt-starts-first"),
        pytest.param([W, U], False, True, Placement((1, 2, 0), start=True), id="blocked-users-move-ahead"),
        pytest.param([U, W, U], False, True, Placement((0, 2, 3, 1), start=True), id="blocked-users-stay-in-order"),
        pytest.param([W], False, True, Placement((1, 0), start=True), id="blocked-no-user-new-one-starts"),
        pytest.param([M, W], False, True, Placement((2, 0, 1), start=True), id="blocked-wakes-are-no-users"),
    ],
)
def test_a_prompt_is_placed_by_the_table(
    queue: list[QueueSource], busy: bool, blocked: bool, expected: Placement
) -> None:
    assert place_prompt(queue, busy=busy, blocked=blocked) == expected


@pytest.mark.parametrize(
    ("queue", "blocked", "after_end", "after_loss"),
    [
        pytest.param([], False, False, False, id="empty"),
        pytest.param([U], False, True, False, id="user-waits-after-a-loss"),
        pytest.param([W], False, True, True, id="workflow-is-an-activation"),
        pytest.param([M, W], False, True, True, id="wake-in-front-of-workflow"),
        pytest.param([U, W], False, True, False, id="user-is-a-barrier"),
        pytest.param([M, U, W], False, True, False, id="user-behind-a-wake-is-a-barrier"),
        pytest.param([M], False, True, False, id="wake-alone-waits"),
        pytest.param([W], True, False, False, id="blocked"),
    ],
)
def test_what_starts_after_a_turn(queue: list[QueueSource], blocked: bool, after_end: bool, after_loss: bool) -> None:
    assert drains(queue, blocked=blocked) is after_end
    assert drains_after_loss(queue, blocked=blocked) is after_loss
