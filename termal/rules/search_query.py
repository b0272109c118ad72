"""What a person types to search: words, "phrases", prefix*. It becomes quoted terms, never a language of the index."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from termal.rules.verdicts import Bad

QUERY_CHARACTERS = 400
TERMS = 16
PREFIX_CHARACTERS = 3
"""A shorter prefix would have the index read a large part of itself."""

WORD = re.compile(r"(?:[^\W_][\u0300-\u036f]*)+")
"""A run of letters and digits with their accents: what the index takes for a word."""
_CHUNK = re.compile(r'"([^"]*)"(\*?)|([^\s"]+)')


class Term(NamedTuple):
    """``text`` is looked for as a phrase; its ``words`` are those of it, the last one a beginning if ``prefix``."""

    text: str
    words: tuple[str, ...]
    prefix: bool


def terms_of(query: str) -> list[Term]:
    """Every term must be in a message. Raises `Bad` for a query without a word, or one that is out of bounds."""
    if len(query) > QUERY_CHARACTERS:
        raise Bad(f"a query has at most {QUERY_CHARACTERS} characters", reason="query")
    text = query.replace("\0", " ")
    if text.count('"') % 2:
        raise Bad("the query has a quotation mark without its counterpart", reason="query")
    terms = [term for found in _CHUNK.finditer(text) if (term := _term(*found.groups())) is not None]
    if not terms:
        raise Bad("the query has no word: letters and digits are searched for", reason="query")
    if len(terms) > TERMS:
        raise Bad(f"a query has at most {TERMS} terms", reason="query")
    return terms


def _term(quoted: str | None, star: str, plain: str | None) -> Term | None:
    """None for a chunk of signs alone: it can be in no message."""
    text = quoted if plain is None else plain
    assert text is not None
    prefix = bool(star) if plain is None else text.endswith("*")
    words = tuple(WORD.findall(text))
    if not words:
        return None
    if prefix and len(words[-1]) < PREFIX_CHARACTERS:
        raise Bad(f"a prefix has at least {PREFIX_CHARACTERS} characters before its *", reason="query")
    return Term(text.rstrip("*") if prefix else text, words, prefix)


def expression(terms: Sequence[Term], scope: str | None) -> str:
    """The index's own language, made of quoted strings alone. ``scope`` restricts to one session's word."""
    body = " AND ".join(f'"{term.text}"{" *" if term.prefix else ""}' for term in terms)
    where = f"body : ({body})"
    return where if scope is None else f'session : "{scope}" AND {where}'


def scope_of(session_id: str) -> str:
    """One word of the index that stands for a session."""
    return f"x{session_id.encode().hex()}"
