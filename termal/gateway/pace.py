"""How fast long work goes on beside other requests: at full speed alone, in a small share of the time otherwise."""

from termal.gateway.meters import Meters

SHARE = 8
"""While others ask for something, a pause is so many times as long as the slice before it: the machine is theirs."""
LONGEST_PAUSE_S = 0.1


class Pace:
    """Of one request that is served in slices.

    PERF: a send took more than twice as long beside an import. Nobody waits for a long transcript as people and agents
    do for each other.
    """

    def __init__(self, meters: Meters) -> None:
        self._meters = meters
        self._begun = meters.begun

    def pause_s(self, slice_s: float) -> float:
        """The pause after a slice of ``slice_s`` seconds; none when no other request came since the one before it."""
        begun, self._begun = self._begun, self._meters.begun
        return min(LONGEST_PAUSE_S, SHARE * slice_s) if self._begun != begun else 0.0
