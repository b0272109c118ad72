"""Which daemon a command speaks to: what it left in its data directory, and whether that process is still the same."""

import os
import time
from pathlib import Path
from typing import TypeVar

import msgspec

from termal.client.errors import Unreachable
from termal.client.http import Http
from termal.home import Home, find_home
from termal.model.message import Record
from termal.model.status import DaemonReport
from termal.procs.tree import identify, start_time
from termal.tokens import read_owner_token
from termal.wire.launch import TOKEN_VARIABLE

START_TOLERANCE_S = 2.0
"""Two readings of one process's start differ by the rounding of ticks and of the boot time; a reused pid by more."""

ANSWER_S = 1.5
"""So long a daemon may take to answer. What a person asks because it hangs must not hang itself: 2 s in all."""
_SHORTEST_S = 0.3

R = TypeVar("R", bound=Record)


class Running(Record, frozen=True):
    """``run/daemon.json``. ``start_time`` in seconds since the epoch: with the pid it names one process for ever."""

    pid: int
    url: str
    version: str = ""
    home: str = ""
    start_time: float | None = None


class NotRunning(Unreachable):
    """Its data directory says that no daemon runs: nobody needs to be asked."""


def read_running(home: Home) -> Running | None:
    """What the newest daemon of this directory wrote of itself; it may be long gone."""
    return _read(home.daemon, Running)


def read_report(home: Home) -> DaemonReport | None:
    """The newest report of the supervisor; it may be as old as its last life."""
    return _read(home.report, DaemonReport)


def is_alive(pid: int | None, start_time_s: float | None) -> bool:
    """Whether that very process runs: the pid alone may be somebody else's by now. A zombie does not run."""
    if pid is None or identify(pid) is None:
        return False
    if start_time_s is None:
        return True
    found = start_time(pid)
    return found is not None and abs(found - start_time_s) <= START_TOLERANCE_S


def address(home: str | None, base_url: str | None) -> str:
    """The URL to call: --base-url, --home, TERMAL_BASE_URL, the usual data directory, in this order.

    Raises `NotRunning` when the directory has no running daemon.
    """
    if base_url:
        return base_url
    if home is None and (named := os.environ.get("TERMAL_BASE_URL")):
        return named
    place = find_home(home)
    running = read_running(place)
    if running is None or not is_alive(running.pid, running.start_time):
        raise NotRunning(f"no daemon runs on {place.root}: start one with `termal serve`")
    return running.url


def is_of(home: str | None, url: str) -> bool:
    """Whether the newest daemon of that directory listens there: what its files say is about nobody else's."""
    running = read_running(find_home(home))
    return running is not None and running.url.rstrip("/") == url.rstrip("/")


def answer_limit_s() -> float:
    """What is left of `ANSWER_S`, counted from the start of this process."""
    started = start_time(os.getpid())
    age_s = time.time() - started if started is not None else 0.0
    return max(_SHORTEST_S, ANSWER_S - max(0.0, age_s))


def connect(home: str | None, base_url: str | None) -> Http:
    """A client of the daemon that the options name. Raises `Unreachable`."""
    url = address(home, base_url)
    return Http(url, token=token_for(home, url))


def token_for(home: str | None, url: str) -> str | None:
    """What opens the daemon at ``url``: ``TERMAL_TOKEN``, else the owner's token of the directory whose daemon listens
    there. No other address ever gets to see that one. Raises `Unreachable` when it cannot be read."""
    named = os.environ.get(TOKEN_VARIABLE)
    if named:
        return named
    if not is_of(home, url):
        return None
    place = find_home(home)
    try:
        return read_owner_token(place.owner_token)
    except (OSError, UnicodeDecodeError) as error:
        raise Unreachable(f"{place.owner_token} cannot be read: {error}") from error


def _read(path: Path, kind: type[R]) -> R | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError):
        return None
