"""The few words around the first hit in a text: plain text and the places of what was looked for, never markup."""

import re
from collections.abc import Sequence

from termal.model.search import Range, Snippet
from termal.rules.search_query import WORD, Term

SNIPPET_CHARACTERS = 160
BEFORE_CHARACTERS = 40
FOLDED_CHARACTERS = 64 << 10
"""Looked through for other spellings of a word (case, accents) when it is nowhere as it was typed."""
_RANGES = 16
_ACCENT = re.compile("[\u0300-\u036f]")


def snippet_of(text: str, terms: Sequence[Term]) -> Snippet:
    """A window of ``text`` that begins shortly before the first hit, or at its start when none is found fast."""
    at = _first(text, terms)
    start = _word_start(text, max(0, at - BEFORE_CHARACTERS), at)
    # White space is dropped below: some more is taken so that the window is full.
    raw = text[start : start + 2 * SNIPPET_CHARACTERS]
    window = " ".join(raw.split())
    cut = len(window) > SNIPPET_CHARACTERS or start + len(raw) < len(text)
    window = ("…" if start else "") + window[:SNIPPET_CHARACTERS] + ("…" if cut else "")
    return Snippet(text=window, ranges=_marks(window, terms))


def _first(text: str, terms: Sequence[Term]) -> int:
    """PERF: plain `find` looks through a megabyte in a fraction of a millisecond, words one by one take 100."""
    spellings = {form for term in terms for word in term.words[:1] for form in (word, word.lower(), word.capitalize())}
    found = [at for form in spellings if (at := _whole(text, form)) >= 0]
    if found:
        return min(found)
    wanted = _wanted(terms)
    for word in WORD.finditer(text, 0, FOLDED_CHARACTERS):
        if _is_wanted(word[0], wanted):
            return word.start()
    return 0


def _whole(text: str, word: str) -> int:
    """Where ``word`` begins a word of ``text``, -1 for nowhere among its first places."""
    at = text.find(word)
    for _ in range(_RANGES):
        if at <= 0 or not text[at - 1].isalnum():
            return at
        at = text.find(word, at + 1)
    return -1


def _word_start(text: str, start: int, at: int) -> int:
    """Not in the middle of a word, if there is a gap between ``start`` and ``at``."""
    if start == 0:
        return 0
    for place in range(start, at):
        if text[place].isspace():
            return place + 1
    return start


def _marks(window: str, terms: Sequence[Term]) -> list[Range]:
    wanted = _wanted(terms)
    found = [word.span() for word in WORD.finditer(window) if _is_wanted(word[0], wanted)]
    return [Range(start=start, end=end) for start, end in found[:_RANGES]]


def _wanted(terms: Sequence[Term]) -> tuple[set[str], tuple[str, ...]]:
    """Whole words, and beginnings."""
    whole, beginnings = set(), []
    for term in terms:
        words = [_folded(word) for word in term.words]
        if term.prefix:
            beginnings.append(words.pop())
        whole.update(words)
    return whole, tuple(beginnings)


def _is_wanted(word: str, wanted: tuple[set[str], tuple[str, ...]]) -> bool:
    folded = _folded(word)
    return folded in wanted[0] or folded.startswith(wanted[1])


def _folded(word: str) -> str:
    """Lower case without accents, as the index compares words."""
    if word.isascii():
        return word.lower()
    import unicodedata  # noqa: PLC0415 - a start of the worker must not wait for its tables

    return _ACCENT.sub("", unicodedata.normalize("NFD", word.lower()))
