"""A program that writes and acknowledges, to be killed by tests: ``python -m tests.support.store_child PATH ...``.

``PATH FIRST COUNT``: writes the numbered items in one group, prints ``ack N`` for each callback, then ``end``.
``PATH storm KILLS PAGES``: forks a writing process again and again and kills each with SIGKILL at a random moment;
prints ``ack N`` for each acknowledged item of all of them, and ``end``. A log of that many pages is copied to the file.
"""

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from termal.log import Log
from termal.store import checkpoint
from termal.store.connection import Cursorlike
from termal.store.writer import Writer
from tests.support.store_owner import create, insert

_LONGEST_LIFE_S = 0.02


def _say(text: str, fd: int = 1) -> None:
    os.write(fd, f"{text}\n".encode())


class _Program:
    def __init__(self, path: Path) -> None:
        self._notified = threading.Event()
        self._ended = 0
        self.writer = Writer(path, durability="normal", notify=self._notified.set, log=Log("child"))

    def acknowledge(self, number: int, fd: int = 1) -> Callable[[object, Exception | None], None]:
        def done(_: object, error: Exception | None) -> None:
            self._ended += 1
            _say(f"ack {number}" if error is None else f"error {number} {error!r}", fd)

        return done

    def wait(self, count: int) -> None:
        while self._ended < count:
            self._notified.wait(5)
            self._notified.clear()
            self.writer.finish()


def one_group(path: Path, first: int, count: int) -> None:
    program = _Program(path)
    all_there = threading.Event()
    program.writer.submit(create, program.acknowledge(0))
    program.wait(1)

    def hold(_: Cursorlike) -> None:
        all_there.wait(5)

    program.writer.submit(hold, program.acknowledge(0))
    for number in range(first, first + count):
        program.writer.submit(insert(number), program.acknowledge(number))
    all_there.set()
    program.wait(count + 2)
    program.writer.close(time.monotonic() + 5)
    _say("end")


def storm(path: Path, kills: int, pages: int) -> None:
    checkpoint.FULL_PAGES = pages
    first = 1
    for _ in range(kills):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            _until_killed(path, first, write)
        os.close(write)
        first = _live_and_die(child, read, first)
    _say("end")


def _live_and_die(child: int, read: int, first: int) -> int:
    """Kill ``child`` a random while after its first word and pass on its words; the first number for the next one."""
    with os.fdopen(read) as words:
        words.readline()
        time.sleep(random.uniform(0, _LONGEST_LIFE_S))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        acknowledged = [line.strip() for line in words if line.endswith("\n")]
    for word in acknowledged:
        _say(word)
    return first + 100_000


def _until_killed(path: Path, first: int, fd: int) -> None:
    parent = os.getppid()
    program = _Program(path)
    program.writer.submit(create, program.acknowledge(0, fd))
    ended = 1
    while os.getppid() == parent:
        program.wait(ended)
        for _ in range(random.randint(1, 8)):
            program.writer.submit(insert(first), program.acknowledge(first, fd))
            first += 1
            ended += 1
    os._exit(1)


if __name__ == "__main__":
    if sys.argv[2] == "storm":
        storm(Path(sys.argv[1]), int(sys.argv[3]), int(sys.argv[4]))
    else:
        one_group(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
