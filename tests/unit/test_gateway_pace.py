"""Long work gives way to those who ask meanwhile, and to nobody else."""

from termal.gateway.meters import Meters
from termal.gateway.pace import LONGEST_PAUSE_S, SHARE, Pace


def test_alone_it_goes_at_full_speed() -> None:
    meters = Meters()
    meters.begun = 7
    pace = Pace(meters)
    assert [pace.pause_s(0.01), pace.pause_s(0.01)] == [0.0, 0.0]


def test_it_pauses_once_for_all_that_came_in_a_slice() -> None:
    meters = Meters()
    pace = Pace(meters)
    meters.begun += 3
    assert [pace.pause_s(0.002), pace.pause_s(0.002)] == [SHARE * 0.002, 0.0]
    meters.begun += 1
    assert pace.pause_s(0.002) == SHARE * 0.002


def test_a_slow_slice_does_not_make_it_wait_for_ever() -> None:
    meters = Meters()
    pace = Pace(meters)
    meters.begun += 1
    assert pace.pause_s(30.0) == LONGEST_PAUSE_S
