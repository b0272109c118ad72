"""Sending, queueing, answering, stopping and killing over HTTP, against a whole daemon with the Demo agent."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import apsw
import httpx
import msgspec
import pytest

from termal.client.replies import Delta
from termal.client.transcript import Transcript
from termal.model.message import Text
from termal.model.reply import SessionResponse
from tests.support.daemon import Daemon
from tests.support.events import EventStream
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.slow]

Json = dict[str, Any]
PIXEL = base64.b64encode(b"\x89PNG pixel").decode()


class Api:
    """Requests to one daemon, as any HTTP client makes them."""

    def __init__(self, http: httpx.Client) -> None:
        self.http = http

    def create(self, name: str = "") -> str:
        reply = self.http.post("/api/sessions", json={"agent": "Demo", "name": name or None})
        assert reply.status_code == 201, reply.text
        return str(reply.json()["sessionId"])

    def post(self, path: str, body: Json | None = None) -> httpx.Response:
        return self.http.post(f"/api/sessions/{path}", json=body)

    def send(self, session_id: str, text: str, **fields: Any) -> httpx.Response:
        return self.post(f"{session_id}/messages", {"text": text, **fields})

    def read(self, session_id: str) -> Json:
        session: Json = self.http.get(f"/api/sessions/{session_id}", params={"tail": 64}).json()["session"]
        return session

    def state(self) -> Json:
        state: Json = self.http.get("/api/state").json()
        return state

    def wait_status(self, session_id: str, *statuses: str) -> Json:
        return wait_until(
            lambda: shown if (shown := self.read(session_id))["status"] in statuses else None,
            f"{session_id} to be {statuses}",
        )

    def busy(self) -> str:
        """A session whose turn runs until it is stopped."""
        session_id = self.create()
        assert self.send(session_id, "wait 60").status_code == 202
        return session_id

    def asking(self) -> tuple[str, str]:
        """A session whose agent asks for permission, and the message that shows it."""
        session_id = self.create()
        assert self.send(session_id, "run echo one").status_code == 202
        shown = self.wait_status(session_id, "approval")
        return session_id, next(message["id"] for message in shown["messages"] if message["type"] == "approval")


def find(state: Json, session_id: str) -> Json:
    found: Json = next(session for session in state["sessions"] if session["id"] == session_id)
    return found


@pytest.fixture
def api(shared_daemon: Daemon) -> Iterator[Api]:
    with shared_daemon.client() as client:
        yield Api(client)


@pytest.fixture
def stream(shared_daemon: Daemon) -> Iterator[EventStream]:
    stream = EventStream(shared_daemon.url)
    wait_until(lambda: stream.events, "the first event")
    yield stream
    stream.close()


@pytest.mark.case("H11")
@pytest.mark.parametrize("text", ["  ", "", "\n\t"])
def test_a_blank_prompt_is_refused(api: Api, text: str) -> None:
    session_id = api.create()
    before = api.state()["revision"]
    reply = api.send(session_id, text)
    assert (reply.status_code, reply.json()["code"]) == (400, "invalid_request")
    assert (api.read(session_id)["messageCount"], api.state()["revision"]) == (0, before)


@pytest.mark.case("H12")
def test_a_prompt_to_an_idle_session_is_in_its_reply(api: Api) -> None:
    session_id = api.create()
    reply = api.send(session_id, "wait 60")
    assert reply.status_code == 202
    assert "messageDisposition" not in reply.json()
    session = find(reply.json(), session_id)
    assert session["status"] == "active"
    assert [(message["author"], message["text"]) for message in session["messages"]] == [("you", "wait 60")]
    assert api.post(f"{session_id}/stop").status_code == 200


@pytest.mark.case("H13")
def test_a_prompt_of_a_peer_waits_behind_a_running_turn(api: Api) -> None:
    sender, receiver = api.create("Ada"), api.busy()
    reply = api.send(receiver, "say hello", sourceSessionId=sender)
    assert (reply.status_code, reply.json()["messageDisposition"]) == (202, "queuedBehindActiveTurn")
    (waiting,) = find(reply.json(), receiver)["pendingPrompts"]
    assert (waiting["text"], waiting["source"]) == ("say hello", {"sessionId": sender, "name": "Ada"})
    assert api.post(f"{receiver}/queued-prompts/{waiting['id']}/cancel").status_code == 200
    assert api.post(f"{receiver}/queued-prompts/{waiting['id']}/cancel").status_code == 404
    api.post(f"{receiver}/stop")


@pytest.mark.case("H14")
def test_a_sender_that_nobody_knows_is_left_out(api: Api) -> None:
    session_id = api.create()
    reply = api.send(session_id, "say hello", sourceSessionId="session-9999")
    assert reply.status_code == 202
    assert "source" not in find(reply.json(), session_id)["messages"][0]
    api.wait_status(session_id, "idle")


def test_images_are_refused_for_an_agent_that_takes_none(api: Api) -> None:
    session_id = api.create()
    reply = api.send(session_id, "look", attachments=[{"data": PIXEL, "mediaType": "image/png"}])
    assert (reply.status_code, reply.json()["code"]) == (400, "invalid_request")
    assert "Demo" in reply.json()["error"]
    assert api.read(session_id)["messageCount"] == 0


@pytest.mark.case("H20")
def test_a_decision_that_only_the_daemon_sets_changes_nothing(api: Api) -> None:
    session_id, message_id = api.asking()
    before = api.read(session_id)
    for decision in ("interrupted", "pending", "canceled"):
        reply = api.post(f"{session_id}/approvals/{message_id}", {"decision": decision})
        assert (reply.status_code, reply.json()["code"]) == (400, "invalid_request")
    assert api.read(session_id) == before
    api.post(f"{session_id}/stop")


@pytest.mark.case("H21")
def test_an_approval_is_answered_once(api: Api) -> None:
    session_id, message_id = api.asking()
    path = f"{session_id}/approvals/{message_id}"
    assert api.post(path, {"decision": "accepted"}).status_code == 200
    again = api.post(path, {"decision": "accepted"})
    assert (again.status_code, again.json()["reason"]) == (409, "notLive")
    shown = api.wait_status(session_id, "idle")
    assert next(message for message in shown["messages"] if message["type"] == "command")["output"].strip() == "one"


def test_the_other_kinds_of_answers_know_their_own_messages_only(api: Api) -> None:
    session_id, message_id = api.asking()
    for path, body in (
        ("user-input", {"answers": {}}),
        ("mcp-elicitation", {"action": "cancel"}),
        ("codex/requests", {"result": 1}),
    ):
        for session, message in ((session_id, message_id), (session_id, "message-x"), ("session-9999", message_id)):
            reply = api.post(f"{session}/{path}/{message}", body)
            assert (reply.status_code, reply.json()["code"]) == (404, "not_found")
    api.post(f"{session_id}/stop")


@pytest.mark.case("H23")
def test_a_stop_of_an_idle_session_is_a_conflict(api: Api) -> None:
    reply = api.post(f"{api.create()}/stop")
    assert (reply.status_code, reply.json()["code"]) == (409, "conflict")
    assert api.post("session-9999/stop").status_code == 404


def test_a_stop_shows_the_queue_going_on_in_the_same_reply(api: Api) -> None:
    session_id = api.busy()
    api.send(session_id, "say next")
    reply = api.post(f"{session_id}/stop")
    assert reply.status_code == 200
    session = find(reply.json(), session_id)
    assert session["status"] == "active"
    assert [message["text"] for message in session["messages"]][:3] == ["wait 60", "Stopped by the user.", "say next"]
    assert "pendingPrompts" not in session
    api.wait_status(session_id, "idle")


@pytest.mark.case("H24")
def test_a_kill_takes_every_descendant_along_in_one_event(daemon: Daemon) -> None:
    with daemon.client() as client:
        parent, child, grandchild, other = (Api(client).create() for _ in range(4))
    assert daemon.stop() == 0
    connection = apsw.Connection(str(daemon.home.termal_db))
    for number, (above, below) in enumerate(((parent, child), (child, grandchild))):
        record = {"id": f"delegation-{number}", "parentSessionId": above, "childSessionId": below, "status": "running"}
        connection.execute("INSERT INTO delegations VALUES (?, ?)", (record["id"], json.dumps(record)))
    connection.close()
    daemon.start()
    stream = EventStream(daemon.url)
    wait_until(lambda: stream.events, "the first event")
    with daemon.client() as client:
        reply = client.post(f"/api/sessions/{parent}/kill")
        assert reply.status_code == 200
        assert [session["id"] for session in reply.json()["sessions"]] == [other]
        after = Api(client).create()
    wait_until(lambda: stream.deltas("sessionCreated"), "what follows the kill")
    first, *states = [data for name, data in stream.events if name == "state"]
    assert len(first["sessions"]) == 4
    assert [[session["id"] for session in data["sessions"]] for data in states] == [[other]]
    assert after not in (parent, child, grandchild, other)
    stream.close()


@pytest.mark.case("H29")
def test_each_message_is_added_by_one_event_and_never_by_a_snapshot(api: Api, stream: EventStream) -> None:
    session_id = api.create()
    api.send(session_id, "think first\nsay second")
    shown = api.wait_status(session_id, "idle")
    wait_until(
        lambda: [d for d in stream.deltas("sessionSummaryUpdated") if d["session"]["status"] == "idle"], "the end"
    )
    added = [d["messageId"] for d in stream.deltas("messageAdded") if d["sessionId"] == session_id]
    assert added == [message["id"] for message in shown["messages"]]
    assert len(added) == 3
    assert [name for name, _ in stream.events].count("state") == 1


@pytest.mark.case("H30")
def test_a_creation_is_one_event_and_no_snapshot(api: Api, stream: EventStream) -> None:
    session_id = api.create("Made")
    wait_until(lambda: stream.deltas("sessionCreated"), "sessionCreated")
    (created,) = stream.deltas("sessionCreated")
    assert (created["sessionId"], created["session"]["name"]) == (session_id, "Made")
    assert created["session"]["messages"] == []
    assert [name for name, _ in stream.events] == ["state", "delta"]


@pytest.mark.case("H36")
def test_a_client_takes_a_restarted_daemon_over(daemon: Daemon) -> None:
    with daemon.client() as client:
        session_id = Api(client).create()
        Api(client).send(session_id, "say before")
        Api(client).wait_status(session_id, "idle")
    assert daemon.stop() == 0
    connection = apsw.Connection(str(daemon.home.termal_db))
    connection.execute(
        "UPDATE app_state SET value_json = json_set(value_json, '$.revision', 500) WHERE key = 'metadataState'"
    )
    connection.close()
    daemon.start()
    with daemon.client() as client:
        api = Api(client)
        before = api.state()
        transcript = Transcript(session_id)
        transcript.adopt(_session_reply(client, session_id))
    assert before["revision"] >= 500
    assert daemon.stop() == 0
    daemon.start()
    stream = EventStream(daemon.url)
    wait_until(lambda: stream.events, "the first event")
    with daemon.client() as client:
        api = Api(client)
        after = api.state()
        assert after["serverInstanceId"] not in ("", before["serverInstanceId"])
        assert after["revision"] >= before["revision"]
        transcript.adopt(_session_reply(client, session_id))
        api.send(session_id, "say after")
        api.wait_status(session_id, "idle")
    for one in wait_until(lambda: _until_idle(stream), "the end of the turn"):
        transcript.apply(msgspec.convert(one, Delta, strict=False))
    said = [message for message in transcript.messages.values() if isinstance(message, Text)]
    assert [message.text for message in said if message.author == "assistant"] == ["before", "after"]
    stream.close()


@pytest.mark.case("S51")
def test_a_workflow_prompt_that_waited_goes_on_after_a_restart_of_the_daemon(daemon: Daemon) -> None:
    with daemon.client() as client:
        resumed, barred = Api(client).create(), Api(client).create()
    daemon.kill_supervisor()
    wait_until(lambda: not daemon.marked(), "the workers to be gone")
    connection = apsw.Connection(str(daemon.home.termal_db))
    connection.set_busy_timeout(5000)
    for session_id, sources in ((resumed, ["orchestrator"]), (barred, ["user", "orchestrator"])):
        row = connection.execute("SELECT value_json FROM sessions WHERE id = ?", (session_id,)).get
        prompts = [
            {
                "source": source,
                "pending_prompt": {"id": f"message-{90 + number}", "timestamp": "10:00:00", "text": f"say {source}"},
            }
            for number, source in enumerate(sources)
        ]
        value = json.dumps({**json.loads(str(row)), "queuedPrompts": prompts})
        connection.execute("UPDATE sessions SET value_json = ? WHERE id = ?", (value, session_id))
    connection.close()
    daemon.start()
    with daemon.client() as client:
        api = Api(client)
        wait_until(lambda: api.read(resumed)["messageCount"] == 2, "the workflow prompt to be answered")
        assert [message["text"] for message in api.wait_status(resumed, "idle")["messages"]] == [
            "say orchestrator",
            "orchestrator",
        ]
        shown = api.read(barred)
        assert (shown["status"], len(shown["pendingPrompts"]), shown["messageCount"]) == ("idle", 2, 0)


def _session_reply(client: httpx.Client, session_id: str) -> SessionResponse:
    return msgspec.json.decode(client.get(f"/api/sessions/{session_id}").content, type=SessionResponse)


def _until_idle(stream: EventStream) -> list[Json]:
    deltas = [data for name, data in list(stream.events) if name == "delta"]
    ended = any(d["type"] == "sessionSummaryUpdated" and d["session"]["status"] == "idle" for d in deltas)
    return deltas if ended else []
