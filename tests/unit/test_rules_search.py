"""What may be typed to search, and what is shown of a hit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termal.model.message import Command, ParallelAgent, ParallelAgents, Text, Thinking
from termal.model.search import Snippet
from termal.rules.search_query import QUERY_CHARACTERS, TERMS, expression, terms_of
from termal.rules.search_text import OUTPUT_CHARACTERS, TEXT_CHARACTERS, search_text
from termal.rules.snippet import SNIPPET_CHARACTERS, snippet_of
from termal.rules.verdicts import Bad


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("one", 'body : ("one")'),
        ("one two", 'body : ("one" AND "two")'),
        ('"one two" three', 'body : ("one two" AND "three")'),
        ("wor*", 'body : ("wor" *)'),
        ('"one two"*', 'body : ("one two" *)'),
        ("a OR b", 'body : ("a" AND "OR" AND "b")'),
        ("body:x NEAR(y)", 'body : ("body:x" AND "NEAR(y)")'),
        ("foo && bar", 'body : ("foo" AND "bar")'),
        ("one\0two", 'body : ("one" AND "two")'),
    ],
    ids=str,
)
def test_a_query_becomes_quoted_terms(query: str, expected: str) -> None:
    assert expression(terms_of(query), None) == expected


def test_a_session_is_one_more_term() -> None:
    assert expression(terms_of("one"), "x73") == 'session : "x73" AND body : ("one")'


@pytest.mark.parametrize(
    "query",
    ["", "  ", "***", '""', '"one', "ab*", "&& ||", "\0", "x" * (QUERY_CHARACTERS + 1), "w " * (TERMS + 1)],
    ids=["empty", "blank", "stars", "no phrase", "open phrase", "short prefix", "signs", "nul", "long", "many"],
)
def test_a_query_without_a_word_or_out_of_bounds_is_refused(query: str) -> None:
    with pytest.raises(Bad):
        terms_of(query)


@given(st.text(max_size=200))
def test_no_query_leaves_its_quotation_marks(query: str) -> None:
    try:
        terms = terms_of(query)
    except Bad:
        return
    assert all('"' not in term.text and "\0" not in term.text for term in terms)


def marked(snippet: Snippet) -> list[str]:
    return [snippet.text[part.start : part.end] for part in snippet.ranges]


@pytest.mark.parametrize(
    ("text", "query", "expected"),
    [
        ("the needle here", "needle", ["needle"]),
        ("The Needle and the NEEDLE", "needle", ["Needle", "NEEDLE"]),
        ("needles and needle", "needle", ["needle"]),
        ("needles and needle", "need*", ["needles", "needle"]),
        ("caf\u00e9 and cafe\u0301", "cafe", ["caf\u00e9", "cafe\u0301"]),
        ("\U00020bb7\u91ce\u5bb6 \U0001f600 x", "\U00020bb7\u91ce\u5bb6", ["\U00020bb7\u91ce\u5bb6"]),
        ("a\0needle\0b", "needle", ["needle"]),
        ("\u202eneedle\u202c", "needle", ["needle"]),
        ("nothing of it", "needle", []),
        ("<b>needle</b>", "needle", ["needle"]),
    ],
)
def test_a_snippet_marks_the_words_that_were_looked_for(text: str, query: str, expected: list[str]) -> None:
    assert marked(snippet_of(text, terms_of(query))) == expected


def test_a_snippet_is_a_window_around_the_first_hit() -> None:
    snippet = snippet_of("alpha " * 1000 + "needle" + " omega" * 1000, terms_of("needle"))
    assert marked(snippet) == ["needle"]
    assert len(snippet.text) <= SNIPPET_CHARACTERS + 2
    assert snippet.text.startswith("…alpha")
    assert snippet.text.endswith("…")


def test_white_space_of_a_snippet_is_collapsed() -> None:
    assert snippet_of("one\n\n\ttwo  three", terms_of("two")).text == "one two three"


@given(st.text(max_size=400), st.sampled_from(["a", "abc*", "\u00e9", "0"]))
def test_ranges_lie_inside_their_text(text: str, query: str) -> None:
    snippet = snippet_of(text, terms_of(query))
    assert all(0 <= part.start < part.end <= len(snippet.text) for part in snippet.ranges)


COMMON = {"id": "message-1", "timestamp": "", "author": "assistant"}


def test_what_can_be_searched_is_bounded() -> None:
    long = "x" * (2 * TEXT_CHARACTERS)
    assert len(search_text(Text(text=long, **COMMON))) == TEXT_CHARACTERS  # type: ignore[arg-type]
    command = Command(command="ls", output=long, status="success", **COMMON)  # type: ignore[arg-type]
    assert len(search_text(command)) == OUTPUT_CHARACTERS + len("ls\n")


def test_every_part_of_a_message_is_searched() -> None:
    thinking = Thinking(title="Plan", lines=["first", "second"], **COMMON)  # type: ignore[arg-type]
    assert search_text(thinking) == "Plan\nfirst\nsecond"
    row = ParallelAgent(id="x", source="tool", status="running", title="Review", detail="of the door")
    assert search_text(ParallelAgents(agents=[row], **COMMON)) == "Review\nof the door"  # type: ignore[arg-type]
