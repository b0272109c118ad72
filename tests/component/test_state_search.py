"""Searching the transcripts: what is stored is found at once, what is gone never, and nothing waits for the index."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from termal.log import Log
from termal.wire.errors import Busy, InvalidRequest, NotFound, TooMany
from termal.wire.transcript_operations import SEARCH, Search
from termal.wire.turns import JsonReply, TextDelta, TextDone, ToolEnded, ToolStarted
from tests.support.state_memory import Memory
from tests.support.state_worker import Json, StateWorker, text_message
from tests.support.transcripts import places, search, stop_and_check, wait_complete
from tests.support.waiting import wait_until
from workers.state import search_index
from workers.state.indexer import Indexer
from workers.state.search import Search as Find

Open = Callable[[], Memory]
LOG = Log("state", None)


def turned(memory: Memory) -> bool:
    """Let one pass run."""
    memory.one_pass()
    return True


def test_a_prompt_is_found_as_soon_as_it_is_acknowledged(state: StateWorker) -> None:
    state.start()
    session_id = state.create(name="First")
    state.runtime()
    state.send(session_id, "where is the needle of W\u00f6rth")
    found = search(state, "needle worth")
    assert found["complete"] is True
    assert "nextCursor" not in found
    [hit] = found["hits"]
    assert hit["snippet"]["text"] == "where is the needle of W\u00f6rth"
    marks = [hit["snippet"]["text"][part["start"] : part["end"]] for part in hit["snippet"]["ranges"]]
    assert marks == ["needle", "W\u00f6rth"]
    del hit["snippet"], hit["timestamp"]
    assert hit == {
        "sessionId": session_id,
        "sessionName": "First",
        "messageId": "message-1",
        "position": 0,
        "author": "you",
        "type": "text",
    }


def test_hits_come_newest_first_in_pages_and_can_be_of_one_session(state: StateWorker) -> None:
    state.start()
    sessions = [state.create() for _ in range(2)]
    state.runtime()
    for number in range(6):
        state.send(sessions[number % 2], f"needle number {number}")
    # A session that has a turn queues what follows: those prompts are not in a transcript yet.
    assert places(search(state, "needle")) == [(sessions[1], 0), (sessions[0], 0)]
    assert places(search(state, "needle", session_id=sessions[0])) == [(sessions[0], 0)]
    first = search(state, "needle", limit=1)
    assert places(first) == [(sessions[1], 0)]
    second = search(state, "needle", limit=1, cursor=first["nextCursor"])
    assert (places(second), "nextCursor" in second) == ([(sessions[0], 0)], False)


def test_words_phrases_and_prefixes_are_found_and_nothing_else_is_meant(state: StateWorker) -> None:
    state.start()
    session_id = state.create()
    state.runtime()
    state.send(session_id, "alpha beta OR gamma near(delta) a-b body:x")
    for query in ("beta alpha", '"alpha beta"', "gam*", "or", "NEAR delta", "a-b", "body:x", '"beta or gam"*'):
        assert places(search(state, query)) == [(session_id, 0)], query
    for query in ('"beta alpha"', "alpha epsilon", "gam", "alpha OR epsilon", "body:gamma", "-alpha ^zeta"):
        assert places(search(state, query)) == [], query


def test_what_an_agent_says_and_runs_is_found_and_a_changed_text_only_as_it_is_now(state: StateWorker) -> None:
    state.start()
    session_id = state.create()
    runtime = state.runtime()
    state.send(session_id, "go")
    turn = runtime.turn(0)
    runtime.report(turn, TextDelta("a", "first draft"), ToolStarted("b", "execute", "make lint"))
    assert places(search(state, "draft")) == [(session_id, 1)]
    runtime.report(turn, TextDone("a", "second version"), ToolEnded("b", "success", "no fault in forty files"))
    assert places(search(state, "draft")) == []
    assert places(search(state, "version")) == [(session_id, 1)]
    assert places(search(state, "lint forty")) == [(session_id, 2)]
    runtime.end(turn)
    stop_and_check(state)


def test_a_killed_session_is_not_found_and_leaves_nothing_in_the_index(state: StateWorker) -> None:
    state.start()
    kept, doomed = state.create(), state.create()
    state.runtime()
    for session_id in (kept, doomed):
        state.send(session_id, "needle")
    assert len(search(state, "needle")["hits"]) == 2
    state.kill_session(doomed)
    assert places(search(state, "needle")) == [(kept, 0)]
    with pytest.raises(NotFound):
        search(state, "needle", session_id=doomed)
    stop_and_check(state)


def test_a_transcript_that_was_replaced_is_found_as_it_is_now(state: StateWorker) -> None:
    state.start()
    session_id = state.create()
    state.stop()
    state.add_messages(session_id, 5)
    state.start()
    wait_complete(state)
    state.stop()
    state.write("DELETE FROM messages WHERE position >= 3")
    state.write(
        "UPDATE messages SET value_json = ? WHERE position = 2", (json.dumps(text_message("message-002", "fresh")),)
    )
    state.write("UPDATE session_overviews SET value_blob = x'000000'")
    state.change_row(session_id, session={"messageCount": 3})
    state.start()
    wait_complete(state)
    assert places(search(state, "text")) == [(session_id, 1), (session_id, 0)]
    assert places(search(state, "fresh")) == [(session_id, 2)]
    stop_and_check(state)


def old_store(state: StateWorker, count: int) -> str:
    """A store that was written before there was an index."""
    state.start()
    session_id = state.create()
    state.stop()
    for name in ("message_added", "message_changed", "document_removed"):
        state.write(f"DROP TRIGGER search_{name}")
    for name in ("index", "documents", "marked", "forgotten", "progress"):
        state.write(f"DROP TABLE search_{name}")
    state.add_messages(session_id, count)
    return session_id


def test_an_old_store_is_indexed_behind_the_start_and_says_so_meanwhile(state: StateWorker) -> None:
    session_id = old_store(state, 5000)
    state.start()
    state.runtime()
    first = search(state, "text")
    assert first["complete"] is False
    state.send(session_id, "a fresh needle")
    assert places(search(state, "needle")) == [(session_id, 5000)]
    wait_complete(state)
    assert len(search(state, "text", limit=64)["hits"]) == 64
    assert places(search(state, "4999")) == [(session_id, 4999)]
    stop_and_check(state)


def test_a_killed_worker_goes_on_indexing_where_it_was(state: StateWorker, tmp_path: Path) -> None:
    session_id = old_store(state, 2000)
    for _ in range(3):
        (tmp_path / "state.index_slice").write_text("kill 4")
        state.start(faults=tmp_path)
        wait_until(lambda: state.process.process.poll() is not None, "the worker to be killed in a slice")
        state.kill()
    (tmp_path / "state.index_slice").unlink(missing_ok=True)
    ((_, position),) = state.rows("SELECT session_id, position FROM search_progress")
    assert position > 0
    state.start()
    wait_complete(state)
    assert places(search(state, "1999")) == [(session_id, 1999)]
    stop_and_check(state)


@pytest.mark.parametrize("block", [b"\0", b"\xff" * 50], ids=["empty", "garbage"])
def test_a_damaged_index_is_made_anew_and_loses_no_message(state: StateWorker, block: bytes) -> None:
    state.start()
    session_id = state.create()
    state.stop()
    state.add_messages(session_id, 200)
    state.start()
    wait_complete(state)
    state.stop()
    state.write("UPDATE search_index_data SET block = ?", (block,))
    state.start()
    state.runtime()
    state.send(session_id, "a fresh needle")

    def found() -> bool:
        try:
            return bool(search(state, "needle")["complete"])
        except Busy:
            return False

    wait_until(found, "the index to be made anew")
    assert places(search(state, "needle")) == [(session_id, 200)]
    assert len(search(state, "text", limit=64)["hits"]) == 64
    stop_and_check(state)


def test_messages_of_a_quarantined_session_are_not_found(state: StateWorker) -> None:
    state.start()
    good, bad = state.create(), state.create()
    state.runtime()
    for session_id in (good, bad):
        state.send(session_id, "needle")
    assert len(search(state, "needle")["hits"]) == 2
    state.stop()
    state.write("UPDATE sessions SET value_json = '{ not json' WHERE id = ?", (bad,))
    state.start()
    assert places(search(state, "needle")) == [(good, 0)]
    with pytest.raises(NotFound):
        search(state, "needle", session_id=bad)


@pytest.mark.parametrize(
    "asked",
    [
        {"query": '"open'},
        {"query": "***"},
        {"query": "x", "limit": 0},
        {"query": "x", "limit": 65},
        {"query": "x", "cursor": "y"},
        {"query": "x", "cursor": "9" * 30},
    ],
    ids=str,
)
def test_impossible_searches_are_refused(state: StateWorker, asked: dict[str, object]) -> None:
    state.start()
    with pytest.raises(InvalidRequest):
        state.ask(SEARCH, Search(**asked))  # type: ignore[arg-type]


# ------------------------------------------------------------------------- in the test's own thread


@pytest.fixture
def open_memory(home_dir: Path) -> Iterator[Open]:
    opened: list[Memory] = []

    def make() -> Memory:
        opened.append(Memory(home_dir / "termal.sqlite"))
        return opened[-1]

    yield make
    opened[-1].close()


def test_a_commit_touches_the_same_number_of_rows_however_long_the_history_is(
    open_memory: Open, home_dir: Path
) -> None:
    memory = open_memory()
    record = memory.create()
    memory.commit()
    touched: list[int] = []

    def count(connection: apsw.Connection) -> int:
        return connection.total_changes()

    def total() -> int:
        seen: list[int] = []
        memory.writer.submit(count, lambda value, _: seen.append(value or 0))
        wait_until(lambda: turned(memory) and seen, "the writer's count")
        return seen[0]

    for size in (1, 300, 1500):
        memory.say(record, size)
        memory.commit()
        before = total()
        memory.say(record, 1)
        memory.commit()
        touched.append(total() - before)
    assert touched[0] == touched[1] == touched[2] <= 6


def test_a_stream_is_indexed_once_for_many_flushes(open_memory: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    slices: list[str] = []

    def counted(connection: apsw.Connection) -> search_index.Left:
        left = search_index.advance(connection)
        slices.append(left)
        return left

    memory = open_memory()
    monkeypatch.setattr("workers.state.indexer.search_index.advance", counted)
    Indexer(memory.loop, memory.writer, memory.journal, LOG)
    record = memory.create()
    position = memory.open_text(record)
    memory.commit()
    for _ in range(40):
        memory.book.extend_text(record, position, "more ")
        memory.commit()
    assert len(slices) < 40


class Asked:
    """A request of the bus that keeps its answer."""

    deadline_s = None

    def __init__(self) -> None:
        self.replies: list[Json] = []

    def reply(self, reply: JsonReply) -> None:
        self.replies.append(json.loads(reply.json))


def test_four_searches_may_be_under_way(open_memory: Open) -> None:
    memory = open_memory()
    memory.say(memory.create(), 3)
    memory.commit()
    searches = Find(memory.book, memory.reader, Indexer(memory.loop, memory.writer, memory.journal, LOG), LOG)
    asked = [Asked() for _ in range(4)]
    for request in asked:
        searches.search(request, Search(query="text"))  # type: ignore[arg-type]
    with pytest.raises(TooMany):
        searches.search(Asked(), Search(query="text"))  # type: ignore[arg-type]
    wait_until(lambda: turned(memory) and all(request.replies for request in asked), "every search to be answered")
    one_more = Asked()
    searches.search(one_more, Search(query="text"))  # type: ignore[arg-type]
    wait_until(lambda: turned(memory) and one_more.replies, "one more to be answered")
