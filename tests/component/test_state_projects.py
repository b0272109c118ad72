"""Projects on a real file: made once per root, deleted with what coordination keeps, whatever ends in between."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from termal.bus.server import Request
from termal.model.stored import Remote
from termal.wire.control import Ready
from termal.wire.coordination_operations import DeleteScope
from termal.wire.errors import Busy, InvalidRequest, NotFound, NotImplementedYet
from termal.wire.session_operations import SESSION_ELIGIBILITY, STATE_FACTS, AskEligibility
from termal.wire.settings_operations import (
    PREFERENCES_CHANGE,
    PROJECT_CREATE,
    PROJECT_DELETE,
    ChangePreferences,
    CreateProject,
    OneProject,
)
from termal.wire.turns import Anything
from tests.support.bus_peer import serving
from tests.support.control_peer import ControlPeer
from tests.support.coordination_rows import add_board
from tests.support.state_worker import Json, StateWorker, find
from tests.support.waiting import wait_until

TABLES = ("scopes", "entries", "history", "idempotency")
PENDING = "SELECT value_json ->> '$.pendingCoordinationScopeDeletions' FROM app_state"


def create(state: StateWorker, root: Path, **fields: str) -> Json:
    return state.json(PROJECT_CREATE, CreateProject(root_path=str(root), **fields))


def delete(state: StateWorker, project_id: str) -> Json:
    return state.json(PROJECT_DELETE, OneProject(project_id))


def pending(state: StateWorker) -> list[str]:
    """What is stored of it now."""
    [[value]] = state.rows(PENDING)
    return [] if value is None else list(json.loads(value))


@contextmanager
def coordination(state: StateWorker) -> Iterator[ControlPeer]:
    with ControlPeer("workers.coordination", state.home.root, state.run_dir) as worker:
        worker.wait_for(Ready)
        yield worker


def fill_board(state: StateWorker, scope_id: str, rows: int) -> None:
    """A board of ``rows`` entries, and one row of another scope, in the file of a coordination that is not there."""
    with coordination(state) as worker:
        worker.stop()
    connection = apsw.Connection(str(state.home.coordination_db))
    try:
        connection.execute("BEGIN")
        for scope in (scope_id, "project-other"):
            add_board(connection, scope, keys=rows if scope == scope_id else 1)
        connection.execute("COMMIT")
    finally:
        connection.close()


def board_rows(state: StateWorker, scope_id: str) -> list[int]:
    connection = apsw.Connection(str(state.home.coordination_db), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return [
            connection.execute(f"SELECT count(*) FROM coordination_board_{table} WHERE scope_id = ?", (scope_id,)).get
            for table in TABLES
        ]
    finally:
        connection.close()


def fences(state: StateWorker) -> list[str]:
    connection = apsw.Connection(str(state.home.coordination_db), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return [row[0] for row in connection.execute("SELECT scope_id FROM coordination_board_deleted_scopes")]
    finally:
        connection.close()


# --------------------------------------------------------------------------- create


def test_a_project_is_named_after_its_root_and_is_there_after_a_kill(state: StateWorker, tmp_path: Path) -> None:
    for part in ("a", "b"):
        (tmp_path / part / "app").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    state.start()
    first = create(state, tmp_path / "a" / "app")
    second = create(state, tmp_path / "b" / "app")
    again = create(state, tmp_path / "link" / "app", name="Other")
    assert again["projectId"] == first["projectId"] != second["projectId"]
    state.kill()
    state.start()
    projects = state.state()["projects"]
    assert [project["name"] for project in projects] == ["app", "app 2"]
    assert [project["id"] for project in projects] == [first["projectId"], second["projectId"]]
    assert [project["rootPath"] for project in projects] == [str(tmp_path / part / "app") for part in ("a", "b")]
    assert state.rows("SELECT value_json ->> '$.nextProjectNumber' FROM app_state") == [(3,)]


def test_a_project_comes_as_one_snapshot(state: StateWorker, tmp_path: Path) -> None:
    state.start()
    reply = create(state, tmp_path)
    [event] = wait_until(lambda: list(state.events), "an event")
    assert (event["event"], event["revision"]) == ("state", reply["state"]["revision"])
    assert event["projects"] == reply["state"]["projects"]


def test_a_root_that_is_no_directory_and_a_remote_that_is_not_there_are_refused(
    state: StateWorker, tmp_path: Path
) -> None:
    state.start()
    file = tmp_path / "file"
    file.touch()
    before = state.state()
    for root in ("", "  ", "app", str(file), str(tmp_path / "none"), "/\0"):
        with pytest.raises(InvalidRequest):
            state.json(PROJECT_CREATE, CreateProject(root_path=root))
    with pytest.raises(InvalidRequest):
        create(state, tmp_path, remote_id="box")
    assert state.state() == before
    box = Remote(id="box", name="Box", transport="ssh", host="box")
    state.ask(PREFERENCES_CHANGE, ChangePreferences(remotes=[box]))
    with pytest.raises(NotImplementedYet):
        create(state, tmp_path, remote_id="box")
    assert [remote["id"] for remote in state.state()["preferences"]["remotes"]] == ["local", "box"]


# --------------------------------------------------------------------------- delete


def test_a_deleted_project_leaves_its_sessions_and_no_reference(state: StateWorker, tmp_path: Path) -> None:
    state.start()
    project_id = create(state, tmp_path)["projectId"]
    inside, outside = state.create(project_id=project_id), state.create()
    stamps = {session["id"]: session["sessionMutationStamp"] for session in state.state()["sessions"]}
    reply = delete(state, project_id)
    assert reply["projects"] == []
    assert "projectId" not in find(reply, inside)
    assert find(reply, inside)["sessionMutationStamp"] > stamps[inside]
    assert find(reply, outside)["sessionMutationStamp"] == stamps[outside]
    assert wait_until(lambda: state.events[3:], "a snapshot")[0]["event"] == "state"
    with pytest.raises(NotFound):
        delete(state, project_id)
    state.kill()
    state.start()
    assert [session["id"] for session in state.state()["sessions"]] == [inside, outside]
    assert pending(state) == [project_id]
    assert state.ask(STATE_FACTS, Anything()).outbox.scope_deletions == 1


@pytest.mark.case("S105")
def test_a_deletion_does_not_wait_for_coordination_which_cleans_up_when_it_is_back(
    state: StateWorker, tmp_path: Path
) -> None:
    state.start()
    project_id = create(state, tmp_path)["projectId"]
    fill_board(state, project_id, 50_000)
    assert delete(state, project_id)["projects"] == []
    assert pending(state) == [project_id]
    with coordination(state):
        wait_until(lambda: pending(state) == [], "the outbox to be empty", 30)
        assert board_rows(state, project_id) == [0, 0, 0, 0]
        assert board_rows(state, "project-other") == [1, 1, 1, 1]
        assert fences(state) == [project_id]


@pytest.mark.case("S106")
def test_a_cleanup_goes_on_after_a_kill_and_nothing_more_can_be_written_to_the_scope(
    state: StateWorker, tmp_path: Path
) -> None:
    state.start()
    project_id = create(state, tmp_path)["projectId"]
    session_id = state.create(project_id=project_id)
    fill_board(state, project_id, 50_000)
    delete(state, project_id)
    state.kill()
    assert pending(state) == [project_id]
    state.start()
    [eligible] = state.ask(SESSION_ELIGIBILITY, AskEligibility([session_id])).sessions
    assert (eligible.verdict, eligible.project_id) == ("", None)
    with pytest.raises(InvalidRequest):
        state.create(project_id=project_id)
    with coordination(state):
        wait_until(lambda: fences(state) == [project_id], "the fence")
        wait_until(lambda: pending(state) == [], "the outbox to be empty", 30)
        assert board_rows(state, project_id) == [0, 0, 0, 0]
        assert fences(state) == [project_id]


def test_a_confirmation_that_was_not_stored_is_asked_for_again(state: StateWorker, tmp_path: Path) -> None:
    faults = tmp_path / "faults"
    root = tmp_path / "root"
    root.mkdir()
    state.start(faults=faults)
    project_id = create(state, root)["projectId"]
    (faults / "state.scope_deleted_before_commit").write_text("kill")
    # Nobody confirms before the deletion is answered: an answer that its caller has not read dies with the worker.
    delete(state, project_id)
    with coordination(state):
        state.process.wait(5)
        assert pending(state) == [project_id]
        state.start("replacement")
        wait_until(lambda: pending(state) == [], "the outbox to be empty")


def test_a_failed_cleanup_is_tried_again_and_does_not_stop_the_others(state: StateWorker, tmp_path: Path) -> None:
    state.start()
    ids = []
    for name in "ab":
        (tmp_path / name).mkdir()
        ids.append(create(state, tmp_path / name)["projectId"])
    asked: list[str] = []

    def answer(request: Request, body: DeleteScope) -> None:
        asked.append(body.scope_id)
        if asked.count(ids[0]) == 1 and body.scope_id == ids[0]:
            raise Busy("not now")
        request.reply(Anything())

    with serving(state.run_dir, "coordination", {"scope.delete": answer}):
        for project_id in ids:
            delete(state, project_id)
        wait_until(lambda: pending(state) == [], "the outbox to be empty")
    assert sorted(asked) == sorted([ids[0], ids[0], ids[1]])
