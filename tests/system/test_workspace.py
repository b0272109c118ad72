"""Files that an agent changes, as a person at the whole daemon sees them: in the events and in the transcript."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Daemon, Person
from tests.support.events import EventStream
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.slow]


def asked(person: Person) -> str:
    """The id of the newest approval that the agent waits for."""

    def found() -> str | None:
        waiting = [m["id"] for m in person.read()["messages"] if m["type"] == "approval" and m["decision"] == "pending"]
        return waiting[-1] if waiting else None

    return wait_until(found, "the agent to ask", 20.0)


def changes(stream: EventStream) -> dict[str, dict[str, Any]]:
    found = [one for name, data in list(stream.events) if name == "workspaceFilesChanged" for one in data["changes"]]
    return {change["path"]: change for change in found}


def told(person: Person) -> list[dict[str, Any]]:
    return [message for message in person.read()["messages"] if message["type"] == "fileChanges"]


def begin(person: Person, stream: EventStream, work: Path, command: str) -> str:
    """Ask for ``command``; when it is about to run and the directory is watched, the id of the approval."""
    person.prompt(f"run {command}", key="one")
    approval = asked(person)
    (work / "probe").touch()
    wait_until(lambda: f"{work}/probe" in changes(stream), "the directory to be watched", 20.0)
    (work / "probe").unlink()
    return approval


def accept(daemon: Daemon, person: Person, approval: str) -> None:
    path = f"/api/sessions/{person.session_id}/approvals/{approval}"
    with daemon.client() as http:
        assert http.post(path, json={"decision": "accepted"}).is_success


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "work"
    folder.mkdir()
    (folder / "notes.txt").write_text("first")
    return folder


def test_what_an_agent_changes_is_in_the_events_and_in_the_transcript(shared_daemon: Daemon, work: Path) -> None:
    stream = EventStream(shared_daemon.url)
    person = Person(shared_daemon, "writer", workdir=work)
    command = "echo more >> notes.txt; mkdir -p src; echo x > src/new.py"
    accept(shared_daemon, person, begin(person, stream, work, command))

    (message,) = wait_until(lambda: told(person), "the message of the turn", 20.0)
    assert {file["path"]: file["kind"] for file in message["files"]} == {
        "notes.txt": "modified",
        # It came and went.
        "probe": "modified",
        "src/new.py": "created",
    }
    assert message["title"] == "3 files changed"
    wait_until(lambda: len(changes(stream)) == 3, "the hints")
    seen = changes(stream)[f"{work}/src/new.py"]
    assert (seen["rootPath"], seen["sessionId"], seen["sizeBytes"]) == (str(work), person.session_id, 2)
    assert person.wait_idle()["status"] == "idle"
    stream.close()
    person.close()


def test_a_state_worker_that_is_killed_meanwhile_costs_no_file(daemon: Daemon, work: Path) -> None:
    stream = EventStream(daemon.url)
    person = Person(daemon, "writer", workdir=work)
    approval = begin(person, stream, work, "echo x > new.py")
    before = daemon.pid_of("state")
    daemon.kill("state")
    wait_until(lambda: (daemon.row("state") or {}).get("pid") not in (None, before), "another state worker", 20.0)
    accept(daemon, person, approval)

    (message,) = wait_until(lambda: told(person), "the message of the turn", 20.0)
    assert {"path": "new.py", "kind": "created"} in message["files"]
    stream.close()
    person.close()
