"""Where each piece of a streamed text begins: counted in bytes, so that a client knows when it has missed one."""

import pytest

from termal.wire.turns import TextDelta
from tests.support.state_worker import StateWorker, texts


@pytest.mark.case("H31")
def test_each_of_five_pieces_says_at_which_byte_it_begins(state: StateWorker) -> None:
    state.start()
    runtime = state.runtime()
    session_id = state.create()
    state.send(session_id, "go")
    pieces = ["Grü", "ße", " 🌍", "!", " €"]
    for piece in pieces:
        runtime.report(runtime.turn(0), TextDelta("a", piece))
    events = [event for event in state.wait_deltas(session_id, 9) if event["type"] == "textDelta"]
    assert [event["delta"] for event in events] == pieces
    assert [event["textStartByte"] for event in events] == [0, 4, 7, 12, 13]
    assert texts(state.read(session_id))[1] == "".join(pieces)
