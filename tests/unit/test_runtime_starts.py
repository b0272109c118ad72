"""Agents that end right after their start: pauses that grow, a place to park, and what ends either."""

from workers.runtime import starts as module
from workers.runtime.starts import Starts


class Clock:
    def __init__(self) -> None:
        self.at_s = 100.0

    def __call__(self) -> float:
        return self.at_s


def exits(starts: Starts, clock: Clock, times: int, session_id: str = "session-1") -> str:
    """So many starts one after the other, each after the pause of the one before."""
    said = ""
    for _ in range(times):
        clock.at_s += 60.0
        said = starts.exited("Mine", session_id, "it ended at once: no such file", began_s=clock())
    return said


def test_an_agent_that_never_failed_may_be_started() -> None:
    assert Starts(Clock()).why_not("Mine", "session-1") is None


def test_each_further_exit_makes_the_next_start_wait_longer() -> None:
    clock = Clock()
    starts = Starts(clock)
    waits = []
    for _ in range(module.MOST_EXITS - 1):
        exits(starts, clock, 1)
        waits.append(starts.troubles["Mine"].until_s - clock())
        assert starts.why_not("Mine", "session-1") is not None
        clock.at_s = starts.troubles["Mine"].until_s
        assert starts.why_not("Mine", "session-1") is None, "the pause is over"
    assert waits == [0.5, 1.0, 2.0, 4.0]


def test_too_many_in_a_row_park_it_and_say_what_to_do() -> None:
    clock = Clock()
    starts = Starts(clock)
    assert exits(starts, clock, module.MOST_EXITS - 1) == "it ended at once: no such file"
    said = exits(starts, clock, 1)
    assert "it ended at once: no such file. " in said
    assert "`termal agents --retry Mine`" in said
    clock.at_s += 1e6
    assert starts.why_not("Mine", "session-1") == said
    assert starts.troubles["Mine"].parked
    assert starts.why_not("Other", "session-1") is None


def test_a_start_that_succeeds_begins_the_count_anew() -> None:
    clock = Clock()
    starts = Starts(clock)
    exits(starts, clock, module.MOST_EXITS - 1)
    starts.came_up("Mine")
    exits(starts, clock, 1)
    assert starts.troubles["Mine"].exits == 1


def test_starts_that_were_under_way_together_count_once() -> None:
    clock = Clock()
    starts = Starts(clock)
    began_s = clock()
    clock.at_s += 1.0
    for number in range(20):
        starts.exited("Mine", f"session-{number}", "it ended", began_s=began_s)
    assert starts.troubles["Mine"].exits == 1


def test_whoever_listens_hears_of_each_change_and_of_no_other() -> None:
    clock = Clock()
    starts = Starts(clock)
    heard: list[int] = []
    starts.on_changed.append(lambda: heard.append(len(starts.troubles)))
    starts.came_up("Mine")
    starts.forgive_all()
    assert heard == []
    exits(starts, clock, 2)
    starts.forgive("Mine")
    exits(starts, clock, 1)
    starts.forgive_all()
    assert heard == [1, 1, 0, 1, 0]


def test_a_session_in_which_alone_it_ends_is_the_only_one_that_it_is_parked_in() -> None:
    clock = Clock()
    starts = Starts(clock)
    said = exits(starts, clock, module.MOST_EXITS)
    assert "in session-1, the only session concerned: " in said
    assert starts.why_not("Mine", "session-2") == said, "a pause is one for all"
    clock.at_s = starts.troubles["Mine"].until_s
    assert (starts.why_not("Mine", "session-1"), starts.why_not("Mine", "session-2")) == (said, None)

    said = exits(starts, clock, 1, "session-2")
    assert "the only session" not in said
    clock.at_s = starts.troubles["Mine"].until_s
    assert {starts.why_not("Mine", f"session-{number}") for number in (1, 2, 3)} == {said}


def test_sessions_that_shared_the_last_attempt_are_several() -> None:
    clock = Clock()
    starts = Starts(clock)
    exits(starts, clock, module.MOST_EXITS - 1)
    heard: list[str] = []
    starts.on_changed.append(lambda: heard.append(starts.troubles["Mine"].only))
    clock.at_s += 60.0
    began_s = clock()
    clock.at_s += 1.0
    said = [starts.exited("Mine", f"session-{number}", "it ended", began_s=began_s) for number in (1, 1, 2, 3)]
    assert heard == ["session-1", ""]
    assert starts.troubles["Mine"].exits == module.MOST_EXITS
    clock.at_s += 1e6
    assert starts.why_not("Mine", "session-4") == said[2]


def test_the_longest_pause_is_that_after_which_it_is_parked() -> None:
    clock = Clock()
    starts = Starts(clock)
    exits(starts, clock, 2000)
    assert starts.troubles["Mine"].until_s - clock() == module.FIRST_WAIT_S * 2 ** (module.MOST_EXITS - 1)
