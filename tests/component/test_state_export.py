"""Export and import of one session: the same text in the same order under new ids, all of it or nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from termal.wire.errors import Conflict, InvalidRequest, NotFound, TermalError, TooMany, Unprocessable
from termal.wire.transcript_operations import (
    EXPORT_READ,
    IMPORT_ABORT,
    IMPORT_FINISH,
    IMPORT_MESSAGES,
    AbortImport,
    FinishImport,
    ImportMessages,
    ReadExport,
)
from termal.wire.turns import FileChanged, TextDone, ToolEnded, ToolStarted
from tests.support.state_worker import StateWorker, text_message, texts
from tests.support.transcripts import begin, bring_in, export, places, search, stop_and_check
from tests.support.waiting import wait_until

HARD = [
    "\U0001f600 \U00020bb7\u91ce\u5bb6 \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "nul \0 and \x1b[31m controls \x7f",
    "right to left \u202e\u0645\u0631\u062d\u0628\u0627\u202c marks \u200f\u200e",
    "lines\r\n\twith\u2028separators\u2029 and \ufeff",
    "e\u0301 is not \u00e9 and is kept so",
    "needle" + " \U0001f600" * (1 << 18) + " end-of-line",
]


def line(number: int, text: str, author: str = "assistant") -> bytes:
    return json.dumps(text_message(f"old-{number}", text, author), ensure_ascii=False).encode()


def header(**session: Any) -> bytes:
    fields = {"name": "Brought", "agent": "Demo", "workdir": "/", "model": "auto", **session}
    return json.dumps({"format": "termal-session", "version": 1, "session": fields}).encode()


def wait_gone(state: StateWorker, session_id: str) -> None:
    rows = "SELECT 1 FROM sessions WHERE id = ? UNION ALL SELECT 1 FROM messages WHERE session_id = ?"
    wait_until(lambda: state.rows(rows, (session_id, session_id)) == [], "the rows of the import to be gone")


def test_hard_texts_are_the_same_after_prompt_search_export_and_import(state: StateWorker) -> None:
    state.start()
    session_id = state.create()
    runtime = state.runtime()
    for number, text in enumerate(HARD):
        state.send(session_id, text)
        runtime.end(runtime.turn(number))
    wanted = [text.strip() for text in HARD]
    assert texts(state.read(session_id)) == wanted
    assert places(search(state, '"end of line"')) == [(session_id, 5)]
    assert places(search(state, "\U00020bb7\u91ce\u5bb6")) == [(session_id, 0)]
    lines = export(state, session_id)
    assert [json.loads(one)["text"] for one in lines[1:]] == wanted
    created = bring_in(state, lines)
    assert texts(state.read(created["id"])) == wanted
    assert places(search(state, '"end of line"', session_id=created["id"])) == [(created["id"], 5)]
    again = export(state, created["id"])
    assert [json.loads(one)["text"] for one in again[1:]] == wanted
    assert [json.loads(one)["id"] for one in again[1:]] == [f"message-{number}" for number in range(7, 13)]


def test_an_imported_session_is_one_like_all_others(state: StateWorker) -> None:
    state.start()
    session_id = state.create(name="Origin")
    runtime = state.runtime()
    state.send(session_id, "go")
    turn = runtime.turn(0)
    runtime.report(
        turn,
        TextDone("a", "said"),
        ToolStarted("b", "execute", "ls"),
        ToolEnded("b", "error", "nothing"),
        FileChanged("c", "/x", "x", "+1", "edit"),
        ToolStarted("d", "execute", "sleep"),
    )
    lines = export(state, session_id)
    head = json.loads(lines[0])
    assert (head["format"], head["version"]) == ("termal-session", 1)
    assert set(head["session"]) == {"name", "emoji", "agent", "workdir", "model"}
    created = bring_in(state, lines)
    assert created["id"] != session_id
    assert (created["name"], created["status"], created["messageCount"]) == ("Origin", "idle", 5)
    assert (created["promptHistory"], created["messagesLoaded"]) == (["go"], True)
    kinds = [message["type"] for message in created["messages"]]
    assert kinds == ["text", "text", "command", "diff", "command"]
    assert created["messages"][4]["status"] == "error", "nobody works on it here"
    assert len({message["id"] for message in created["messages"]}) == 5
    ((blob,),) = state.rows("SELECT value_blob FROM session_overviews WHERE session_id = ?", (created["id"],))
    assert blob == bytes([4, 0, 3, 2, 3])
    assert [event["type"] for event in state.deltas(created["id"])] == ["sessionCreated"]
    runtime.end(turn)
    before = state.read(created["id"])
    state.reload()
    after = state.read(created["id"])
    del before["sessionMutationStamp"], after["sessionMutationStamp"]
    assert after == before
    stop_and_check(state)


def test_a_long_transcript_is_read_in_pages_whatever_is_in_memory(state: StateWorker) -> None:
    state.start()
    session_id = state.create()
    state.stop()
    state.add_messages(session_id, 1000)
    state.start()
    lines = export(state, session_id)
    assert [json.loads(one)["text"] for one in lines[1:]] == [f"text {number}" for number in range(1000)]
    created = bring_in(state, lines, slice_rows=50)
    assert (created["messageCount"], len(created["messages"])) == (1000, 64)
    assert [json.loads(one)["text"] for one in export(state, created["id"])[1:]] == [f"text {n}" for n in range(1000)]
    assert texts(state.history(created["id"], from_start=True, limit=1)) == ["text 0"]


def test_messages_that_come_during_an_export_are_left_out_of_it(state: StateWorker) -> None:
    state.start()
    session_id = state.create()
    state.stop()
    state.add_messages(session_id, 600)
    state.start()
    state.runtime()
    first = state.ask(EXPORT_READ, ReadExport(session_id=session_id))
    state.send(session_id, "later")
    position, last = first.next, first.last
    while position < first.count:
        page = state.ask(
            EXPORT_READ, ReadExport(session_id=session_id, position=position, count=first.count, after=last)
        )
        position, last = page.next, page.last
    assert (position, last) == (600, "message-599")


def test_a_transcript_that_was_replaced_during_an_export_ends_it(state: StateWorker) -> None:
    state.start()
    session_id = state.create()
    state.stop()
    state.add_messages(session_id, 300)
    state.start()
    with pytest.raises(Conflict, match="replaced"):
        state.ask(EXPORT_READ, ReadExport(session_id=session_id, position=10, count=300, after="message-x"))
    with pytest.raises(Conflict, match="replaced"):
        state.ask(EXPORT_READ, ReadExport(session_id=session_id, position=10, count=301, after="message-009"))
    with pytest.raises(NotFound):
        state.ask(EXPORT_READ, ReadExport(session_id="session-9"))


def test_a_hole_in_a_transcript_is_named_and_not_exported_over(state: StateWorker) -> None:
    state.start()
    session_id = state.create()
    state.stop()
    state.add_messages(session_id, 300)
    state.write("DELETE FROM messages WHERE position = 3")
    state.start()
    with pytest.raises(Conflict, match="position 3"):
        state.ask(EXPORT_READ, ReadExport(session_id=session_id))


def test_nothing_of_an_import_is_visible_before_its_end(state: StateWorker) -> None:
    state.start()
    begun = begin(state, header())
    state.ask(IMPORT_MESSAGES, ImportMessages(begun.import_id, 0, [line(0, "needle")]))
    assert state.state()["sessions"] == []
    assert search(state, "needle")["hits"] == []
    with pytest.raises(NotFound):
        state.read("session-1")
    created = state.json(IMPORT_FINISH, FinishImport(begun.import_id, "key", 1))
    assert created["sessionId"] == "session-1"
    assert places(search(state, "needle")) == [("session-1", 0)]


def test_slices_and_the_end_of_an_import_can_be_repeated(state: StateWorker) -> None:
    state.start()
    begun = begin(state, header())
    messages = ImportMessages(begun.import_id, 0, [line(0, "one"), line(1, "two")])
    state.ask(IMPORT_MESSAGES, messages)
    state.ask(IMPORT_MESSAGES, messages)
    with pytest.raises(Conflict):
        state.ask(IMPORT_MESSAGES, ImportMessages(begun.import_id, 5, [line(0, "one")]))
    first = state.json(IMPORT_FINISH, FinishImport(begun.import_id, "key", 2))
    assert state.json(IMPORT_FINISH, FinishImport(begun.import_id, "key", 2)) == first
    state.reload()
    again = begin(state, header())
    assert json.loads(again.created or b"")["sessionId"] == first["sessionId"]
    assert len(state.state()["sessions"]) == 1


BAD_LINES = [
    b"{",
    b"[]",
    b'{"type":"text","id":"a"}',
    b'{"type":"nothing","id":"a","timestamp":"","author":"you","text":"x"}',
    rb'{"type":"text","id":"a","timestamp":"","author":"you","text":"\ud800"}',
    rb'{"type":"text","id":"a","timestamp":"","author":"you","text":"\ude00\ud83d"}',
    b'{"type":"text","id":"a","timestamp":"","author":"you","text":"\xed\xa0\x80"}',
    b'{"type":"text","id":"a","timestamp":"","author":"you","text":"\xff"}',
]


@pytest.mark.parametrize("bad", BAD_LINES, ids=range(len(BAD_LINES)))
def test_a_line_that_is_no_message_ends_the_import_and_leaves_nothing(state: StateWorker, bad: bytes) -> None:
    state.start()
    begun = begin(state, header())
    state.ask(IMPORT_MESSAGES, ImportMessages(begun.import_id, 0, [line(0, "good")]))
    with pytest.raises(Unprocessable, match="line 3"):
        state.ask(IMPORT_MESSAGES, ImportMessages(begun.import_id, 1, [bad]))
    with pytest.raises(Conflict):
        state.ask(IMPORT_FINISH, FinishImport(begun.import_id, "key", 1))
    wait_gone(state, "session-1")
    state.create()
    stop_and_check(state)


@pytest.mark.parametrize(
    "session",
    [
        {"name": "  "},
        {"name": 7},
        {"model": ""},
        {"agent": "Claude"},
        {"sandboxMode": "read-only"},
        {"approvalPolicy": "sometimes"},
    ],
    ids=str,
)
def test_a_header_that_makes_no_session_is_refused(state: StateWorker, session: dict[str, Any]) -> None:
    state.start()
    with pytest.raises(TermalError) as refused:
        begin(state, header(**session))
    assert isinstance(refused.value, InvalidRequest | Unprocessable)
    assert state.create() == "session-1"


def test_two_imports_may_be_under_way_and_one_of_a_key(state: StateWorker) -> None:
    state.start()
    first = begin(state, header(), "a")
    with pytest.raises(Conflict):
        begin(state, header(), "a")
    begin(state, header(), "b")
    with pytest.raises(TooMany):
        begin(state, header(), "c")
    state.ask(IMPORT_ABORT, AbortImport(first.import_id))
    begin(state, header(), "c")


def test_an_aborted_import_leaves_nothing(state: StateWorker) -> None:
    state.start()
    begun = begin(state, header())
    for first in range(0, 600, 100):
        lines = [line(number, f"needle {number}") for number in range(first, first + 100)]
        state.ask(IMPORT_MESSAGES, ImportMessages(begun.import_id, first, lines))
    state.ask(IMPORT_ABORT, AbortImport(begun.import_id))
    wait_gone(state, "session-1")
    assert state.rows("SELECT * FROM session_overviews") == []
    assert search(state, "needle")["hits"] == []
    stop_and_check(state)


def test_an_import_that_a_kill_cut_off_is_removed_at_the_next_start(state: StateWorker, tmp_path: Path) -> None:
    state.start(faults=tmp_path)
    (tmp_path / "state.import_slice").write_text("kill 6")
    begun = begin(state, header())
    for number in range(5):
        state.ask(IMPORT_MESSAGES, ImportMessages(begun.import_id, number, [line(number, "needle")]))
    outcome = state.begin(IMPORT_MESSAGES, ImportMessages(begun.import_id, 5, [line(5, "needle")]))
    wait_until(lambda: state.process.process.poll() is not None, "the worker to be killed in a slice")
    state.kill()
    assert len(state.rows("SELECT * FROM messages")) == 5
    (tmp_path / "state.import_slice").unlink(missing_ok=True)
    state.start()
    assert outcome.error().reason == "importGone"
    wait_gone(state, "session-1")
    assert state.state()["sessions"] == []
    assert search(state, "needle")["hits"] == []
    assert state.create() == "session-2", "the number of a session is never used again"
    stop_and_check(state)
