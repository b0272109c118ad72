"""Whether a summary claims findings although its section of findings is empty. Unsure means that it does."""

import re

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9']*")
_SENTENCE = re.compile(r"[.!?;](?=\s|$)|\n")
_NUMBERS = frozenset(
    [
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "several",
        "multiple",
        "many",
        "few",
        "some",
        "couple",
    ]
)
_SEVERITIES = {"critical": "Critical", "high": "High", "medium": "Medium", "low": "Low", "note": "Note"}
_STEMS = [
    "bug",
    "defect",
    "error",
    "failure",
    "finding",
    "flaw",
    "gap",
    "issue",
    "problem",
    "race",
    "regression",
    "risk",
]
_NOUNS = frozenset(_STEMS) | {stem + "s" for stem in _STEMS}
_NEGATIONS = frozenset(
    ["no", "not", "without", "zero", "none", "neither", "nor", "never", "free", "0", "any", "cannot", "can't", "didn't"]
)
_DISCOVERY = frozenset(
    [
        "find",
        "finds",
        "found",
        "identify",
        "identifies",
        "identified",
        "discover",
        "discovers",
        "discovered",
        "detect",
        "detects",
        "detected",
        "report",
        "reports",
        "reported",
        "uncover",
        "uncovers",
        "uncovered",
        "spot",
        "spotted",
        "flag",
        "flags",
        "flagged",
        "raise",
        "raises",
        "raised",
        "reveal",
        "reveals",
        "revealed",
        "surface",
        "surfaced",
        "surfaces",
        "note",
        "noted",
        "see",
        "saw",
        "remain",
        "remains",
        "remaining",
        "exist",
        "exists",
    ]
)
_RESOLVED = frozenset(
    ["resolved", "fixed", "addressed", "closed", "corrected", "handled", "mitigated", "repaired", "solved"]
)
_UNRESOLVED = frozenset(
    ["unresolved", "unfixed", "unaddressed", "outstanding", "open", "remain", "remains", "remaining", "still", "not"]
)
_NEAR = 4
_VERB_NEAR = 7
UNSPECIFIED = "Unspecified"


def claimed_severity(summary: str) -> str | None:
    """The severity of the findings that ``summary`` claims, `UNSPECIFIED` for claims without one; None: no claim."""
    claimed = None
    for sentence in _SENTENCE.split(summary):
        words = [word.lower() for word in _WORD.findall(sentence)]
        severity = _by_severity(words) or _by_noun(words)
        if severity not in (None, UNSPECIFIED):
            return severity
        claimed = claimed or severity
    return claimed


def _by_severity(words: list[str]) -> str | None:
    """A severity beside what it belongs to, counted, and discovered."""
    for at, word in enumerate(words):
        beside = words[max(0, at - 1) : at] + words[at + 1 : at + 2]
        if word not in _SEVERITIES or not any(one == "severity" or one in _NOUNS for one in beside):
            continue
        near = _around(words, at, _VERB_NEAR)
        discovered = any(one in _DISCOVERY for one in near) and not _settled(near)
        if discovered and any(_is_count(one) for one in _around(words, at, _NEAR)):
            return _SEVERITIES[word]
    return None


def _by_noun(words: list[str]) -> str | None:
    """A noun of findings that is counted or qualified, neither denied nor said to be resolved."""
    for at, word in enumerate(words):
        before = words[max(0, at - _NEAR) : at]
        if word not in _NOUNS or any(one in _NEGATIONS for one in before) or _settled(_around(words, at, _VERB_NEAR)):
            continue
        severity = next((_SEVERITIES[one] for one in reversed(before) if one in _SEVERITIES), None)
        if severity:
            return severity
        if "actionable" in before or any(_is_count(one) for one in _around(words, at, _NEAR)):
            return UNSPECIFIED
    return None


def _around(words: list[str], at: int, distance: int) -> list[str]:
    return words[max(0, at - distance) : at] + words[at + 1 : at + 1 + distance]


def _is_count(word: str) -> bool:
    return word in _NUMBERS or (word.isdecimal() and int(word) > 0)


def _settled(words: list[str]) -> bool:
    return any(word in _RESOLVED for word in words) and not any(word in _UNRESOLVED for word in words)
