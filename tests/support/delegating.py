"""A `state` worker that delegates: requests as the gateway makes them, a runtime worker that plays the children, and
coordination's part of structured reviews.
"""

import json
import os
import shutil
import tempfile
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from termal.bus.loop import PollLoop
from termal.bus.server import Handler, Request, Server
from termal.log import Log
from termal.wire.control import Serving
from termal.wire.delegation_operations import (
    AUDIT_READ,
    DELEGATION_CANCEL,
    DELEGATION_FOLLOWUP,
    DELEGATION_LIST,
    DELEGATION_OUTPUT,
    DELEGATION_RESULT,
    DELEGATION_SPAWN,
    DELEGATION_STATUS,
    DELEGATION_WAIT,
    REVIEW_SUBMIT,
    CreateWait,
    DelegationsOf,
    FollowUp,
    OneDelegation,
    ReadAudit,
    ReadOutput,
    SpawnDelegation,
    SubmitReview,
)
from termal.wire.errors import Conflict, TermalError
from termal.wire.review_operations import AppendReview, FindReview, FoundReview, ReviewReceipt
from termal.wire.turns import TextDelta, TurnEnded
from tests.support.fake_runtime import FakeRuntime, FakeTurn
from tests.support.state_worker import Json, StateWorker
from tests.support.waiting import wait_until

DEMO_REVIEWER = "TERMAL_DEMO_REVIEWER"
PACKET = "## Result\n\nStatus: {}\n\nSummary:\n{}\n\nFindings:\n- None\n"


def packet(summary: str = "All is well.", status: str = "completed") -> str:
    return PACKET.format(status, summary)


class Delegating:
    """``state`` with one parent session and a runtime worker; delegations are spawned with the Demo agent."""

    def __init__(
        self,
        state: StateWorker,
        workdir: Path,
        *,
        runtime: FakeRuntime,
        shelf: "ReviewShelf",
        agent: str = "Demo",
        **fields: Any,
    ) -> None:
        self.state = state
        self.workdir = workdir
        self.runtime = runtime
        self.shelf = shelf
        self.parent = state.create(agent, workdir=str(workdir), **fields)

    # -------------------------------------------------------------------- requests

    def request(self, parent: str | None = None, **fields: Any) -> SpawnDelegation:
        policy = fields.pop("policy", None)
        values: dict[str, Any] = {"prompt": "Look around.", "mode": "explorer", **fields}
        return SpawnDelegation(
            delegation_id=values.pop("delegation_id", None) or f"delegation-{uuid.uuid4()}",
            parent_session_id=self.parent if parent is None else parent,
            write_policy=None if policy is None else json.dumps(policy).encode(),
            **values,
        )

    def spawn(self, parent: str | None = None, **fields: Any) -> Json:
        """The reply."""
        return self.state.json(DELEGATION_SPAWN, self.request(parent, **fields))

    def child_turn(self, spawned: Json) -> FakeTurn:
        """The newest turn of the child."""
        child = spawned["delegation"]["childSessionId"]

        def newest() -> FakeTurn | None:
            turns = [turn for turn in list(self.runtime.turns) if turn.start.spec.session_id == child]
            return turns[-1] if turns else None

        return wait_until(newest, f"a turn of {child}")

    def turns_of(self, session_id: str) -> list[FakeTurn]:
        return [turn for turn in list(self.runtime.turns) if turn.start.spec.session_id == session_id]

    def finish(self, spawned: Json, text: str | None = None, outcome: str = "completed", detail: str = "") -> None:
        """The child says ``text`` and its turn ends."""
        turn = self.child_turn(spawned)
        says = [TextDelta(f"text-{len(turn.events)}", text)] if text else []
        self.runtime.report(turn, *says, TurnEnded(outcome, detail))  # type: ignore[arg-type]

    def finish_now(self, turn: FakeTurn) -> None:
        """The turn ends; nobody waits for state to know it."""
        self.runtime.report(turn, TurnEnded("completed"), wait=False)

    def one(self, spawned: Json, parent: str | None = None) -> OneDelegation:
        return OneDelegation(
            parent_session_id=self.parent if parent is None else parent, delegation_id=spawned["delegation"]["id"]
        )

    def status(self, spawned: Json, parent: str | None = None) -> Json:
        record: Json = self.state.json(DELEGATION_STATUS, self.one(spawned, parent))["delegation"]
        return record

    def wait_status(self, spawned: Json, status: str, parent: str | None = None) -> Json:
        return wait_until(
            lambda: record if (record := self.status(spawned, parent))["status"] == status else None,
            f"the delegation to be {status}",
        )

    def result(self, spawned: Json) -> Json:
        return self.state.json(DELEGATION_RESULT, self.one(spawned))

    def output(self, spawned: Json, offset: int = 0, limit: int = 8192) -> Json:
        ask = ReadOutput(
            parent_session_id=self.parent,
            delegation_id=spawned["delegation"]["id"],
            offset_bytes=offset,
            limit_bytes=limit,
        )
        return self.state.json(DELEGATION_OUTPUT, ask)

    def cancel(self, spawned: Json, parent: str | None = None) -> Json:
        return self.state.json(DELEGATION_CANCEL, self.one(spawned, parent))

    def follow_up(self, spawned: Json, message: str = "Go on.", key: str | None = None) -> Json:
        return self.state.json(DELEGATION_FOLLOWUP, self.following(spawned, message, key))

    def following(self, spawned: Json, message: str = "Go on.", key: str | None = None) -> FollowUp:
        return FollowUp(
            key=key or self.state.key(),
            parent_session_id=self.parent,
            delegation_id=spawned["delegation"]["id"],
            message=message,
        )

    def wait_for(self, *spawned: Json, parent: str | None = None, **fields: Any) -> Json:
        return self.state.json(
            DELEGATION_WAIT, self.waiting([one["delegation"]["id"] for one in spawned], parent, **fields)
        )

    def waiting(self, ids: Sequence[str], parent: str | None = None, **fields: Any) -> CreateWait:
        return CreateWait(
            wait_id=fields.pop("wait_id", None) or f"delegation-wait-{uuid.uuid4()}",
            parent_session_id=self.parent if parent is None else parent,
            delegation_ids=list(ids),
            **fields,
        )

    def listed(self) -> list[Json]:
        found: list[Json] = self.state.json(DELEGATION_LIST, DelegationsOf(self.parent))["delegations"]
        return found

    def audit(self, parent: str | None = None) -> list[Json]:
        ask = ReadAudit(parent_session_id=self.parent if parent is None else parent)
        events: list[Json] = self.state.json(AUDIT_READ, ask)["events"]
        return events

    def submit(self, spawned: Json, **fields: Any) -> Json:
        body = json.dumps(review(**fields)).encode()
        child = spawned["delegation"]["childSessionId"]
        return self.state.json(REVIEW_SUBMIT, SubmitReview(child_session_id=child, body=body))

    # ----------------------------------------------------------------------- events

    def told(self, *kinds: str) -> list[Json]:
        """The deltas of these kinds so far."""
        return [event for event in list(self.state.events) if event.get("type") in kinds]

    def wait_told(self, kind: str, count: int = 1) -> list[Json]:
        return wait_until(lambda: found if len(found := self.told(kind)) >= count else None, f"{count} {kind}")

    def card(self, spawned: Json, parent: str | None = None) -> Json:
        """The row of the newest card."""
        session = self.state.read(self.parent if parent is None else parent)
        name = spawned["delegation"]["id"]
        rows = [
            row
            for message in session["messages"]
            if message["type"] == "parallelAgents"
            for row in message["agents"]
            if row["id"] == name and row["source"] == "delegation"
        ]
        return dict(rows[-1])

    def queue(self, session_id: str | None = None) -> list[str]:
        session = self.state.read(self.parent if session_id is None else session_id)
        return [prompt["text"] for prompt in session.get("pendingPrompts", [])]


def review(**fields: Any) -> Json:
    """A payload; the keywords replace its members."""
    return {
        "schemaVersion": 1,
        "status": "completed",
        "summary": "Reviewed.",
        "findings": [],
        "commandsRun": [],
        "filesInspected": [],
        "notes": [],
        "suggestedTrackerUpdates": [],
        **fields,
    }


class ReviewShelf:
    """Coordination's part of reviews, on its own loop: one row per attempt. ``hold``: appends are answered by
    `release`, after they are stored; ``hold_finds``: so are searches. ``altered``: what `find` gives instead. ``away``:
    how it fails."""

    def __init__(self, run_dir: Path) -> None:
        self.rows: dict[tuple[str, int], AppendReview] = {}
        self.found: list[FindReview] = []
        self.altered: FoundReview | None = None
        self.away: TermalError | None = None
        self.hold = False
        self.hold_finds = False
        self._held: list[tuple[Request, ReviewReceipt | FoundReview]] = []
        self._loop = PollLoop()
        self._ready = threading.Event()
        self._run_dir = run_dir
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(5)

    def close(self) -> None:
        self._loop.threadsafe(self._loop.stop)
        self._thread.join(5)

    def release(self) -> None:
        done = threading.Event()

        def run() -> None:
            held, self._held = self._held, []
            for request, receipt in held:
                request.reply(receipt)
            done.set()

        self._loop.threadsafe(run)
        assert done.wait(5)

    @property
    def held(self) -> int:
        return len(self._held)

    def _run(self) -> None:
        handlers: dict[str, Handler] = {"review.append": self._append, "review.find": self._find}
        server = Server(self._loop, self._run_dir, "coordination", handlers, log=Log("coordination"))
        self._ready.set()
        self._loop.run()
        server.close()
        self._loop.close()

    def _append(self, request: Request, body: AppendReview) -> None:
        key = (body.delegation_id, body.attempt)
        known = self.rows.get(key)
        if known is not None and known.body != body.body:
            raise Conflict("another review is stored for this attempt", reason="reviewConflict")
        self.rows[key] = body
        sequence = list(self.rows).index(key) + 1
        receipt = ReviewReceipt("mailbox-1", f"mail-{sequence}", sequence, 0, duplicate=known is not None)
        if self.hold:
            self._held.append((request, receipt))
        else:
            request.reply(receipt)

    def _find(self, request: Request, body: FindReview) -> None:
        self.found.append(body)
        if self.away is not None:
            raise self.away
        row = self.rows.get((body.delegation_id, body.attempt))
        if self.altered is not None:
            answer = self.altered
        elif row is None:
            answer = FoundReview(found=False)
        else:
            stamp = f"{row.delegation_id}:{row.attempt}"
            answer = FoundReview(
                found=True,
                target_session_id=row.parent_session_id,
                topic="delegation-review-result/v1",
                state_stamp=stamp,
                body=row.body,
            )
        if self.hold_finds:
            self._held.append((request, answer))
        else:
            request.reply(answer)


class House:
    """One `state` worker that several tests share: each gets a parent of its own with `work`."""

    def __init__(self, root: Path, *, agents: bool = True) -> None:
        run_dir = root / "run"
        run_dir.mkdir(mode=0o700)
        programs = installed_agents(root) if agents else root
        self.root = root
        self.state = StateWorker(root / "home", run_dir)
        self.shelf = ReviewShelf(run_dir)
        self.environment = {
            DEMO_REVIEWER: "1",
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(root),
        }
        self.state.start(environment=self.environment)
        self.state.process.order(Serving())
        self._runtimes = {name: self.state.runtime(name) for name in ("runtime-acp", "runtime-claude", "runtime-codex")}
        self._made = 0
        self.warm()

    def warm(self) -> None:
        """Every link is made: none is opened, and none left open, by a single test."""
        for agent in ("Demo", "Claude", "Codex"):
            work = self.work(agent)
            spawned = work.spawn(mode="reviewer")
            work.finish(spawned, packet())
            work.wait_status(spawned, "failed")

    def work(self, agent: str = "Demo", **fields: Any) -> Delegating:
        self._made += 1
        folder = self.root / f"work-{self._made}"
        folder.mkdir()
        worker = {"Codex": "runtime-codex", "Claude": "runtime-claude"}.get(agent, "runtime-acp")
        runtime = self._runtimes[worker]
        return Delegating(self.state, folder, runtime=runtime, shelf=self.shelf, agent=agent, **fields)

    def restart(self) -> None:
        """The whole daemon: every turn is lost, and so is what the runtime workers know."""
        self.state.kill()
        for runtime in self._runtimes.values():
            runtime.turns.clear()
        self.state.start(environment=self.environment)

    def serving(self) -> None:
        """The start of the daemon is over."""
        self.state.process.order(Serving())

    def close(self) -> None:
        self.state.close()
        self.shelf.close()


@contextmanager
def a_house() -> Iterator[House]:
    root = Path(tempfile.mkdtemp(prefix="tml-"))
    root.chmod(0o700)
    house = House(root)
    try:
        yield house
    finally:
        house.close()
        shutil.rmtree(root, ignore_errors=True)


def installed_agents(root: Path) -> Path:
    """A folder for PATH with programs that are never run."""
    folder = root / "programs"
    folder.mkdir()
    for name in ("codex", "gemini", "opencode", "cursor-agent"):
        fake_program(folder / name, "#!/bin/false\n")
    # As if the kernel had all that a sandbox needs, whatever machine this is.
    fake_program(folder / "unshare", "#!/bin/sh\nexit 0\n")
    return folder


def fake_program(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")
    path.chmod(0o700)
