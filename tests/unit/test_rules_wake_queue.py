"""Where a wake goes: at the back or in place of an older one of its mailbox, and when that starts a turn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termal.model.stored import QueueSource
from termal.rules.wake_queue import place_wake

U, M, O = "user", "mailbox", "orchestrator"  # noqa: E741 - one letter for each source of a queue


@pytest.mark.parametrize(
    ("queue", "held", "busy", "blocked", "order", "start"),
    [
        pytest.param([], None, False, False, (0,), True, id="idle, nothing queued: it starts"),
        pytest.param([], None, False, True, (0,), True, id="blocked, nothing queued: it starts"),
        pytest.param([], None, True, False, (0,), False, id="busy, nothing queued: it waits"),
        pytest.param([M, U], 0, True, False, (0, 1), False, id="busy, held: in place"),
        pytest.param([U, O], None, True, True, (0, 1, 2), False, id="busy, not held: at the back"),
        pytest.param([U, M], 1, False, False, (0, 1), True, id="idle, held: in place, the head starts"),
        pytest.param([O, M], 1, False, True, (0, 1), False, id="blocked, held, no user: nothing starts"),
        pytest.param([O, M, U], 1, False, True, (2, 0, 1), True, id="blocked, held, a user: users first"),
        pytest.param([U], None, False, False, (0, 1), True, id="idle, not held: at the back, the head starts"),
        pytest.param([O], None, False, True, (0, 1), False, id="blocked, not held, no user: nothing starts"),
        pytest.param([O, U, M, U], None, False, True, (1, 3, 0, 2, 4), True, id="blocked, not held: users first"),
    ],
)
def test_each_row_of_the_table(
    queue: list[QueueSource], held: int | None, busy: bool, blocked: bool, order: tuple[int, ...], start: bool
) -> None:
    assert place_wake(queue, held, busy=busy, blocked=blocked) == (order, start)


@given(st.lists(st.sampled_from([U, M, O])), st.booleans(), st.booleans(), st.data())
def test_nothing_is_lost_and_nobody_overtakes_their_own_kind(
    queue: list[QueueSource], busy: bool, blocked: bool, data: st.DataObject
) -> None:
    wakes = [place for place, source in enumerate(queue) if source == M]
    held = data.draw(st.sampled_from([None, *wakes]))
    order, start = place_wake(queue, held, busy=busy, blocked=blocked)
    assert sorted(order) == list(range(len(queue) + (held is None)))
    kinds = [*queue, M]
    for kind in (U, M, O):
        places = [place for place in order if kinds[place] == kind]
        assert places == sorted(places)
    assert not (busy and start)
