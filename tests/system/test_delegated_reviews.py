"""Structured reviews over HTTP, through state and coordination, with the Demo agent as reviewer."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Daemon
from tests.support.delegating_http import Parent

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def shared_daemon() -> Iterator[Daemon]:
    """One whose Demo agent may review."""
    folder = Path(tempfile.mkdtemp(prefix="tml-"))
    try:
        with Daemon(folder / "home", environment={"TERMAL_DEMO_REVIEWER": "1"}) as running:
            yield running.start()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def parent(shared_daemon: Daemon, tmp_path: Path) -> Iterator[Parent]:
    parent = Parent(shared_daemon, tmp_path)
    yield parent
    parent.http.close()


def test_a_review_that_is_handed_in_is_the_result_and_no_mail(parent: Parent) -> None:
    spawned = parent.spawn("wait 1\nsay No findings.", mode="reviewer")
    child = spawned["delegation"]["childSessionId"]
    payload = {
        "schemaVersion": 1,
        "status": "completed",
        "summary": "One thing.",
        "findings": [{"severity": "Low", "message": "A typo.", "file": "README", "line": 1}],
        "commandsRun": [{"command": "git diff", "status": "success"}],
        "filesInspected": ["README"],
        "notes": [],
        "suggestedTrackerUpdates": [],
    }
    path = f"/api/sessions/{child}/delegation-review-result"
    receipt = parent.post(path, payload, 202)
    assert parent.post(path, payload, 202) == {**receipt, "duplicate": True}
    assert parent.post(path, {**payload, "summary": "Another."}, 409)["reason"] == "reviewConflict"
    assert parent.post(path, {**payload, "more": 1}, 422)["reason"] == "invalidJson"
    record = parent.ended(spawned)
    assert (record["status"], record["result"]["findings"]) == ("completed", payload["findings"])
    assert [mailbox["unreadCount"] for mailbox in parent.get(f"/api/sessions/{parent.id}/mailboxes")] in ([], [0])


def test_a_review_that_is_missing_says_that_nothing_can_be_said(parent: Parent) -> None:
    record = parent.ended(parent.spawn("say All is clean.", mode="reviewer"))
    assert record["status"] == "failed"
    assert [finding["severity"] for finding in record["result"]["findings"]] == ["Unavailable"]
