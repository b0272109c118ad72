"""Any sequence of writes, repeats, kills and jumps of the clock against a board of plain dictionaries.

``BOARD_MACHINE_EXAMPLES`` and ``BOARD_MACHINE_STEPS`` in the environment ask for more or longer sequences.
"""

import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from termal.rules.board_value import compact
from termal.wire.board_operations import BOARD_GET, BOARD_LIST, BOARD_SET, ReadBoard, ReadBoardKey, SetBoardKey
from termal.wire.coordination_operations import SCOPE_DELETE, DeleteScope
from termal.wire.errors import TermalError
from tests.support.board_worker import BoardWorker
from tests.support.bus import Outcome
from tests.support.model_board import Json, ModelBoard, timeless

EXAMPLES = int(os.environ.get("BOARD_MACHINE_EXAMPLES", "10"))
STEPS = int(os.environ.get("BOARD_MACHINE_STEPS", "20"))

KEYS = st.sampled_from(["a", "a.b", "a-b", "z_0"])
AUTHORS = st.sampled_from("abc")
ONCE = st.sampled_from(["", "", "same", "other"])
"""Empty: a key that nobody used before."""
STAMPS = st.sampled_from([None, "s"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text("aé\n😀", max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("zaé", max_size=2), inner, max_size=2),
    max_leaves=4,
)
OFF = st.sampled_from([0, 0, 0, 0, 1, -1])
"""How far an expected revision is beside the one that is there."""


class Machine(RuleBasedStateMachine):
    worker: ClassVar[BoardWorker]
    faults: ClassVar[Path]
    scopes: ClassVar[Iterator[int]] = itertools.count(1)

    @initialize()
    def project(self) -> None:
        self.model = ModelBoard()
        self.scope = f"project-{next(self.scopes)}"
        self.worker.state.boards = dict.fromkeys("abc", (self.scope, "local"))
        self.last: SetBoardKey | None = None

    # ---------------------------------------------------------------------- writes

    @rule(key=KEYS, author=AUTHORS, once=ONCE, off=OFF, stamp=STAMPS, value=VALUES)
    def set(self, key: str, author: str, once: str, off: int, stamp: str | None, value: object) -> None:
        request = self.request(key, author, once, off, stamp, json.dumps(value).encode())
        self.check(request, self.worker.begin(BOARD_SET, request))

    @rule(key=KEYS, author=AUTHORS, once=ONCE, off=OFF)
    def delete(self, key: str, author: str, once: str, off: int) -> None:
        request = self.request(key, author, once, off, None, None)
        self.check(request, self.worker.begin(BOARD_SET, request))

    @rule()
    def repeat_the_last_write(self) -> None:
        if self.last is not None:
            self.check(self.last, self.worker.begin(BOARD_SET, self.last))

    @rule(author=AUTHORS, values=st.lists(VALUES, min_size=2, max_size=6), key=KEYS)
    def write_at_once(self, author: str, values: list[object], key: str) -> None:
        """They come in one pass of the loop and share a commit; their order is that of their calls."""
        requests = [self.request(key, author, "", 0, None, json.dumps(value).encode()) for value in values]
        calls = [(BOARD_SET, request) for request in requests]
        outcomes: list[Outcome[Any]] = self.worker.bus.start_all(self.worker.client, calls)
        for request, outcome in zip(requests, outcomes, strict=True):
            self.check(request, outcome)

    # ------------------------------------------------------------------- accidents

    @rule()
    def kill(self) -> None:
        self.worker.restart(faults=self.faults)

    @rule(
        point=st.sampled_from(["coordination.in_group", "coordination.after_commit"]), key=KEYS, author=AUTHORS, off=OFF
    )
    def kill_in_a_write(self, point: str, key: str, author: str, off: int) -> None:
        """The caller's side of the bus repeats it: it happens once, and the repeat may say so."""
        request = self.request(key, author, "", off, None, b"1")
        (self.faults / point).write_text("kill", "utf-8")
        outcome = self.worker.begin(BOARD_SET, request)
        self.worker.process.process.wait(5)
        self.worker.start("replacement", faults=self.faults)
        self.check(request, outcome, repeated=True)

    @rule(to=st.sampled_from(["1970-01-01T00:00:00.000Z", "2999-01-01T00:00:00.000Z"]))
    def clock_jumps(self, to: str) -> None:
        """To the other side of all that was written."""
        self.worker.kill()
        for table, column in (("entries", "updated_at"), ("history", "updated_at"), ("idempotency", "created_at")):
            self.worker.fill(f"UPDATE coordination_board_{table} SET {column} = ?", [(to,)])
        self.worker.start("replacement", faults=self.faults)

    @rule()
    def project_is_deleted(self) -> None:
        self.worker.ask(SCOPE_DELETE, DeleteScope(self.scope))
        for error in (
            self.worker.begin(BOARD_SET, self.request("a", "a", "", 0, None, b"1")).error(),
            self.worker.begin(BOARD_LIST, ReadBoard("b")).error(),
        ):
            assert (error.status, error.detail) == (404, {"currentGeneration": 0})
        assert self.worker.rows("SELECT * FROM coordination_board_scopes WHERE scope_id = ?", self.scope) == []
        self.project()

    # ----------------------------------------------------------------------- reads

    @invariant()
    def everything_reads_as_the_model_says(self) -> None:
        if not hasattr(self, "model"):
            return
        entries: list[Json] = []
        page = self.worker.page(limit=2)
        entries += page["entries"]
        while "nextAfterKey" in page:
            page = self.worker.page(
                "b", limit=2, after_key=page["nextAfterKey"], snapshot_generation=page["generation"]
            )
            entries += page["entries"]
        assert [timeless(entry) for entry in entries] == self.model.live()
        assert self.worker.page("c", known_generation=self.model.generation)["unchanged"]
        for key, head in self.model.heads.items():
            if head["deleted"]:
                error = self.worker.begin(BOARD_GET, ReadBoardKey("a", key)).error()
                assert (error.status, timeless(error.detail)) == (404, self.model.detail(head))
            else:
                entry = self.worker.get(key)
                assert timeless(entry) == {**head, "scopeGeneration": self.model.generation}

    @invariant()
    def the_file_holds_what_it_should_and_no_more(self) -> None:
        if not hasattr(self, "model"):
            return
        sql = "SELECT key, revision FROM coordination_board_history WHERE scope_id = ? ORDER BY key, revision"
        kept = [(key, revision) for key in sorted(self.model.history) for revision in self.model.history[key]]
        assert self.worker.rows(sql, self.scope) == kept
        sql = "SELECT count(*) FROM coordination_board_idempotency WHERE scope_id = ?"
        assert self.worker.rows(sql, self.scope) == [(len(self.model.receipts),)]

    # --------------------------------------------------------------------- private

    def request(
        self, key: str, author: str, once: str, off: int, stamp: str | None, value: bytes | None
    ) -> SetBoardKey:
        self.worker.keys += 1
        return SetBoardKey(
            session_id=author,
            key=key,
            expected_revision=max(0, self.model.revision(key) + off),
            idempotency_key=once or f"k{self.worker.keys}",
            value=value,
            delete=value is None,
            state_stamp=stamp,
        )

    def check(self, request: SetBoardKey, outcome: Outcome[Any], *, repeated: bool = False) -> None:
        self.last = request
        text = None if request.value is None else compact(request.value).decode()
        author = {
            "authorSessionId": request.session_id,
            "authorName": self.worker.state.names.get(request.session_id, request.session_id),
        }
        intent = (request.key, request.expected_revision, text, request.state_stamp)
        status, told = self.model.write(author, request.idempotency_key, intent, text and json.loads(text))
        reply, error = outcome.wait()
        if status in (200, 201):
            assert error is None, error
            assert reply is not None
            receipt = timeless(json.loads(reply.json))
            assert receipt == told or (repeated and receipt == {**told, "duplicate": True})
            assert reply.created == (status == 201 and not receipt["duplicate"])
        else:
            assert isinstance(error, TermalError)
            assert (error.status, timeless(error.detail)) == (status, told)


@pytest.mark.chaos
@pytest.mark.slow
@pytest.mark.timeout(120 + 20 * EXAMPLES)
def test_any_sequence_of_writes_and_kills_leaves_the_board_of_the_model() -> None:
    folder = Path(tempfile.mkdtemp(prefix="tml-"))
    worker = BoardWorker(folder / "home", folder)
    try:
        Machine.worker, Machine.faults = worker, folder / "faults"
        worker.start(faults=Machine.faults)
        run_state_machine_as_test(
            Machine,
            settings=settings(
                max_examples=EXAMPLES, stateful_step_count=STEPS, phases=[Phase.generate], print_blob=False
            ),
        )
    finally:
        worker.close()
        shutil.rmtree(folder)
