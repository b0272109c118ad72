"""A send over HTTP to a busy session: beside its floor, in a large mailbox, among many, beside a large transcript."""

import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from bench.figures import row
from bench.floor import Floor
from bench.http1 import Connection
from bench.loopback import Clients, Next, Run, of_rounds, request
from termal.store.connection import Cursorlike
from tests.support.coordination_rows import coordination_file
from tests.support.daemon import Daemon
from tests.support.stored import StoredSessions

SENDERS, RECEIVERS = 16, 8
ROUNDS = 3
ROUND_S = 2.0
WARM_S = 1.0
COST_S = 4.0
START_S = 60.0
SETTLE_S = 2.0
"""From the start of an agent's process until it waits."""
PROCESSES = ("gateway-worker", "coordination", "wake", "state")
BODY = "m" * 300
LONG, UNREAD = 100_000, 10_000
BOXES, IN_EACH = 1000, 1000
TRANSCRIPT_MB = 1000
NOW = "2026-01-01T00:00:00.000000+00:00"
_keys = itertools.count()


def sends(url: str, pairs: list[tuple[str, str]]) -> Next:
    """Client n writes for the n-th pair; every message has a key of its own. Nothing else is made while it is timed."""
    key = "bench-%010d"
    templates = []
    for sender, target in pairs:
        body = json.dumps({"targetSessionId": target, "message": BODY, "idempotencyKey": key % 0}).encode()
        whole = request(url, "POST", f"/api/sessions/{sender}/mailboxes/send", body)
        templates.append(whole.replace((key % 0).encode(), key.encode()))

    def following(client: int) -> bytes:
        return templates[client % len(templates)] % next(_keys)

    return following


def compared(one: tuple[str, Next], other: tuple[str, Next], clients: int) -> tuple[Run, Run]:
    """Both in turns, so that a slow moment hits both."""
    both = [(Clients(url, clients), following) for url, following in (one, other)]
    for loop, following in both:
        loop.run(following, WARM_S)
    rounds = [[loop.run(following, ROUND_S) for loop, following in both] for _ in range(ROUNDS)]
    for loop, _ in both:
        loop.close()
    first, second = zip(*rounds, strict=True)
    return of_rounds(list(first)), of_rounds(list(second))


def occupy(url: str, sessions: list[str]) -> None:
    """Their agents work on turns that do not end: every wake is queued. The start of an agent is measured elsewhere."""
    connection = Connection(url)
    for session in sessions:
        connection.json("POST", f"/api/sessions/{session}/messages", {"text": "hang"})
    limit_s = time.monotonic() + START_S
    while len(connection.json("GET", "/api/status")["agents"]) < len(sessions):
        assert time.monotonic() < limit_s, "the agents did not start"
        time.sleep(0.2)
    time.sleep(SETTLE_S)
    connection.close()


# ------------------------------------------------------------------- beside its floor


def cost(daemon: Daemon, following: Next, clients: int) -> None:
    """What a send costs each process: on a machine where others work as well, the one figure that means something."""
    processes = {name: psutil.Process(daemon.pid_of(name)) for name in PROCESSES}
    loop = Clients(daemon.url, clients)
    before = {name: sum(process.cpu_times()[:2]) for name, process in processes.items()}
    run = loop.run(following, COST_S)
    used_us = {
        name: (sum(process.cpu_times()[:2]) - before[name]) * 1e6 / run.requests for name, process in processes.items()
    }
    loop.close()
    shares = ", ".join(f"{name} {share:.0f}" for name, share in used_us.items())
    what = f"  CPU of one send, {clients} client{'s' if clients > 1 else ''}: {shares}"
    row(what, f"{sum(used_us.values()):.0f} us", "-", good=True)


def against_the_floor() -> bool:
    good = True
    with tempfile.TemporaryDirectory(prefix="tml-") as folder:
        daemon = Daemon(Path(folder) / "home", faults=False)
        with StoredSessions(daemon.home.termal_db, folder) as store:
            names = [store.add(0) for _ in range(SENDERS + RECEIVERS)]
        pairs = [(names[at], names[SENDERS + at % RECEIVERS]) for at in range(SENDERS)]
        with daemon, Floor("bench.floor_send_worker", "bench.floor_send_app:app") as floor:
            daemon.start()
            occupy(daemon.url, names[SENDERS:])
            for clients in (1, 16, 64):
                product = (daemon.url, sends(daemon.url, pairs))
                run, low = compared(product, (floor.url, sends(floor.url, pairs)), clients)
                good &= judged(clients, run, low)
                cost(daemon, sends(daemon.url, pairs), clients)
    return good


def judged(clients: int, run: Run, floor: Run) -> bool:
    row(f"  the floor of it, {clients} clients; p50 / p99", str(floor), "-", good=True)
    what = f"send to a busy session, {clients} client{'s' if clients > 1 else ''}; p50 / p99"
    share = run.rate / floor.rate
    if clients == 1:
        times = run.p50_ms / floor.p50_ms
        good = times <= 3.5 and run.p99_ms < 6
        return row(what, f"{run} ({times:.1f} x)", "3.5 x the floor, p99 6 ms", good)
    if clients == 16:
        good = share >= 0.4 and run.rate >= 2200 and run.p99_ms < 15
        return row(what, f"{run} ({share:.0%})", "40 % of it, 2,200/s, p99 15 ms", good)
    return row(what, f"{run} ({share:.0%})", "3,800/s", run.rate >= 3800)


# ------------------------------------------------------------------- large mailboxes


def fill(connection: Cursorlike, one: str, other: str, count: int, unread: int) -> None:
    """A mailbox with ``count`` messages of ``one`` to ``other``, of which the last ``unread`` are unread."""
    box = f"mailbox-{one}-{other}"
    key = json.dumps(sorted((one, other)), separators=(",", ":"))
    connection.execute("INSERT INTO mailboxes VALUES (?, ?, ?, ?)", (box, key, NOW, count + 1))
    for session, cursor in ((one, count), (other, count - unread)):
        connection.execute(
            "INSERT INTO mailbox_participants VALUES (?, ?, ?, ?, ?, NULL)", (box, session, session, NOW, cursor)
        )
    connection.executemany(
        "INSERT INTO mailbox_messages (id, mailbox_id, sequence, sender_session_id, sender_name, target_session_id,"
        " target_name, created_at, class, idempotency_key, unread_depth_at_append, notification_disposition,"
        " dispatch_outcome, body) VALUES (?1 || ?2, ?1, ?2, ?3, ?3, ?4, ?4, ?5, 'routine', ?1 || ?2, 1,"
        " 'deliveredToIdleSession', 'deliveredToIdleSession', ?6)",
        ((box, sequence, one, other, NOW, BODY) for sequence in range(1, count + 1)),
    )


@contextmanager
def home_with_mail() -> Iterator[tuple[Daemon, list[str], str]]:
    """A daemon with a long mailbox (the first two sessions), and a session that is in a thousand of them."""
    with tempfile.TemporaryDirectory(prefix="tml-") as folder:
        daemon = Daemon(Path(folder) / "home", faults=False)
        with StoredSessions(daemon.home.termal_db, folder) as store:
            names = [store.add(0) for _ in range(4)]
            lister = store.add(0)
        with coordination_file(daemon.home.root) as connection:
            fill(connection, names[0], names[1], LONG, UNREAD)
            for number in range(BOXES):
                # Peers that are gone: nobody is woken for them at the start.
                fill(connection, f"peer-{number}", lister, IN_EACH, 0)
        with daemon:
            daemon.start()
            yield daemon, names, lister


def in_large_mailboxes() -> bool:
    with home_with_mail() as (daemon, names, lister):
        url = daemon.url
        occupy(url, [names[1], names[3]])
        long, short = (sends(url, [pair]) for pair in ((names[0], names[1]), (names[2], names[3])))
        run, small = compared((url, long), (url, short), 1)
        times = run.p50_ms / small.p50_ms
        what = f"send into {LONG:,} messages, {UNREAD:,} unread; p50"
        good = row(
            what, f"{run.p50_ms:.2f} ms ({times:.2f} x {small.p50_ms:.2f} ms)", "1.1 x a small one", times <= 1.1
        )
        listing = request(url, "GET", f"/api/sessions/{lister}/mailboxes")
        loop = Clients(url, 1)
        first = loop.run(lambda _: listing, 0.0)
        row(f"  the first list of {BOXES:,} mailboxes of {IN_EACH:,}", f"{first.p50_ms:.0f} ms", "-", good=True)
        lists = of_rounds([loop.run(lambda _: listing, ROUND_S) for _ in range(ROUNDS)])
        loop.close()
        return good & row(
            f"list of {BOXES:,} mailboxes of {IN_EACH:,}; p50 / p99", str(lists), "p50 10 ms", lists.p50_ms < 10
        )


# -------------------------------------------------------------- beside a transcript


def stored(daemon: Daemon) -> tuple[float, int]:
    """The time in seconds, and how many bytes there are by then."""
    return time.monotonic(), daemon.home.termal_db.stat().st_size


def speed(before: tuple[float, int], after: tuple[float, int]) -> str:
    return f"{(after[1] - before[1]) / (after[0] - before[0]) / 1e6:.0f} MB/s"


def beside_a_transcript() -> bool:
    with tempfile.TemporaryDirectory(prefix="tml-") as folder:
        daemon = Daemon(Path(folder) / "home", faults=False)
        with StoredSessions(daemon.home.termal_db, folder) as store:
            names = [store.add(0) for _ in range(2)]
        with daemon:
            daemon.start()
            occupy(daemon.url, [names[1]])
            loop, following = Clients(daemon.url, 1), sends(daemon.url, [(names[0], names[1])])
            loop.run(following, WARM_S)
            quiet = of_rounds([loop.run(following, ROUND_S) for _ in range(ROUNDS)])
            # Of its own, so that it takes no time of those who are timed here.
            upload = subprocess.Popen([sys.executable, "-m", "bench.upload", daemon.url, str(TRANSCRIPT_MB)])
            loop.run(following, WARM_S)
            rounds: list[Run] = []
            began = stored(daemon)
            while upload.poll() is None and len(rounds) < ROUNDS:
                rounds.append(loop.run(following, ROUND_S))
            ended = stored(daemon)
            time.sleep(ROUND_S)
            speeds = f"{speed(began, ended)}, {speed(ended, stored(daemon))}"
            upload.terminate()
            upload.wait()
            loop.close()
        assert rounds, "the upload ended before anything could be measured beside it"
        run = of_rounds(rounds)
        times = run.p50_ms / quiet.p50_ms
        row("  the transcript meanwhile, and alone", speeds, "-", good=True)
        figure = f"{run.p50_ms:.2f} ms ({times:.2f} x {quiet.p50_ms:.2f} ms)"
        return row("send beside a transcript that is being stored; p50", figure, "1.5 x without", times <= 1.5)


def main() -> bool:
    good = against_the_floor()
    good &= in_large_mailboxes()
    return beside_a_transcript() & good


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
