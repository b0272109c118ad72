"""The ledger of a turn against any order of production, reports, confirmations and repeats."""

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from termal.wire.turns import (
    AnyTurnEvent,
    ApprovalAsked,
    Notice,
    PermissionOption,
    TextDelta,
    TextDone,
    ThinkingDelta,
    ToolOutput,
    TurnEnded,
)
from workers.runtime.bounds import FIELD_CHARACTERS, PIECE_CHARACTERS, bounded
from workers.runtime.ledger import (
    COALESCED_BYTES,
    REPORT_BYTES,
    REPORT_EVENTS,
    WINDOW_BYTES,
    WINDOW_EVENTS,
    Ledger,
    Part,
)

deltas = st.builds(TextDelta, item=st.sampled_from(["a", "b"]), text=st.text(max_size=5))
thoughts = st.builds(ThinkingDelta, item=st.just("t"), text=st.text(max_size=5), title=st.sampled_from(["", "x"]))
events: st.SearchStrategy[AnyTurnEvent] = st.one_of(deltas, thoughts, st.builds(Notice, text=st.text(max_size=5)))


def carried(part: Part | None) -> tuple[int, list[AnyTurnEvent]] | None:
    return None if part is None else (part.first, part.events)


def _joined(told: list[AnyTurnEvent]) -> list[AnyTurnEvent]:
    """The same story with neighbouring pieces of one text made one."""
    out: list[AnyTurnEvent] = []
    for event in told:
        last = out[-1] if out else None
        if (
            isinstance(event, TextDelta | ThinkingDelta)
            and isinstance(last, TextDelta | ThinkingDelta)
            and type(last) is type(event)
            and last.item == event.item
            and getattr(last, "title", "") == getattr(event, "title", "")
        ):
            out[-1] = msgspec.structs.replace(last, text=last.text + event.text)
        else:
            out.append(event)
    return out


class LedgerStory(RuleBasedStateMachine):
    """A producer, a reporter with repeats, and a state that takes each number once."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.produced: list[AnyTurnEvent] = []
        self.seen: dict[int, AnyTurnEvent] = {}
        self.taken: list[AnyTurnEvent] = []

    @rule(event=events)
    def produce(self, event: AnyTurnEvent) -> None:
        accepted = self.ledger.add(event)
        assert accepted is not any(isinstance(known, TurnEnded) for known in self.produced)
        if accepted:
            self.produced.append(event)

    @rule()
    def end(self) -> None:
        if self.ledger.end("completed"):
            self.produced.append(TurnEnded("completed"))

    @rule()
    def report(self) -> None:
        part = self.ledger.part()
        if part is None:
            return
        self.ledger.sent(part)
        for number, event in enumerate(part.events, part.first):
            assert self.seen.setdefault(number, event) == event, "a number that was sent means something else now"
            if number == len(self.taken) + 1:
                self.taken.append(event)
        assert part.last <= len(self.taken), "a gap"

    @rule(share=st.floats(0, 1))
    def confirm(self, share: float) -> None:
        self.ledger.confirm(int(len(self.taken) * share))

    @rule()
    def lose_what_was_on_its_way(self) -> None:
        self.ledger.rewind()

    @invariant()
    def nothing_is_said_twice_or_otherwise(self) -> None:
        story, told = _joined(self.produced), _joined(self.taken)
        if told:
            assert told[:-1] == story[: len(told) - 1]
        assert sum(isinstance(event, TurnEnded) for event in self.taken) <= 1

    @precondition(lambda self: self.ledger.ended)
    @rule()
    def settle(self) -> None:
        self.ledger.rewind()
        while (part := self.ledger.part()) is not None:
            self.ledger.sent(part)
            self.taken += part.events[max(0, len(self.taken) + 1 - part.first) :]
            self.ledger.confirm(part.last)
        assert self.ledger.finished
        assert self.ledger.unconfirmed_bytes == 0
        assert _joined(self.taken) == _joined(self.produced)


TestLedgerStory = LedgerStory.TestCase


def _sent(ledger: Ledger) -> Part:
    part = ledger.part()
    assert part is not None
    ledger.sent(part)
    return part


def test_pieces_that_wait_together_become_one_event() -> None:
    ledger = Ledger()
    for piece in "abc":
        ledger.add(TextDelta("a", piece))
    assert carried(ledger.part()) == (1, [TextDelta("a", "abc")])


def test_a_piece_that_was_sent_is_never_changed() -> None:
    ledger = Ledger()
    ledger.add(TextDelta("a", "1"))
    _sent(ledger)
    ledger.rewind()
    ledger.add(TextDelta("a", "2"))
    assert carried(ledger.part()) == (1, [TextDelta("a", "1"), TextDelta("a", "2")])


def test_a_turn_ends_once_and_nothing_comes_after() -> None:
    ledger = Ledger()
    assert ledger.end("failed", "first")
    assert not ledger.end("completed")
    assert not ledger.add(Notice("late"))
    assert _sent(ledger).events == [TurnEnded("failed", "first")]
    assert not ledger.finished
    ledger.confirm(1)
    assert ledger.finished


def test_a_confirmation_of_what_was_never_sent_is_ignored() -> None:
    ledger = Ledger()
    ledger.add(Notice("a"))
    assert not ledger.confirm(5)
    assert ledger.last == 1
    assert carried(ledger.part()) == (1, [Notice("a")])


@pytest.mark.parametrize(
    ("event", "count"),
    [(TextDelta("a", "x" * COALESCED_BYTES), WINDOW_BYTES // COALESCED_BYTES + 1), (Notice(""), WINDOW_EVENTS + 1)],
    ids=["bytes", "events"],
)
def test_the_window_is_full_and_roomy_again_at_half(event: AnyTurnEvent, count: int) -> None:
    ledger = Ledger()
    for _ in range(count):
        ledger.add(event)
    assert (ledger.full, ledger.roomy) == (True, False)
    while (ledger.full, ledger.roomy) != (False, True):
        ledger.confirm(_sent(ledger).last)
    assert 0 < ledger.unconfirmed_bytes <= WINDOW_BYTES // 2


def test_a_report_is_bounded_and_takes_one_event_at_least() -> None:
    ledger = Ledger()
    ledger.add(TextDone("a", "x" * (2 * REPORT_BYTES)))
    for number in range(REPORT_EVENTS + 1):
        ledger.add(Notice(str(number)))
    assert len(_sent(ledger).events) == 1
    assert len(_sent(ledger).events) == REPORT_EVENTS
    assert len(_sent(ledger).events) == 1
    assert ledger.part() is None


# ----------------------------------------------------------------------------- bounds


@given(st.text(min_size=1, max_size=40))
def test_a_bounded_event_can_be_sent_and_says_the_same(text: str) -> None:
    (event,) = bounded(Notice(text))
    assert event == Notice(text)
    msgspec.msgpack.encode(event)


def test_a_long_piece_of_text_becomes_several() -> None:
    text = "".join(str(number) for number in range(PIECE_CHARACTERS))
    pieces = [event for event in bounded(TextDelta("a", text)) if isinstance(event, TextDelta)]
    assert len(pieces) > 1
    assert "".join(piece.text for piece in pieces) == text


@pytest.mark.parametrize(
    "event",
    [
        Notice("a" + "x" * (2 * FIELD_CHARACTERS) + "z"),
        ToolOutput("t", "a" + "x" * (2 * FIELD_CHARACTERS) + "z", append=False),
    ],
    ids=["notice", "whole output"],
)
def test_a_long_text_of_another_kind_loses_its_middle(event: Notice | ToolOutput) -> None:
    (short,) = bounded(event)
    text = short.text if isinstance(short, Notice) else short.output if isinstance(short, ToolOutput) else ""
    assert len(text) < FIELD_CHARACTERS + 100
    assert (text[0], text[-1]) == ("a", "z")
    assert "characters left out" in text


def test_half_of_a_surrogate_pair_is_replaced() -> None:
    asked = ApprovalAsked("r", "t\ud83d", "c", "d", [PermissionOption("o", "accepted", "ok")])
    (event,) = bounded(asked)
    assert isinstance(event, ApprovalAsked)
    assert event.title == "t?"
    msgspec.msgpack.encode(event)
