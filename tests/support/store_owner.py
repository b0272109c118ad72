"""The owner of a database in tests: stands for the loop that a writer and its readers hand their results to."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from termal.log import Log
from termal.store.connection import Cursorlike, Durability
from termal.store.reader import Reader
from termal.store.writer import Writer
from tests.support.waiting import wait_until

T = TypeVar("T")

CREATE = "CREATE TABLE IF NOT EXISTS items (number INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE)"


class Owner:
    """Opens what a test asks for; `ended` holds the labels of the ended jobs in the order of their callbacks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log_path = path.with_suffix(".log")
        self.log = Log("test", self.log_path)
        self.notified = threading.Event()
        self.ended: list[str] = []
        self.values: dict[str, Any] = {}
        self.errors: dict[str, Exception] = {}
        self.trouble: list[Exception | None] = []
        self.groups: list[float] = []
        self.forgotten = 0
        self.writers: list[Writer] = []
        self.readers: list[Reader] = []

    def writer(self, durability: Durability = "normal", others: Sequence[Callable[[], None]] = ()) -> Writer:
        writer = Writer(
            self.path,
            durability=durability,
            notify=self.notified.set,
            log=self.log,
            on_group=self.groups.append,
            on_trouble=self.trouble.append,
            on_failed=self._forget,
            others=others,
        )
        self.writers.append(writer)
        return writer

    def reader(self, threads: int = 1) -> Reader:
        reader = Reader(self.path, threads=threads, notify=self.notified.set, log=self.log)
        self.readers.append(reader)
        return reader

    def done(self, label: str) -> Callable[[Any, Exception | None], None]:
        def ended(value: Any, error: Exception | None) -> None:
            self.ended.append(label)
            if error is not None:
                self.errors[label] = error
            else:
                self.values[label] = value

        return ended

    def finish(self) -> None:
        for writer in self.writers:
            writer.finish()
        for reader in self.readers:
            reader.finish()

    def wait(self, *labels: str) -> None:
        """Until all of ``labels`` have ended."""
        self.wait_until(lambda: set(labels) <= set(self.ended), f"the end of {labels}")

    def wait_until(self, condition: Callable[[], T], what: str) -> T:
        def looked() -> T:
            self.finish()
            return condition()

        return wait_until(looked, what)

    def close(self, deadline_s: float) -> None:
        for reader in self.readers:
            assert reader.close(deadline_s)
        for writer in self.writers:
            writer.close(deadline_s)
        self.log.close()

    def _forget(self) -> None:
        self.forgotten += 1


def insert(number: int, text: str | None = None) -> Callable[[Cursorlike], int]:
    """A job that adds one item and returns its number."""

    def job(connection: Cursorlike) -> int:
        connection.execute("INSERT INTO items VALUES (?, ?)", (number, text or f"item {number}"))
        return number

    return job


def create(connection: Cursorlike) -> None:
    connection.execute(CREATE)


def numbers(connection: Cursorlike) -> list[int]:
    return [number for (number,) in connection.execute("SELECT number FROM items ORDER BY number")]
