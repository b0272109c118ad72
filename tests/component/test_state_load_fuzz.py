"""Whatever a damaged row holds, a start and an upgrade take all other rows and leave that one as it is."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from termal.log import Log
from tests.support.older_store import Json, OlderStore, message, query, session, transcript
from workers.state.load import load
from workers.state.store_schema import open_store

JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
QUEUED = {"source": "user", "attachments": [], "pending_prompt": {"id": "message-5", "timestamp": "", "text": "p"}}
MARKER = {
    "id": "marker-1",
    "sessionId": "session-2",
    "kind": "review",
    "name": "n",
    "color": "#fff",
    "messageId": "message-20000",
    "messageIndexHint": 0,
    "createdAt": "",
    "updatedAt": "",
}
TURN = {
    "turnId": "turn-1",
    "worker": "runtime-acp",
    "promptId": "message-20000",
    "items": [["a", "message-20001"]],
    "requests": [{"request": "r", "messageId": "message-20001", "options": [{"id": "o", "decision": "accepted"}]}],
    "openTexts": ["a"],
}
WHOLE = session(
    "session-2",
    session={"messageCount": 3, "markers": [MARKER], "modelOptions": [{"label": "l", "value": "v"}]},
    queuedPrompts=[QUEUED],
    queuedPeerMessages={"message-5": [QUEUED["pending_prompt"]]},
    promptKeys=[{"key": "k", "promptId": "message-5", "queued": True}],
    activeTurn=TURN,
    lastTurn=TURN,
    creationKey="c",
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every key path of a JSON value."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield (*path, key)
        yield from places(value[key], (*path, key))


def replaced(whole: Json, path: tuple[Any, ...], junk: Any) -> Json:
    changed: Any = copy.deepcopy(whole)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = junk
    return dict(changed)


def whole(number: int) -> Json:
    return replaced(WHOLE, ("session", "id"), f"session-{number}")


@pytest.fixture
def path(home_dir: Path) -> Path:
    """Two healthy sessions: a plain one, and one with something in every key."""
    home_dir.mkdir(mode=0o700)
    path = home_dir / "termal.sqlite"
    open_store(path, durability="normal")
    store = OlderStore.reopen(path)
    store.add("session-1", session("session-1"))
    add(store, 2, json.dumps(WHOLE).encode(), [json.dumps(known).encode() for known in MESSAGES])
    store.close()
    assert loaded(path) == ({"session-1", "session-2"}, set())
    return path


def add(store: OlderStore, number: int, row: bytes, messages: list[bytes]) -> None:
    store.add_text(f"session-{number}", row)
    for position, (known, text) in enumerate(zip(MESSAGES, messages, strict=True)):
        store.run(
            "INSERT INTO messages (session_id, position, message_id, value_json) VALUES (?, ?, ?, CAST(? AS TEXT))",
            f"session-{number}",
            position,
            known["id"],
            text,
        )


def loaded(path: Path) -> tuple[set[str], set[str]]:
    """The sessions that are used, and what is set aside."""
    log = Log("state", path.parent / "log")
    try:
        registry = load(path, log, fresh=False)
    finally:
        log.close()
    return set(registry.sessions), registry.quarantined


def check(path: Path, rows: list[tuple[bytes, list[bytes]]]) -> None:
    """Add these session rows with their messages, load, look, and take them away again."""
    store = OlderStore.reopen(path)
    for number, (row, messages) in enumerate(rows, FIRST):
        add(store, number, row, messages)
    store.close()
    used, aside = loaded(path)
    assert {"session-1", "session-2"} <= used
    assert used | aside == {"session-1", "session-2", *(f"session-{FIRST + at}" for at in range(len(rows)))}
    assert not used & aside
    stored = query(path, "SELECT CAST(value_json AS BLOB) FROM sessions WHERE rowid > 2 ORDER BY rowid")
    assert [value for (value,) in stored] == [row for row, _ in rows]
    store = OlderStore.reopen(path)
    store.run("DELETE FROM sessions WHERE rowid > 2")
    store.close()


FIRST = 10
ROWS = 30
"""Damaged rows of one file: one load tries them all."""
MESSAGES = transcript(2, 3)
HEALTHY = [json.dumps(known).encode() for known in MESSAGES]
SETTINGS = settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
LONGEST = len(json.dumps(WHOLE))
FULL_MESSAGE = MESSAGES[1] | {"attachments": [], "source": {"name": "n"}, "text": message(7)["text"]}


@SETTINGS
@given(st.lists(st.tuples(st.sampled_from(list(places(WHOLE))), JUNK), min_size=ROWS, max_size=ROWS))
def test_any_value_in_any_key_of_a_session_row(path: Path, damages: list[tuple[tuple[Any, ...], Any]]) -> None:
    rows = [replaced(whole(number), place, junk) for number, (place, junk) in enumerate(damages, FIRST)]
    check(path, [(json.dumps(row).encode(), HEALTHY) for row in rows])


@SETTINGS
@given(st.lists(st.tuples(st.integers(0, LONGEST), st.binary(min_size=1, max_size=6)), min_size=ROWS, max_size=ROWS))
def test_any_bytes_at_any_place_of_a_session_row(path: Path, damages: list[tuple[int, bytes]]) -> None:
    rows = []
    for number, (at, junk) in enumerate(damages, FIRST):
        text = json.dumps(whole(number)).encode()
        rows.append((text[:at] + junk + text[at + len(junk) :], HEALTHY))
    check(path, rows)


@SETTINGS
@given(st.lists(st.tuples(st.sampled_from(list(places(FULL_MESSAGE))), JUNK), min_size=ROWS, max_size=ROWS))
def test_any_value_in_any_key_of_a_message(path: Path, damages: list[tuple[tuple[Any, ...], Any]]) -> None:
    rows = []
    for number, (place, junk) in enumerate(damages, FIRST):
        bad = json.dumps(replaced(FULL_MESSAGE, place, junk)).encode()
        rows.append((json.dumps(whole(number)).encode(), [HEALTHY[0], bad, HEALTHY[2]]))
    check(path, rows)


FIRST_VERSION = session("session-2", [*MESSAGES, FULL_MESSAGE | {"id": "message-5"}], session={"promptHistory": ["a"]})
OLD_PLACES = st.sampled_from(list(places(FIRST_VERSION)))


@SETTINGS
@given(st.lists(st.tuples(OLD_PLACES, JUNK), min_size=ROWS, max_size=ROWS), st.binary(min_size=1, max_size=6))
def test_an_upgrade_moves_a_session_whole_or_leaves_its_row_alone(
    home_dir: Path, damages: list[tuple[tuple[Any, ...], Any]], junk: bytes
) -> None:
    home_dir.mkdir(mode=0o700, exist_ok=True)
    path = home_dir / "old.sqlite"
    path.unlink(missing_ok=True)
    store = OlderStore(path)
    rows = {"session-1": json.dumps(session("session-1", MESSAGES)).encode()}
    for number, (place, value) in enumerate(damages, FIRST):
        row = replaced(replaced(FIRST_VERSION, ("session", "id"), f"session-{number}"), place, value)
        rows[f"session-{number}"] = json.dumps(row).encode()
    cut = rows["session-1"].replace(b"session-1", b"session-2")
    rows["session-2"] = cut[: len(cut) // 2] + junk + cut[len(cut) // 2 + len(junk) :]
    for session_id, text in rows.items():
        store.add_text(session_id, text)
    store.close()
    log = Log("state", home_dir / "log")
    assert open_store(path, durability="normal", log=log) == "1"
    log.close()
    counts = dict(query(path, "SELECT session_id, count(*) FROM messages GROUP BY session_id"))
    overviews = dict(query(path, "SELECT session_id, length(value_blob) FROM session_overviews"))
    assert counts == overviews
    assert counts["session-1"] == len(MESSAGES)
    for session_id, text in query(path, "SELECT id, CAST(value_json AS BLOB) FROM sessions"):
        if text == rows[session_id]:
            assert session_id not in counts
        else:
            moved = json.loads(text)["session"]
            assert moved["messages"] == []
            if json.loads(rows[session_id])["session"].get("messages"):
                assert moved["messageCount"] == counts[session_id]
            else:
                # A count without a message is a window that nothing was read into.
                assert session_id not in counts
    used, aside = loaded(path)
    assert "session-1" in used
    assert used | aside == set(rows)
