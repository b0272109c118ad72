"""Writers of one board while the processes that it needs are killed in turn: every write once, in its order."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.support.board_http import BoardHttp
from tests.support.daemon import Daemon
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

WRITERS = 4
VICTIMS = ("coordination", "state", "coordination")
LONG_S = 30.0


class Writer:
    """Sets one key again and again, each time over the revision of its last receipt."""

    def __init__(self, daemon: Daemon, path: str, key: str) -> None:
        self._daemon = daemon
        self._path = path
        self.key = key
        self.revision = 0
        self.troubles: list[int] = []

    def work(self, over: threading.Event) -> None:
        with self._daemon.client() as http:
            while not over.is_set():
                body = {
                    "key": self.key,
                    "expectedRevision": self.revision,
                    "idempotencyKey": f"{self.key}-{self.revision}",
                    "value": self.revision,
                }
                receipt = self._until_answered(http, body)
                assert receipt["revision"] == self.revision + 1
                assert receipt["value"] == self.revision
                self.revision += 1

    def _until_answered(self, http: httpx.Client, body: dict[str, object]) -> dict[str, object]:
        for _ in range(100):
            reply = http.post(f"{self._path}/set", json=body)
            if reply.is_success:
                receipt: dict[str, object] = reply.json()
                return receipt
            assert reply.status_code in (503, 504), reply.text
            self.troubles.append(reply.status_code)
        raise AssertionError(f"no answer after {self.troubles}")


def go_on(writers: list[Writer]) -> None:
    """Wait until each of them has written some more."""
    goals = [writer.revision + 5 for writer in writers]
    wait_until(
        lambda: all(writer.revision >= goal for writer, goal in zip(writers, goals, strict=True)),
        "everybody to write",
        LONG_S,
    )


def test_every_write_happens_once_whoever_is_killed(daemon: Daemon, tmp_path: Path) -> None:
    with daemon.client() as http:
        board = BoardHttp(http, tmp_path)
        writers = [Writer(daemon, board.path, f"key-{number}") for number in range(WRITERS)]
        over = threading.Event()
        with ThreadPoolExecutor(WRITERS) as pool:
            try:
                working = [pool.submit(writer.work, over) for writer in writers]
                for victim in VICTIMS:
                    go_on(writers)
                    daemon.kill(victim)
                go_on(writers)
            finally:
                over.set()
            for ended in working:
                ended.result()
        for writer in writers:
            entry = board.get(writer.key).json()
            assert (entry["revision"], entry["value"]) == (writer.revision, writer.revision - 1)
        assert board.page().json()["generation"] == sum(writer.revision for writer in writers)
