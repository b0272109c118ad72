"""The coordination worker with projects: what a test of boards needs beside mail."""

import json
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

from termal.bus.server import Request
from termal.wire.board_operations import (
    BOARD_GET,
    BOARD_LIST,
    BOARD_SET,
    BoardWritten,
    ReadBoard,
    ReadBoardKey,
    SetBoardKey,
)
from termal.wire.errors import TermalError
from termal.wire.session_operations import AskEligibility, Eligibilities, Eligibility
from tests.support.bus import Outcome
from tests.support.mail_worker import FakeState, Json, MailWorker

SCOPE = "project-1"
ABSENT = object()


class ProjectState(FakeState):
    """``boards`` maps a session to the id and kind of its project. Questions about one of ``silent`` wait for
    `speak`."""

    def __init__(self) -> None:
        super().__init__()
        self.boards: dict[str, tuple[str | None, str | None]] = dict.fromkeys("abc", (SCOPE, "local"))
        self.silent: set[str] = set()
        self.held: list[tuple[Request, AskEligibility]] = []

    def _eligibility(self, request: Request, asked: AskEligibility) -> None:
        if self.silent & set(asked.session_ids):
            self.held.append((request, asked))
            return
        self.questions.append(asked.session_ids)
        request.reply(Eligibilities([self._known(session_id) for session_id in asked.session_ids]))

    def _known(self, session_id: str) -> Eligibility:
        project_id, kind = self.boards.get(session_id, (None, None))
        verdict = self.sessions.get(session_id, "unknown")
        name = self.names.get(session_id, session_id)
        return Eligibility(session_id, verdict, name=name, project_id=project_id, project_kind=kind)

    def speak(self) -> None:
        """On the loop of the peer."""
        held, self.held = self.held, []
        self.silent.clear()
        for request, asked in held:
            self._eligibility(request, asked)


class BoardWorker(MailWorker):
    """Sessions a, b and c are of one local project."""

    state: ProjectState

    def __init__(self, home: Path, run_dir: Path) -> None:
        super().__init__(home, run_dir)
        self.peer_down("state")
        self.state = ProjectState()
        self.peer_up("state")

    def state_speaks(self) -> None:
        """State answers what it holds."""
        self._peers["state"].run(self.state.speak)

    def write(
        self,
        key: str,
        expected: int,
        value: object = ABSENT,
        *,
        by: str = "a",
        once: str | None = None,
        stamp: str | None = None,
    ) -> SetBoardKey:
        """The request that sets ``key``, or deletes it without a value; ``once`` is the idempotency key."""
        self.keys += 1
        return SetBoardKey(
            session_id=by,
            key=key,
            expected_revision=expected,
            idempotency_key=f"k{self.keys}" if once is None else once,
            value=None if value is ABSENT else json.dumps(value).encode(),
            delete=value is ABSENT,
            state_stamp=stamp,
        )

    def set(self, key: str, expected: int, value: object = ABSENT, **fields: Any) -> Json:
        receipt: Json = json.loads(self.ask(BOARD_SET, self.write(key, expected, value, **fields)).json)
        return receipt

    def set_all(self, writes: Sequence[SetBoardKey]) -> list[BoardWritten]:
        """In one pass of the loop."""
        outcomes: list[Outcome[BoardWritten]] = self.bus.start_all(self.client, [(BOARD_SET, one) for one in writes])
        return [outcome.reply() for outcome in outcomes]

    def refused(self, key: str, expected: int, value: object = ABSENT, **fields: Any) -> TermalError:
        return self.bus.start(self.client, BOARD_SET, self.write(key, expected, value, **fields)).error()

    def get(self, key: str, by: str = "a") -> Json:
        head: Json = self.json(BOARD_GET, ReadBoardKey(by, key))
        return head

    def page(self, by: str = "a", **selectors: Any) -> Json:
        page: Json = self.json(BOARD_LIST, ReadBoard(by, **selectors))
        return page

    def fill(self, sql: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Write into the file of a worker that does not run."""
        with closing(apsw.Connection(str(self.home.coordination_db))) as connection, connection:
            connection.executemany(sql, rows)

    def history(self, key: str) -> list[int]:
        sql = "SELECT revision FROM coordination_board_history WHERE key = ? ORDER BY revision"
        return [row[0] for row in self.rows(sql, key)]
