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


def test_what_an_agent_changes_is_in_the_events_and_in_the_transcript(shared_daemon: Daemon, tmp_path: Path) -> None:
    work = tmp_path.resolve() / "work"
    work.mkdir()
    (work / "notes.txt").write_text("first")
    stream = EventStream(shared_daemon.url)
    person = Person(shared_daemon, "writer", workdir=work)
    person.prompt("run echo more >> notes.txt; mkdir -p src; echo x > src/new.py", key="one")
    asked(person)
    (work / "probe").touch()
    wait_until(lambda: f"{work}/probe" in changes(stream), "the directory to be watched", 20.0)
    (work / "probe").unlink()
    with shared_daemon.client() as http:
        path = f"/api/sessions/{person.session_id}/approvals/{asked(person)}"
        assert http.post(path, json={"decision": "accepted"}).is_success

    def told() -> list[dict[str, Any]]:
        return [message for message in person.read()["messages"] if message["type"] == "fileChanges"]

    (message,) = wait_until(told, "the message of the turn", 20.0)
    assert {file["path"]: file["kind"] for file in message["files"]} == {
        "notes.txt": "modified",
        # It came and went.
        "probe": "modified",
        "src/new.py": "created",
    }
    assert message["title"] == "3 files changed"
    wait_until(lambda: len(changes(stream)) == 3, "the hints")
    seen = changes(stream)
    assert seen[f"{work}/src/new.py"]["rootPath"] == str(work)
    assert seen[f"{work}/src/new.py"]["sessionId"] == person.session_id
    assert seen[f"{work}/src/new.py"]["sizeBytes"] == 2
    assert person.read()["status"] == "idle"
    stream.close()
    person.close()
