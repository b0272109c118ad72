"""Sessions write to each other in a ring while processes are killed: every letter is read by a turn that it woke.

A few sessions and seconds in CI; ``TERMAL_RING_SESSIONS`` and ``TERMAL_RING_SECONDS`` ask for more.
"""

import itertools
import os
import threading
import time
from typing import Any

import httpx
import pytest

from tests.support.daemon import Daemon, Person
from tests.support.invariants import check_database
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.slow, pytest.mark.timeout(400)]

SESSIONS = int(os.environ.get("TERMAL_RING_SESSIONS", "4"))
SECONDS = float(os.environ.get("TERMAL_RING_SECONDS", "11"))
VICTIMS = ("wake", "state", "coordination", "runtime-acp", "gateway")
REST_S = 60.0
PACE_S = 2.2
"""Between two kills: a worker that dies more than five times in half a minute is held back on purpose."""
Json = dict[str, Any]


class Member:
    """A session with its agent's part played here: it looks at its mail only when a turn of it was started for that.

    ``acts`` counts the turns that it acted in; ``stale`` are wakes that started after everything they name was
    acknowledged.
    """

    def __init__(self, daemon: Daemon, number: int) -> None:
        self.person = Person(daemon, f"member-{number}")
        self.next: Member | None = None
        self.forwards = True
        self.sent = 0
        self.read = 0
        self.stale: list[str] = []
        self.errors: list[str] = []
        self._seen: set[str] = set()
        self._acknowledged: dict[str, int] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    @property
    def id(self) -> str:
        return self.person.session_id

    def begin(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(60)
        self.person.close()

    def send(self, text: str) -> None:
        assert self.next is not None
        self.sent += 1
        body = {"targetSessionId": self.next.id, "message": text, "idempotencyKey": f"{self.id}-{self.sent}"}
        self.person.until_answered("POST", f"/api/sessions/{self.id}/mailboxes/send", body, key="")

    def unread(self) -> int:
        return sum(mailbox["unreadCount"] for mailbox in self._mailboxes())

    def _run(self) -> None:
        try:
            while not self._end.is_set():
                session = self.person.read()
                prompts = [message for message in session["messages"] if message.get("author") == "you"]
                fresh = [prompt for prompt in prompts if prompt["id"] not in self._seen]
                if fresh and session["status"] in ("idle", "error"):
                    self._act(fresh)
                else:
                    time.sleep(0.02)
        except BaseException as error:
            self.errors.append(f"{self.person.name}: {error!r}")

    def _act(self, fresh: list[Json]) -> None:
        for prompt in fresh:
            self._seen.add(prompt["id"])
            mailbox = prompt.get("source", {}).get("mailbox")
            if mailbox and mailbox["sequence"] <= self._acknowledged.get(mailbox["mailboxId"], 0):
                self.stale.append(f"#{mailbox['sequence']}")
        for mailbox in self._mailboxes():
            if mailbox["unreadCount"]:
                self._process(mailbox)

    def _process(self, mailbox: Json) -> None:
        cursor = next(one["processedThrough"] for one in mailbox["participants"] if one["sessionId"] == self.id)
        path = f"/api/sessions/{self.id}/mailboxes/{mailbox['id']}"
        messages = self.person.until_answered("POST", f"{path}/read", {"afterSequence": cursor}, key="")
        mine = [message for message in messages if message["targetSessionId"] == self.id]
        through = messages[-1]["sequence"]
        body = {"expectedProcessedThrough": cursor, "processedThrough": through}
        self.person.until_answered("POST", f"{path}/acknowledge", body, key="")
        # A wake that started while the acknowledgement was under way is none that started after it.
        messages_now = self.person.read()["messages"]
        self._seen |= {message["id"] for message in messages_now if message.get("author") == "you"}
        self._acknowledged[mailbox["id"]] = through
        self.read += len(mine)
        for message in mine:
            if self.forwards:
                self.send(message["body"])

    def _mailboxes(self) -> list[Json]:
        found: list[Json] = self.person.until_answered("GET", f"/api/sessions/{self.id}/mailboxes", None, key="")
        return found


def at_rest(daemon: Daemon, ring: list[Member]) -> bool:
    with daemon.client() as client:
        try:
            state = client.get("/api/state").json()
            mail = client.get("/api/status").json()["mailboxes"]
        except httpx.HTTPError:
            return False
    idle = all(session["status"] in ("idle", "error") for session in state["sessions"])
    return idle and mail["unread"] == 0 and mail["unwoken"] == 0


def test_a_ring_of_sessions_reads_every_letter_while_workers_are_killed(daemon: Daemon) -> None:
    ring = [Member(daemon, number) for number in range(SESSIONS)]
    for place, member in enumerate(ring):
        member.next = ring[(place + 1) % len(ring)]
    try:
        for member in ring:
            member.begin()
            member.send(f"letter of {member.person.name}")
        kill_workers(daemon, ring)
        for member in ring:
            member.forwards = False
        daemon.wait_healthy()
        settle(daemon, ring)
        assert [member.errors for member in ring if member.errors] == []
        assert sum(member.read for member in ring) == sum(member.sent for member in ring)
        check_turns(daemon, ring)
    finally:
        for member in ring:
            member.finish()
    home = daemon.home
    assert daemon.stop() == 0
    check_database(home.termal_db)
    check_database(home.coordination_db)


def kill_workers(daemon: Daemon, ring: list[Member]) -> None:
    """One after the other for `SECONDS`; after each kill letters have to arrive again."""

    def read() -> int:
        return sum(member.read for member in ring)

    end_s = time.monotonic() + SECONDS
    for victim in itertools.cycle(VICTIMS):
        if time.monotonic() > end_s:
            return
        before, next_s = read() + len(ring), time.monotonic() + PACE_S
        daemon.kill(victim)
        wait_until(lambda: read() > before and time.monotonic() > next_s, f"letters after the end of {victim}", 30)  # noqa: B023 - called in this pass alone


def settle(daemon: Daemon, ring: list[Member]) -> None:
    """Wait until everything is read. A session whose wake waits after a killed turn gets the one activation that it may
    need."""
    quiet_s, last = time.monotonic(), -1
    while time.monotonic() < quiet_s + 3 and not at_rest(daemon, ring):
        read = sum(member.read for member in ring)
        if read != last:
            quiet_s, last = time.monotonic(), read
        time.sleep(0.1)
    for member in ring:
        if member.unread():
            member.person.prompt("say awake", key=f"activation-{member.id}")
    wait_until(lambda: at_rest(daemon, ring), "all mail to be read and every turn to be over", REST_S)


def check_turns(daemon: Daemon, ring: list[Member]) -> None:
    """No turn was cut off by mail, no queue is left, and no wake ran for mail that was read before it started."""
    skipped = daemon.home.log("state").read_text("utf-8").count("mail.not_asked")
    assert sum(len(member.stale) for member in ring) <= skipped
    for member in ring:
        assert "pendingPrompts" not in member.person.read()
        open_prompts = 0
        for message in member.person.transcript():
            if message["type"] != "text":
                continue
            open_prompts = open_prompts + 1 if message["author"] == "you" else 0
            assert open_prompts <= 1, "a turn ended without an answer"
