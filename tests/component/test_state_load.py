"""Which rows of a stored file are used, which are set aside and which refuse the start: one row, one reason."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from termal.log import Log
from termal.model.stored import fresh_metadata
from termal.wire.codec import encode_json
from tests.support.older_store import Json, OlderStore, damaged, message, query, session, transcript
from workers.state.load import Quarantined, load
from workers.state.registry import Registry
from workers.state.store_schema import open_store

Change = Callable[[OlderStore], None]
CODEX = {"agent": "Codex", "approvalPolicy": "never", "sandboxMode": "read-only", "reasoningEffort": "low"}
CLAUDE = {"agent": "Claude", "claudeApprovalMode": "ask", "claudeEffort": "default"}
OPENCODE = {"agent": "OpenCode", "model": "auto", "opencodeModel": "auto", "opencodeMode": "auto"}
QUEUED: Json = {
    "attachments": [],
    "source": "user",
    "pending_prompt": {"id": "message-5", "timestamp": "", "text": "p"},
}


@pytest.fixture
def path(home_dir: Path) -> Path:
    home_dir.mkdir(mode=0o700)
    path = home_dir / "termal.sqlite"
    open_store(path, durability="normal")
    return path


def loaded(path: Path, rows: list[Quarantined] | None = None) -> Registry:
    log = Log("state", path.parent / "log")
    try:
        return load(path, log, fresh=False, isolated=None if rows is None else rows.append)
    finally:
        log.close()


def fill(path: Path, *rows: tuple[Any, Any], change: str = "") -> None:
    store = OlderStore.reopen(path)
    for session_id, value in rows:
        store.add(session_id, value)
    if change:
        store.run(change)
    store.close()


def add_messages(store: OlderStore, session_id: str, messages: list[Json], first: int = 0) -> None:
    for position, known in enumerate(messages, first):
        store.run(
            "INSERT INTO messages (session_id, position, message_id, value_json) VALUES (?, ?, ?, ?)",
            session_id,
            position,
            known["id"],
            json.dumps(known),
        )


def inner(**values: Any) -> Json:
    """A healthy row of a session with these values in its session object."""
    return session("session-2", session=values)


def without(settings: Json, key: str) -> Json:
    return inner(**{name: value for name, value in settings.items() if name != key})


@pytest.mark.parametrize(
    "row",
    [
        *[pytest.param(value, id=name) for name, value in damaged(2, 5) if "count" not in name and name != "no UTF-8"],
        pytest.param(session("session-2", externalSessionId="a"), id="external id beside the session alone"),
        pytest.param(inner(externalSessionId="a"), id="external id in the session alone"),
        *[
            pytest.param(without(settings, key), id=f"{settings['agent']} without {key}")
            for settings, keys in (
                (CODEX, ("approvalPolicy", "sandboxMode", "reasoningEffort")),
                (CLAUDE, ("claudeApprovalMode", "claudeEffort")),
                (OPENCODE, ("opencodeModel", "opencodeMode")),
                ({"agent": "Cursor", "cursorMode": "ask"}, ("cursorMode",)),
                ({"agent": "Gemini", "geminiApprovalMode": "yolo"}, ("geminiApprovalMode",)),
            )
            for key in keys
        ],
        pytest.param(inner(**CODEX, claudeEffort="low"), id="Codex with a key of Claude"),
        pytest.param(inner(**CLAUDE, codexFastMode=True), id="Claude with a key of Codex"),
        pytest.param(inner(**CLAUDE, codexThreadState="active"), id="Claude with a thread state"),
        pytest.param(inner(opencodeEffortOptions=[]), id="Demo with options of OpenCode"),
        pytest.param(inner(**{**CODEX, "approvalPolicy": "sometimes"}), id="a value that does not exist"),
        pytest.param(inner(**CODEX, codexThreadState="active"), id="thread state without a thread"),
        pytest.param(inner(**{**OPENCODE, "opencodeModel": "m" * 201}), id="OpenCode model too long"),
        pytest.param(inner(**{**OPENCODE, "model": "m" * 201}), id="model of OpenCode too long"),
        pytest.param(inner(**{**OPENCODE, "opencodeMode": "a\x07"}), id="OpenCode mode with a bell"),
        pytest.param(inner(**OPENCODE, opencodeEffort="e" * 129), id="OpenCode effort too long"),
        pytest.param(inner(**OPENCODE, opencodeCurrentMode="\x00"), id="OpenCode current mode with a control"),
        pytest.param(session("session-2", queuedPrompts=[{**QUEUED, "source": "?"}]), id="queued by nobody we know"),
        pytest.param(session("session-2", queuedPrompts=[5]), id="queue of numbers"),
        pytest.param(session("session-2", remoteSessionId="session-1"), id="the other half of a remote identity"),
        pytest.param(session("session-2", remoteId=" ", remoteSessionId="session-1"), id="a blank remote"),
        pytest.param(session("session-2", remoteId="host", remoteSessionId=""), id="a blank remote session"),
        pytest.param(inner(remoteId="host"), id="a remote in the session alone"),
        pytest.param(inner(projectId="project-9"), id="no such project"),
        pytest.param(inner(messageCount="many"), id="a count that is no number"),
        pytest.param(inner(status="thinking"), id="a status that does not exist"),
    ],
)
def test_a_row_that_cannot_be_right_is_set_aside_with_its_reason(path: Path, row: Any) -> None:
    fill(path, ("session-1", session("session-1")), ("session-2", row), ("session-3", session("session-3")))
    before = query(path, "SELECT * FROM sessions")
    aside: list[Quarantined] = []
    registry = loaded(path, aside)
    assert list(registry.sessions) == ["session-1", "session-3"]
    assert [(known.table, known.id) for known in aside] == [("sessions", "session-2")]
    assert aside[0].reason
    assert registry.quarantined == {"session-2"}
    assert query(path, "SELECT * FROM sessions") == before


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(inner(**CODEX), id="Codex"),
        pytest.param({**inner(**CODEX, externalSessionId="t", codexThreadState="archived"), "externalSessionId": "t"}),
        pytest.param(inner(**CLAUDE, codexFastMode=False), id="a false setting of another agent"),
        pytest.param(inner(**OPENCODE), id="OpenCode without an effort"),
        pytest.param(session("session-2", remoteId="host", remoteSessionId="session-1"), id="a proxy"),
        pytest.param(session("session-2", queuedPrompts=[QUEUED]), id="queued"),
        pytest.param(
            session("session-2", queuedPrompts=[{**QUEUED, "pendingPrompt": QUEUED["pending_prompt"]}]), id="both keys"
        ),
        pytest.param(inner(markers=[]), id="no markers"),
        pytest.param(inner(unknownKey={"a": 1}, promptHistory=["x"]), id="unknown keys"),
    ],
)
def test_a_row_that_is_right_is_used(path: Path, row: Any) -> None:
    fill(path, ("session-2", row))
    registry = loaded(path)
    assert (list(registry.sessions), registry.quarantined) == (["session-2"], set())


def test_a_marker_of_an_unknown_kind_is_read_as_custom(path: Path) -> None:
    marker = {
        "id": "marker-1",
        "sessionId": "session-2",
        "kind": "decison",
        "name": "n",
        "color": "#fff",
        "messageId": "message-1",
        "messageIndexHint": 0,
        "createdAt": "",
        "updatedAt": "",
    }
    fill(path, ("session-2", inner(markers=[marker])))
    known = loaded(path).sessions["session-2"].session.markers
    assert known is not UNSET
    assert [marker.kind for marker in known] == ["custom"]


def test_ids_that_are_no_text_are_named_and_set_aside(path: Path) -> None:
    fill(path, (b"session-7", session("session-7")), (None, session("session-8")), ("session-1", session("session-1")))
    store = OlderStore.reopen(path)
    store.run("INSERT INTO sessions VALUES (CAST(x'ff' AS TEXT), '{}')")
    store.run("INSERT INTO sessions VALUES ('session-9', CAST(x'7bff' AS TEXT))")
    store.run("INSERT INTO delegations VALUES (NULL, '{}'), (x'00', '{}'), ('delegation-1', x'7b7d')")
    store.close()
    aside: list[Quarantined] = []
    registry = loaded(path, aside)
    assert list(registry.sessions) == ["session-1"]
    named = [(known.table, known.id) for known in aside]
    assert named[:3] == [("delegations", "row 1"), ("delegations", "\x00"), ("delegations", "delegation-1")]
    assert named[3:] == [("sessions", name) for name in ("session-7", "row 2", "\\xff", "session-9")]
    assert registry.next_session_number == 10


@pytest.mark.parametrize(
    ("count", "change"),
    [
        (10, "DELETE FROM messages WHERE position = 5"),
        (10, "DELETE FROM messages WHERE position = 9"),
        (500, "DELETE FROM messages WHERE position = 436"),
        (500, "UPDATE messages SET value_json = '{' WHERE position = 436"),
        (500, "UPDATE messages SET value_json = x'7b7d' WHERE position = 499"),
        (500, "UPDATE messages SET message_id = 'message-x' WHERE position = 470"),
        (500, "UPDATE messages SET value_json = CAST(x'22ff22' AS TEXT) WHERE position = 470"),
    ],
)
def test_damage_among_the_newest_messages_sets_the_session_aside(path: Path, count: int, change: str) -> None:
    with_transcript(path, count, change)
    assert loaded(path).quarantined == {"session-1"}


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM messages WHERE position = 435",
        "UPDATE messages SET value_json = '{' WHERE position = 435",
        "UPDATE messages SET message_id = 'message-x' WHERE position = 5",
        "DELETE FROM session_overviews",
        "UPDATE session_overviews SET value_blob = x'08'",
    ],
)
def test_damage_below_the_newest_messages_is_left_for_whoever_reads_there(path: Path, change: str) -> None:
    with_transcript(path, 500, change)
    registry = loaded(path)
    record = registry.sessions["session-1"]
    assert (len(record.messages), record.start, record.count, registry.quarantined) == (64, 436, 500, set())


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM messages WHERE position = 420",
        "UPDATE messages SET value_json = '{' WHERE position = 420",
        "UPDATE messages SET message_id = 'message-x' WHERE position = 420",
    ],
)
def test_damage_in_the_older_part_of_a_running_turn_does_not_set_its_session_aside(path: Path, change: str) -> None:
    turn = {"turnId": "turn-1", "worker": "runtime-acp", "promptId": "message-10400"}
    active = session("session-1", session={"messageCount": 500, "status": "active"}, activeTurn=turn)
    fill(path, ("session-1", active))
    store = OlderStore.reopen(path)
    add_messages(store, "session-1", transcript(1, 500))
    store.run(change)
    store.close()
    record = loaded(path).sessions["session-1"]
    assert (record.start, len(record.messages), record.count) == (421, 79, 500)


def test_positions_below_the_first_stored_row_count_as_not_there_yet(path: Path) -> None:
    with_transcript(path, 500, "DELETE FROM messages WHERE position < 480")
    record = loaded(path).sessions["session-1"]
    assert (record.start, len(record.messages), record.count) == (480, 20, 500)


def test_rows_beyond_the_known_count_are_counted(path: Path) -> None:
    fill(path, ("session-1", session("session-1", session={"messageCount": 3})))
    store = OlderStore.reopen(path)
    add_messages(store, "session-1", transcript(1, 200))
    store.close()
    record = loaded(path).sessions["session-1"]
    assert (record.start, len(record.messages), record.count) == (136, 64, 200)


def with_transcript(path: Path, count: int, change: str) -> None:
    fill(path, ("session-1", session("session-1", session={"messageCount": count})))
    store = OlderStore.reopen(path)
    add_messages(store, "session-1", transcript(1, count))
    store.run("INSERT INTO session_overviews VALUES ('session-1', ?)", bytes(count))
    store.run(change)
    store.close()


@pytest.mark.parametrize("value", ["[1", "5", "[5]", '{"a": 1}', b"[]"], ids=repr)
def test_an_unreadable_prompt_history_sets_its_session_aside(path: Path, value: Any) -> None:
    fill(path, ("session-1", session("session-1")))
    store = OlderStore.reopen(path)
    store.run("INSERT INTO session_prompt_histories VALUES ('session-1', ?)", value)
    store.close()
    assert loaded(path).quarantined == {"session-1"}


def test_message_numbers_begin_above_those_that_the_load_has_read(path: Path) -> None:
    queued = {**QUEUED, "pending_prompt": {**QUEUED["pending_prompt"], "id": "message-90000"}}
    fill(path, ("session-1", session("session-1", session={"messageCount": 1}, queuedPrompts=[queued])))
    store = OlderStore.reopen(path)
    add_messages(store, "session-1", [message(77)])
    store.close()
    assert loaded(path).next_message_number == 90001


def test_an_empty_file_of_this_version_begins_like_a_fresh_one(path: Path) -> None:
    fill(path, change="DELETE FROM app_state")
    assert open_store(path, durability="normal") == "2"
    [(stored,)] = query(path, "SELECT value_json FROM app_state")
    assert stored.encode() == encode_json(fresh_metadata())
