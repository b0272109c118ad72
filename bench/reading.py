"""Long histories: what is read, started, created and appended must not cost what history weighs."""

import gc
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from bench.figures import median, row
from bench.floor import Floor
from bench.http1 import Connection
from termal.bus.client import Client
from termal.bus.loop import PollLoop
from termal.wire.session_operations import SESSION_OVERVIEW, ReadOverview
from tests.support.daemon import Daemon
from tests.support.stored import StoredSessions, of_kinds, plain

ROUNDS = 5
REQUESTS = 60
STARTS = 5
LONG = 100_000
SHORT = 1_000
MAPPED = 25_000
WORDS = of_kinds(["text", "answer", "answer", "command", "answer", "diff", "answer", "error"])


def times_ms(action: Callable[[int], object], count: int = REQUESTS) -> list[float]:
    times = []
    for number in range(count):
        began = time.perf_counter()
        action(number)
        times.append((time.perf_counter() - began) * 1e3)
    return times


def compared_ms(first: Callable[[int], object], second: Callable[[int], object]) -> tuple[float, float, float]:
    """The medians of both, and the median of their ratios by round. In turns, so that a slow moment hits both."""
    ones, others, ratios = [], [], []
    for _ in range(ROUNDS):
        pairs = [(times_ms(first, 1)[0], times_ms(second, 1)[0]) for _ in range(REQUESTS)]
        one, other = (median(times) for times in zip(*pairs, strict=True))
        ones.append(one)
        others.append(other)
        ratios.append(one / other)
    return median(ones), median(others), median(ratios)


def budget(what: str, first: Callable[[int], object], second: Callable[[int], object], limit: float, than: str) -> bool:
    one, other, ratio = compared_ms(first, second)
    return row(what, f"{one:.2f} ms ({ratio:.2f} x {other:.2f} ms)", f"{limit} x {than}", ratio <= limit)


@contextmanager
def home_with(counts: list[int]) -> Iterator[Daemon]:
    """A daemon, not started, whose home has a session of each of ``counts`` messages."""
    with tempfile.TemporaryDirectory(prefix="tml-") as folder:
        daemon = Daemon(Path(folder) / "home", faults=False)
        with StoredSessions(daemon.home.termal_db, folder) as sessions:
            for count in counts:
                sessions.add(count, plain if count != MAPPED else WORDS)
        with daemon:
            yield daemon


# ------------------------------------------------------------------------- reads


def reads() -> bool:
    good = True
    with home_with([SHORT, LONG, MAPPED, 0, 0]) as daemon:
        daemon.start()
        environment = {"FLOOR_FILE": str(daemon.home.termal_db)}
        with Floor("bench.floor_reads_worker", "bench.floor_reads_app:app", environment) as plain_floor:
            product, floor = Connection(daemon.url), Connection(plain_floor.url)
            good &= pages(product, floor)
            good &= overviews(daemon, product, floor)
            floor.close()
        good &= appends(product)
        good &= memory(daemon, product)
        product.close()
        daemon.stop()
    return good


def pages(product: Connection, floor: Connection) -> bool:
    chance = random.Random(7)

    def page(connection: Connection, session: str, count: int) -> Callable[[int], object]:
        def read(_: int) -> None:
            position = chance.randrange(64, count - 200)
            status, body = connection.request("GET", f"/api/sessions/{session}/history?around={position}")
            assert status == 200, body[:300]

        return read

    long, short = page(product, "session-2", LONG), page(product, "session-1", SHORT)
    good = budget("page of 64 of 100,000 messages, p50", long, page(floor, "session-2", LONG), 2.0, "floor")
    return budget("the same beside one of 1,000 messages", long, short, 1.15, "short") and good


def overviews(daemon: Daemon, product: Connection, floor: Connection) -> bool:
    path = "/api/sessions/session-3/overview?buckets=512"
    good = budget(
        "overview of 25,000 messages in 512 buckets, unchanged, p50",
        lambda _: product.request("GET", path),
        lambda _: floor.request("GET", path),
        2.0,
        "floor",
    )
    loop = PollLoop()
    client = Client(loop, daemon.home.run, "state", "bench")

    def asked(number: int) -> None:
        # Each time another number of buckets: nothing of it is kept from before.
        wanted = ReadOverview("session-3", 512 - number)
        done: list[object] = []
        client.call(SESSION_OVERVIEW, wanted, lambda reply, error: done.append(error or reply))
        while not done:
            loop.one_pass(0.001)
        assert not isinstance(done[0], Exception), done[0]

    best = min(times_ms(asked, 6)[1:])
    loop.close()
    good &= row("the same by the worker alone, made anew, best of 5", f"{best:.2f} ms", "10 ms", best < 10)
    product.send("GET", path, headers="Accept-Encoding: gzip\r\n")
    size = len(product.read()[1])
    return row("the same compressed", f"{size} bytes", "8192 bytes", size < 8192) and good


def appends(product: Connection) -> bool:
    """Prompts to both sessions in turns; each turn of an agent is waited for, outside of the time."""
    ratios, ones, others = [], [], []
    for _ in range(ROUNDS):
        times: dict[str, list[float]] = {"session-2": [], "session-4": []}
        for number in range(REQUESTS):
            for session, its in times.items():
                its.append(_prompt_ms(product, session, number))
        one, other = (median(its) for its in times.values())
        ones.append(one)
        others.append(other)
        ratios.append(one / other)
    return row(
        "prompt to a session of 100,000 messages, p50",
        f"{median(ones):.2f} ms ({median(ratios):.2f} x {median(others):.2f} ms)",
        "1.1 x empty",
        median(ratios) <= 1.1,
    )


def _prompt_ms(product: Connection, session: str, number: int) -> float:
    began = time.perf_counter()
    status, body = product.request("POST", f"/api/sessions/{session}/messages", {"text": f"say {number}"})
    elapsed = (time.perf_counter() - began) * 1e3
    assert status == 202, body[:300]
    while product.json("GET", f"/api/sessions/{session}?tail=1")["session"]["status"] != "idle":
        time.sleep(0.003)
    time.sleep(0.005)
    return elapsed


def memory(daemon: Daemon, product: Connection) -> bool:
    """Every page of the long transcript, oldest first."""
    process = psutil.Process(daemon.pid_of("state"))
    before = process.memory_info().rss
    selector, read = "from=start", 0
    while selector:
        page = product.json("GET", f"/api/sessions/session-2/history?{selector}")
        read += len(page["messages"])
        selector = f"after={page['nextAfter']}" if page["hasNewer"] else ""
    assert read >= LONG, read
    grown = (process.memory_info().rss - before) / 1e6
    return row(f"resident memory of state after reading {read} messages", f"{grown:.1f} MB", "+10 MB", grown < 10)


# --------------------------------------------------------------- many, and long ones


def many() -> bool:
    with home_with([0] * 200) as small, home_with([5_000] * 200) as large:
        small.start()
        large.start()
        light, heavy = Connection(small.url), Connection(large.url)
        good = budget(
            "GET /api/state, 200 sessions of 5,000 messages",
            lambda _: heavy.request("GET", "/api/state"),
            lambda _: light.request("GET", "/api/state"),
            1.1,
            "none",
        )
        good &= budget("create beside 1,000,000 messages", create(heavy), create(light), 1.1, "none")
        light.close()
        heavy.close()
        small.stop()
        large.stop()
    return good


def create(connection: Connection) -> Callable[[int], object]:
    body = {"agent": "Demo", "workdir": tempfile.gettempdir()}

    def made(_: int) -> None:
        status, reply = connection.request("POST", "/api/sessions", body)
        assert status == 201, reply[:300]

    return made


def starts() -> bool:
    with home_with([10] * 500) as small, home_with([2_000] * 500) as large:
        ones, others, ratios = [], [], []
        for _ in range(STARTS):
            one, other = start_ms(large), start_ms(small)
            ones.append(one)
            others.append(other)
            ratios.append(one / other)
    return row(
        "start with 1,000,000 messages in 500 sessions",
        f"{median(ones):.0f} ms ({median(ratios):.2f} x {median(others):.0f} ms)",
        "1.3 x of 10 each",
        median(ratios) <= 1.3,
    )


def start_ms(daemon: Daemon) -> float:
    began = time.perf_counter()
    daemon.start(ready=False)
    while not _healthy(daemon):
        time.sleep(0.005)
    elapsed = (time.perf_counter() - began) * 1e3
    daemon.stop()
    return elapsed


def _healthy(daemon: Daemon) -> bool:
    try:
        connection = Connection(daemon.url)
    except (OSError, ValueError, KeyError):
        return False
    try:
        status, _ = connection.request("GET", "/api/health")
    except (OSError, ConnectionError):
        return False
    finally:
        connection.close()
    return status == 200


def main() -> bool:
    gc.disable()
    try:
        return all([reads(), many(), starts()])
    finally:
        gc.enable()


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    sys.exit(0 if main() else 1)
