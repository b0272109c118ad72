"""The restart policy, the judgements on silence and health, and the tree that production runs."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.health import judge_daemon, judge_silence
from supervisor.output import mask, one_line
from supervisor.policy import (
    Ended,
    GiveUp,
    History,
    Hold,
    RestartAt,
    RestartNow,
    Rules,
    Verdict,
    next_restart,
    remember,
)
from supervisor.tree import Limits, Role, production
from termal.model.status import DaemonState, ProcessReport, ProcessState

RULES = Rules()
CRASH = Ended(code=1)


def live_through(ends: list[tuple[float, Ended]], *, jitter: float = 0.0) -> list[Verdict]:
    """The verdicts on runs that ended at these times."""
    history, verdicts = History(), []
    for now, ended in ends:
        history = remember(history, ended, now, RULES)
        verdicts.append(next_restart(history, ended, now, jitter=jitter, rules=RULES))
    return verdicts


def test_the_first_restart_is_immediate() -> None:
    assert live_through([(100.0, CRASH)]) == [RestartNow()]


def test_delays_double_from_a_tenth_of_a_second_up_to_five() -> None:
    # Far enough apart that the window never fills.
    times = [100.0 + 10 * number for number in range(9)]
    delays = [
        v.at - now
        for now, v in zip(times, live_through([(at, CRASH) for at in times]), strict=True)
        if isinstance(v, RestartAt)
    ]
    assert delays == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0])


@pytest.mark.parametrize(("jitter", "delay_s"), [(-1.0, 0.08), (0.0, 0.1), (1.0, 0.12)])
def test_jitter_spreads_a_delay_by_a_fifth(jitter: float, delay_s: float) -> None:
    last = live_through([(100.0, CRASH), (101.0, CRASH)], jitter=jitter)[-1]
    assert isinstance(last, RestartAt)
    assert last.at - 101.0 == pytest.approx(delay_s)


def test_a_run_that_was_healthy_for_a_minute_wipes_the_slate() -> None:
    verdicts = live_through([(100.0, CRASH), (101.0, CRASH), (102.0, CRASH), (170.0, Ended(1, served_s=60.0))])
    assert verdicts[-1] == RestartNow()


def test_a_run_that_served_a_little_less_does_not() -> None:
    verdicts = live_through([(100.0, CRASH), (101.0, CRASH), (170.0, Ended(1, served_s=59.9))])
    assert isinstance(verdicts[-1], RestartAt)


def test_the_sixth_end_within_thirty_seconds_holds_the_worker() -> None:
    verdicts = live_through([(100.0 + number, CRASH) for number in range(6)])
    assert [type(verdict) for verdict in verdicts[:5]] == [RestartNow, *[RestartAt] * 4]
    assert verdicts[5] == Hold(until=135.0)


def test_a_held_worker_gets_one_attempt_each_thirty_seconds_and_not_a_new_series() -> None:
    series = [(100.0 + number, CRASH) for number in range(6)]
    verdicts = live_through([*series, (136.0, CRASH), (167.0, Ended(1, served_s=20.0))])
    assert verdicts[6:] == [Hold(until=166.0), Hold(until=197.0)]


def test_an_attempt_that_stays_healthy_ends_the_hold() -> None:
    series = [(100.0 + number, CRASH) for number in range(6)]
    assert live_through([*series, (300.0, Ended(1, served_s=90.0))])[-1] == RestartNow()


def test_two_starts_in_a_row_that_never_became_ready_hold_the_worker() -> None:
    missed = Ended(code=None, missed_start=True)
    assert live_through([(100.0, missed), (130.0, missed)]) == [RestartNow(), Hold(until=160.0)]


def test_a_missed_start_between_other_ends_is_an_end_like_others() -> None:
    missed = Ended(code=None, missed_start=True)
    verdicts = live_through([(100.0, missed), (131.0, CRASH), (165.0, missed)])
    assert [type(verdict) for verdict in verdicts] == [RestartNow, RestartAt, RestartAt]


@pytest.mark.parametrize("code", [64, 65])
def test_a_worker_that_refuses_is_never_started_again(code: int) -> None:
    assert live_through([(100.0, Ended(code))]) == [GiveUp(code)]


@pytest.mark.parametrize("code", [0, 1, 66, 70, 127, None])
def test_every_other_end_is_worth_another_try(code: int | None) -> None:
    assert live_through([(100.0, Ended(code))]) == [RestartNow()]


ENDS = st.lists(
    st.tuples(
        st.floats(0.0, 200.0),
        st.builds(
            Ended,
            st.sampled_from([None, 0, 1, 70]),
            st.none() | st.floats(0.0, 100.0),
            st.booleans(),
        ),
    ),
    max_size=40,
)


@given(ENDS, st.floats(-1.0, 1.0))
def test_whatever_happens_a_restart_is_never_in_the_past_nor_later_than_the_hold(
    gaps: list[tuple[float, Ended]], jitter: float
) -> None:
    now, ends = 0.0, []
    for gap, ended in gaps:
        now += gap
        ends.append((now, ended))
    for (at, _), verdict in zip(ends, live_through(ends, jitter=jitter), strict=True):
        assert not isinstance(verdict, GiveUp)
        if isinstance(verdict, RestartAt):
            assert at < verdict.at <= at + RULES.longest_s * 1.2
        if isinstance(verdict, Hold):
            assert verdict.until == at + RULES.hold_s


@given(st.lists(st.floats(0.0, 3.0), min_size=40, max_size=40))
def test_a_crash_loop_gets_at_most_five_restarts_within_any_thirty_seconds_before_it_is_held(gaps: list[float]) -> None:
    now, times = 0.0, []
    for gap in gaps:
        now += gap
        times.append(now)
    verdicts = live_through([(at, CRASH) for at in times])
    first_hold = next((index for index, verdict in enumerate(verdicts) if isinstance(verdict, Hold)), len(times))
    for index in range(first_hold):
        within = [at for at in times[: index + 1] if times[index] - at <= RULES.window_s]
        assert len(within) <= RULES.most
    assert all(isinstance(verdict, Hold) for verdict in verdicts[first_hold:])


@given(st.integers(1, 5000))
def test_a_long_life_of_crashes_neither_overflows_nor_remembers_more_than_the_window(count: int) -> None:
    history = History()
    for number in range(count % 60 + 1):
        history = remember(history, CRASH, number * 7.0, RULES)
    history = History(history.ends, count * 1000, 0, held=False)
    assert len(history.ends) <= RULES.window_s / 7 + 1
    assert next_restart(history, CRASH, 1e6, jitter=1.0, rules=RULES) == RestartAt(1e6 + 6.0)


@pytest.mark.parametrize(
    ("silent_s", "verdict"),
    [(0.0, "fine"), (4.9, "fine"), (5.0, "late"), (9.9, "late"), (10.0, "abort"), (99.0, "abort")],
)
def test_silence_is_shown_after_five_seconds_and_ended_after_ten(silent_s: float, verdict: str) -> None:
    assert judge_silence(silent_s, Limits()) == verdict


ROLES: dict[str, Role] = {"state": "core", "coordination": "core", "wake": "optional", "gateway": "essential"}


def rows(**states: ProcessState) -> list[ProcessReport]:
    detail = {"failed": "exit 1"}
    return [ProcessReport(name=name, pid=1, state=state, detail=detail.get(state)) for name, state in states.items()]


@pytest.mark.parametrize(
    ("processes", "serving", "health"),
    [
        pytest.param(
            rows(state="ready", coordination="ready", wake="ready", gateway="ready"), True, ("ok", None), id="all ready"
        ),
        pytest.param(
            rows(state="ready", coordination="ready", wake="ready", gateway="ready", runtime="stopped"),
            True,
            ("ok", None),
            id="a stopped runtime worker is well",
        ),
        pytest.param(
            rows(state="ready", coordination="ready", wake="failed", gateway="ready"),
            True,
            ("degraded", "wake is failed (exit 1)"),
            id="wake held",
        ),
        pytest.param(
            rows(state="ready", coordination="ready", wake="ready", gateway="restarting"),
            True,
            ("degraded", "gateway is restarting"),
            id="gateway away",
        ),
        pytest.param(
            rows(state="restarting", coordination="ready", wake="failed", gateway="ready"),
            True,
            ("down", "state is restarting"),
            id="state away says more than wake",
        ),
        pytest.param(
            rows(state="ready", coordination="unresponsive", wake="ready", gateway="ready"),
            True,
            ("down", "coordination is unresponsive"),
            id="coordination silent",
        ),
        pytest.param([], False, ("down", "starting"), id="nothing there yet"),
        pytest.param(
            rows(state="ready", coordination="ready", wake="starting"),
            False,
            ("down", "starting: wake is starting"),
            id="on the way",
        ),
    ],
)
def test_health_is_down_without_state_or_coordination_and_degraded_without_anything_else(
    processes: list[ProcessReport], serving: bool, health: tuple[DaemonState, str | None]
) -> None:
    assert judge_daemon(processes, ROLES, serving=serving) == health


def test_production_starts_everything_after_what_it_needs_and_stops_it_before() -> None:
    specs = {spec.name: spec for spec in production()}
    assert list(specs) == ["state", "coordination", "wake", "runtime-acp", "runtime-claude", "runtime-codex", "gateway"]
    for spec in specs.values():
        assert all(specs[name].stage < spec.stage for name in spec.after), spec.name
        assert spec.argv[:3] == [sys.executable, "-P", "-m"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ValueError: no such row", "ValueError: no such row"),
        ("a\tb\x1b[31m\nc", "a b [31m c"),
        ("Authorization: Bearer abc.def", "Authorization: [...]"),
        ("API_KEY=abc ok", "API_[...] ok"),
        ("sk-abcdefghijklmnopqrstuvwxyz0123456789 gone", "[...] gone"),
        ("/home/someone/a/rather/long/path/to/something.py", "/home/someone/a/rather/long/path/to/something.py"),
    ],
)
def test_last_words_are_one_line_without_anything_like_a_credential(text: str, shown: str) -> None:
    assert mask(text) == shown
    assert "\n" not in one_line(text)
