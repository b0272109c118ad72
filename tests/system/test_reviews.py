"""Structured reviews through the whole daemon: from the child's submission to the mailbox, the record and back."""

import json
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest

from termal.rules.mail import mailbox_key
from tests.support.daemon import Daemon
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.slow]

Json = dict[str, Any]
TURN_S = 30.0
"""For a turn of the bundled agent on a machine that has other things to do."""
REVIEW: Json = {
    "schemaVersion": 1,
    "status": "completed",
    "summary": "One finding.",
    "findings": [{"severity": "Medium", "file": "a.py", "line": 3, "message": "boom"}],
    "commandsRun": [{"command": "make test", "status": "success"}],
    "filesInspected": ["a.py"],
    "notes": ["as submitted"],
    "suggestedTrackerUpdates": [],
}


@pytest.fixture(scope="module")
def shared_daemon() -> Iterator[Daemon]:
    folder = Path(tempfile.mkdtemp(prefix="tml-"))
    try:
        with Daemon(folder / "home", environment={"TERMAL_DEMO_REVIEWER": "1"}) as running:
            running.start()
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Review:
    """A parent with one reviewer, who works for half a minute unless its prompt says otherwise."""

    def __init__(self, daemon: Daemon, prompt: str = "wait 30\nsay done", mode: str = "reviewer") -> None:
        self.daemon = daemon
        with daemon.client() as http:
            made = http.post("/api/sessions", json={"agent": "Demo", "name": "Lead", "workdir": str(daemon.home.root)})
            self.parent: str = made.json()["sessionId"]
            path = f"/api/sessions/{self.parent}/delegations"
            spawned = http.post(path, json={"prompt": prompt, "mode": mode})
        assert spawned.status_code == 201, spawned.text
        self.child: str = spawned.json()["childSession"]["id"]
        self.id: str = spawned.json()["delegation"]["id"]
        self.path = f"{path}/{self.id}"

    def submit(self, session_id: str | None = None, **changes: Any) -> httpx.Response:
        return self.ask("POST", f"/api/sessions/{session_id or self.child}/delegation-review-result", REVIEW | changes)

    def ask(self, method: str, path: str, body: Json | None = None) -> httpx.Response:
        """The reply, whatever it is; asked again while a killed worker is away."""

        def answered() -> httpx.Response | None:
            with self.daemon.client() as http:
                reply = http.request(method, path, json=body)
            return None if reply.status_code in (503, 504) else reply

        return wait_until(answered, f"an answer to {method} {path}", 20.0)

    def record(self) -> Json:
        found: Json = self.ask("GET", self.path).json()["delegation"]
        return found

    def wait_status(self, status: str) -> Json:
        return wait_until(
            lambda: record if (record := self.record())["status"] == status else None, f"a {status} review", TURN_S
        )

    def cancel(self) -> None:
        self.ask("POST", f"{self.path}/cancel")

    def rows(self) -> list[tuple[Any, ...]]:
        connection = apsw.Connection(str(self.daemon.home.coordination_db), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return connection.execute(
                "SELECT sequence, idempotency_key, dispatch_outcome FROM mailbox_messages WHERE sender_session_id = ?",
                (self.child,),
            ).fetchall()
        finally:
            connection.close()

    def is_the_submission(self, result: Json) -> bool:
        return (result["status"], result["summary"], result["findings"], result["commandsRun"], result["notes"]) == (
            REVIEW["status"],
            REVIEW["summary"],
            REVIEW["findings"],
            REVIEW["commandsRun"],
            ["as submitted", "Inspected a.py"],
        )


@pytest.mark.case("C99", "A45")
def test_a_review_is_accepted_once_and_is_nobodys_mail(shared_daemon: Daemon) -> None:
    review = Review(shared_daemon)
    first, again = review.submit(), review.submit()
    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json()["notificationDisposition"] == "durableButNotWoken"
    assert again.json() == {**first.json(), "duplicate": True}
    assert review.submit(summary="Another.").status_code == 409
    parent = f"/api/sessions/{review.parent}"
    assert "pendingPrompts" not in review.ask("GET", parent).json()["session"]
    assert review.ask("GET", f"{parent}/mailboxes").json() == []
    box, message = first.json()["mailboxId"], first.json()["messageId"]
    assert review.ask("POST", f"{parent}/mailboxes/{box}/read", {}).json() == []
    assert review.ask("GET", f"{parent}/mailbox-messages/{message}").status_code == 404
    review.cancel()
    shared_daemon.stop()
    shared_daemon.start()
    session = review.ask("GET", parent).json()["session"]
    assert ("pendingPrompts" in session, session["status"]) == (False, "idle")
    connection = apsw.Connection(str(shared_daemon.home.coordination_db), flags=apsw.SQLITE_OPEN_READONLY)
    query = "SELECT processed_through FROM mailbox_participants WHERE mailbox_id = ? AND session_id = ?"
    assert connection.execute(query, (box, review.parent)).get == 0
    connection.close()


@pytest.mark.case("C104")
def test_a_further_turn_submits_under_a_key_of_its_own(shared_daemon: Daemon) -> None:
    review = Review(shared_daemon, "wait 2\nsay done")
    assert review.submit().json()["sequence"] == 1
    assert review.is_the_submission(review.wait_status("completed")["result"])
    assert review.ask("POST", f"{review.path}/followup", {"message": "wait 30"}).status_code == 200
    second = review.submit().json()
    assert (second["sequence"], second["duplicate"]) == (2, False)
    assert [row[:2] for row in review.rows()] == [
        (1, f"delegation-review-result-v1-{review.id}-1"),
        (2, f"delegation-review-result-v1-{review.id}-2"),
    ]
    review.cancel()


@pytest.mark.case("C105")
def test_who_may_not_submit_and_what_may_not_be_submitted(shared_daemon: Daemon) -> None:
    explorer = Review(shared_daemon, "wait 30", mode="explorer")
    assert explorer.submit(explorer.parent).status_code == 400
    assert explorer.submit().status_code == 400
    explorer.cancel()
    review = Review(shared_daemon)
    large = review.submit(notes=["x" * 16384] * 16)
    assert (large.status_code, large.json()["reason"]) == (400, "reviewTooLarge")
    assert review.submit(findings=[{**REVIEW["findings"][0], "extra": 1}]).status_code == 422
    assert review.rows() == []
    review.cancel()


@pytest.mark.case("C106")
def test_an_accepted_review_outlives_the_runtime_of_its_child(shared_daemon: Daemon) -> None:
    review = Review(shared_daemon)
    assert review.submit().status_code == 202
    shared_daemon.kill("runtime-acp")
    record = review.wait_status("completed")
    assert review.is_the_submission(record["result"])
    assert record["postSubmissionTransportError"].startswith("runtime failed after acceptance: ")


@pytest.mark.case("C102")
def test_an_envelope_whose_record_was_never_written_is_found_after_a_crash(shared_daemon: Daemon) -> None:
    review = Review(shared_daemon)
    parent = f"/api/sessions/{review.parent}"
    assert review.ask("POST", f"{parent}/delegation-waits", {"delegationIds": [review.id]}).status_code == 201
    shared_daemon.arm("state.review_appended")
    with shared_daemon.client() as http:
        # Everybody dies with state, the child too: the envelope alone is left.
        path = f"/api/sessions/{review.child}/delegation-review-result"
        task = _Later(http, path)
        wait_until(lambda: shared_daemon.fired("state.review_appended"), "state to be killed", 20.0)
        shared_daemon.kill_supervisor()
        task.join()
    wait_until(lambda: not shared_daemon.marked(), "everything to be gone", 20.0)
    assert len(review.rows()) == 1
    shared_daemon.start()
    record = review.wait_status("completed")
    assert review.is_the_submission(record["result"])

    def resumed() -> str | None:
        session = review.ask("GET", f"{parent}?tail=16").json()["session"]
        texts = [message.get("text", "") for message in session["messages"] if message["author"] == "you"]
        return next((text for text in texts if "Wait id:" in text), None)

    prompt = wait_until(resumed, "the parent to be resumed", TURN_S)
    assert "One finding." in prompt
    assert "Unavailable" not in prompt


class _Later:
    """A submission that gets no answer."""

    def __init__(self, http: httpx.Client, path: str) -> None:
        def post() -> None:
            try:
                http.post(path, json=REVIEW)
            except httpx.HTTPError:
                return

        self._thread = threading.Thread(target=post)
        self._thread.start()

    def join(self) -> None:
        self._thread.join(30)
        assert not self._thread.is_alive()


@pytest.mark.case("C103")
@pytest.mark.parametrize(("column", "value"), [("body", "no JSON"), ("state_stamp", "other:1")], ids=["body", "stamp"])
def test_a_stored_envelope_that_does_not_fit_is_set_aside_and_blocks_nothing(
    shared_daemon: Daemon, column: str, value: str
) -> None:
    review = Review(shared_daemon, "wait 3")
    review.wait_status("failed")
    shared_daemon.stop()
    _forge(shared_daemon, review, column, value)
    shared_daemon.start()
    record = wait_until(
        lambda: found if "reviewResultRecoveryError" in (found := review.record()) else None, "the row to be looked at"
    )
    assert record["status"] == "failed"
    for method, path in (("GET", "/result"), ("GET", "/result/output"), ("POST", "/cancel"), ("GET", "")):
        assert review.ask(method, review.path + path).status_code == 200
    followed = review.ask("POST", f"{review.path}/followup", {"message": "wait 30"})
    assert followed.status_code == 200
    record = followed.json()["delegation"]
    assert (record["status"], record["reviewResultSubmissionAttempt"]) == ("running", 2)
    assert "reviewResultRecoveryError" not in record
    assert review.submit().status_code == 202
    review.cancel()


def _forge(daemon: Daemon, review: Review, column: str, value: str) -> None:
    """A row of that attempt in the file of a daemon that is stopped, with one value that does not fit."""
    envelope = {
        **REVIEW,
        "kind": "delegationReviewResult",
        "delegationId": review.id,
        "childSessionId": review.child,
        "submissionAttempt": 1,
    }
    row: Json = {
        "id": f"mailbox-message-{review.id}",
        "mailbox_id": f"mailbox-{review.id}",
        "sequence": 1,
        "sender_session_id": review.child,
        "sender_name": "Reviewer",
        "target_session_id": review.parent,
        "target_name": "Lead",
        "created_at": "2026-01-01T00:00:00.000000+00:00",
        "class": "routine",
        "topic": "delegation-review-result/v1",
        "state_stamp": f"{review.id}:1",
        "idempotency_key": f"delegation-review-result-v1-{review.id}-1",
        "unread_depth_at_append": 0,
        "notification_disposition": "durableButNotWoken",
        "dispatch_outcome": "durableButNotWoken",
        "body": json.dumps(envelope),
        column: value,
    }
    connection = apsw.Connection(str(daemon.home.coordination_db))
    connection.execute(
        "INSERT INTO mailboxes VALUES (?, ?, '2026-01-01T00:00:00.000000+00:00', 2)",
        (row["mailbox_id"], mailbox_key(review.child, review.parent)),
    )
    marks = ", ".join("?" for _ in row)
    connection.execute(f"INSERT INTO mailbox_messages ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))
    connection.close()
