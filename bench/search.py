"""The price of the full-text index: what an append pays for it, and how fast a large store is searched and indexed."""

import random
import tempfile
import time
from pathlib import Path

import apsw

from bench.figures import median, percentile, row
from termal.log import Log
from termal.model.message import Text
from termal.rules.search_query import expression, scope_of, terms_of
from tests.support.state_memory import Memory
from workers.state import search_index
from workers.state.indexer import Indexer
from workers.state.session_record import SessionRecord

ROUNDS = 6
APPENDS = 300
WORDS = 120
MESSAGES = 10_000
SEARCHES = 200
SLOWER = 1.15
"""An append may take this much of what it takes without an index."""
SEARCH_MS = 50.0

_random = random.Random(7)
_VOCABULARY = [f"w{number:05d}" for number in range(20_000)]


def _text() -> str:
    return " ".join(_random.choices(_VOCABULARY, k=WORDS))


class Store:
    """One open store, with or without its index."""

    def __init__(self, folder: Path, *, indexed: bool) -> None:
        self.memory = Memory(folder / "termal.sqlite")
        self.path = folder / "termal.sqlite"
        if indexed:
            Indexer(self.memory.loop, self.memory.writer, self.memory.journal, Log("bench", None))
        else:
            self._without_triggers()
        self.record = self.memory.create()
        self._settle()

    def close(self) -> None:
        end_s = time.monotonic() + 10.0
        self.memory.reader.close(end_s)
        self.memory.writer.close(end_s)
        self.memory.loop.close()

    def append_us(self) -> float:
        """One message in a commit of its own, until it is stored."""
        text = _text()
        began = time.perf_counter()
        self._append(self.record, text)
        self._settle()
        return (time.perf_counter() - began) * 1e6

    def fill(self, count: int) -> None:
        for _ in range(0, count, 500):
            for _ in range(500):
                self._append(self.record, _text())
            self._settle()

    def _append(self, record: SessionRecord, text: str) -> None:
        memory = self.memory
        change = memory.book.change()
        identity = memory.registry.new_message_id()
        change.append(record, Text(id=identity, timestamp="now", author="assistant", text=text))
        change.commit()

    def _settle(self) -> None:
        while not self.memory.journal.idle:
            self.memory.one_pass()

    def _without_triggers(self) -> None:
        connection = apsw.Connection(str(self.path))
        for name in ("search_message_added", "search_message_changed"):
            connection.execute(f"DROP TRIGGER {name}")
        connection.close()


def _appends(indexed: bool) -> list[float]:
    with tempfile.TemporaryDirectory(prefix="tml-") as folder:
        Path(folder).chmod(0o700)
        store = Store(Path(folder), indexed=indexed)
        times = [store.append_us() for _ in range(APPENDS)]
        store.close()
        return times


def _appending() -> bool:
    plain: list[float] = []
    indexed: list[float] = []
    for _ in range(ROUNDS):
        # One after the other: what the machine does besides hits both.
        plain += _appends(indexed=False)
        indexed += _appends(indexed=True)
    share = median(indexed) / median(plain)
    figure = f"{median(plain):.0f} -> {median(indexed):.0f} us, p99 {percentile(indexed, 0.99):.0f}"
    return row("append without and with the index, median", figure, f"x {SLOWER}", share <= SLOWER)


def _searching() -> bool:
    with tempfile.TemporaryDirectory(prefix="tml-") as folder:
        Path(folder).chmod(0o700)
        store = Store(Path(folder), indexed=False)
        store.fill(MESSAGES)
        store.close()
        connection = apsw.Connection(str(store.path))
        connection.execute("DELETE FROM search_progress")
        slices = []
        left = "older"
        while left != "nothing":
            began = time.perf_counter()
            with connection:
                left = search_index.advance(connection)
            slices.append((time.perf_counter() - began) * 1e3)
        scope = scope_of(store.record.id)
        times = []
        for _ in range(SEARCHES):
            match = expression(terms_of(f"{_random.choice(_VOCABULARY)} w012*"), scope)
            began = time.perf_counter()
            search_index.find(connection, match, None, 20, {store.record.id})
            times.append((time.perf_counter() - began) * 1e3)
        connection.close()
    figure = f"{MESSAGES / (sum(slices) / 1e3):.0f}/s, p99 {percentile(slices, 0.99):.1f}, max {max(slices):.0f} ms"
    row(f"indexing {MESSAGES} messages, one slice", figure, "-", good=True)
    good = percentile(times, 0.99) <= SEARCH_MS
    figure = f"{median(times):.2f} ms, p99 {percentile(times, 0.99):.2f}"
    return row(f"a word and a prefix in {MESSAGES} messages", figure, f"p99 {SEARCH_MS:.0f} ms", good)


def main() -> bool:
    good = _appending()
    return _searching() and good
