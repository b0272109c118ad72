"""Findings in the prose of a child: the lines that name a severity, a place and a text."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from termal.model.delegation import DelegationFinding

FINDINGS = 100
_SEVERITY = r"(?:critical|high|medium|low|note)"
_DASHES = (" \u2014 ", " - ", " \u2013 ")
"""Spaced separators between a place and a text, in the order in which they are tried."""

_BRACKETED = re.compile(rf"(?:\*\*\[({_SEVERITY})\]\*\*|\*\*({_SEVERITY})\*\*|\[({_SEVERITY})\])(?=[\s:]|$)", re.I)
_TITLED = re.compile(rf"\*\*\[({_SEVERITY})\]\s*:?\s*(\S[^\n]*?)\*\*(.*)", re.I)
_COMPACT = re.compile(rf"({_SEVERITY})\s+(?=\S)", re.I)
_CELL = re.compile(rf"[*\[\]`\s]*({_SEVERITY})[*\[\]`\s]*", re.I)
_PIPE = re.compile(r"(?<!\\)\|")
_LINK = re.compile(r"\[([^\]\n]*)\]\(([^)\n]*)\)")
_TICKED = re.compile(r"`([^`\n]+)`")
_LINES = re.compile(r"(.+?):(\d{1,9})(?:[-\u2013](\d{1,9}))?(?::\d{1,9})?")
_ANCHOR = re.compile(r"(.*?)#L(\d{1,9})(?:C\d{1,9})?(?:-L?\d{1,9}(?:C\d{1,9})?)?")
_BULLET = re.compile(r"[-*][ \t]+")
_EARLIER = re.compile(
    r"[*_\s]*(?:(?:please\s+)?(?:see|refer\s+to|same\s+as|as|described|listed|detailed|covered|reported|documented|noted)\b)"
    r"[^.;:\n]{0,80}?\b(?:above|earlier|previous(?:ly)?|preceding|preamble)\b",
    re.I,
)

NONE_WORDS = frozenset({"none", "no findings", "no issues found"})
LABELS = frozenset({"summary", "notes", "files inspected", "commands run", "status"})
"""What a heading may say beside its findings and its code review."""


class Reading(NamedTuple):
    """``crossed``: what pointed at earlier sections, dropped. ``empty``: the text says that there is nothing."""

    found: list[DelegationFinding]
    crossed: bool
    empty: bool


def read_findings(text: str, *, inside: bool, compact: bool) -> Reading:
    """The findings in ``text``. ``inside``: its first line already belongs to them. ``compact``: a line may begin with
    a bare severity, as in a result packet."""
    found: list[DelegationFinding] = []
    crossed = empty = False
    for line in _captured(text, inside):
        item = without_bullet(line)
        if is_none(item):
            empty = True
            continue
        finding = _finding(item, compact)
        if points_back(finding.message if finding else item):
            crossed = True
        elif finding is not None:
            found.append(finding)
    return Reading(found, crossed, empty)


def distinct(findings: Iterable[DelegationFinding]) -> list[DelegationFinding]:
    """Without repeats, cut at `FINDINGS`."""
    return list(dict.fromkeys(findings))[:FINDINGS]


def without_bullet(line: str) -> str:
    line = line.strip()
    found = _BULLET.match(line)
    return line[found.end() :].strip() if found else line


def is_none(item: str) -> bool:
    """Whether an item of a list says that the list is empty."""
    return item.strip(" *_").removesuffix(".").strip(" *_").lower() in NONE_WORDS


def points_back(message: str) -> bool:
    """Whether a message begins by pointing at earlier sections instead of saying something."""
    return _EARLIER.match(message) is not None


def heading_label(line: str) -> str | None:
    """What a heading says, lower-cased and bare; None for a line that is none."""
    text = line.strip()
    if not text.startswith("#") and not text.rstrip("* ").endswith(":") and not text.endswith(":"):
        return None
    return text.lstrip("#").replace("**", "").strip().removesuffix(":").partition(":")[0].strip().lower()


def is_code_review(label: str) -> bool:
    return label == "code review" or label.startswith(("code review -", "code review \u2013", "code review \u2014"))


def _captured(text: str, inside: bool) -> Iterator[str]:
    """The unindented lines of the sections that hold findings."""
    for line in text.splitlines():
        if not line.strip() or line[0] in " \t":
            continue
        label = heading_label(line)
        hashes = line.startswith("#")
        if label is not None and _opens(label):
            inside = True
        elif label in LABELS or (hashes and not _is_neutral(label or "")):
            inside = False
        elif inside and not hashes:
            yield line


def _opens(label: str) -> bool:
    return label == "findings" or label.partition(" ")[0] == "actionable"


def _is_neutral(label: str) -> bool:
    return _is_severity(label) or is_code_review(label)


def _is_severity(label: str) -> bool:
    return (
        re.fullmatch(rf"{_SEVERITY}(?:[ -](?:severity|priority|findings?|issues?))*\s*(?:\(\d+\))?", label) is not None
    )


def _finding(item: str, compact: bool) -> DelegationFinding | None:
    if item.startswith("|"):
        return _from_row(item)
    bracketed = _BRACKETED.match(item)
    if bracketed:
        severity = next(group for group in bracketed.groups() if group)
        return _placed(severity, item[bracketed.end() :].lstrip(" \t:"))
    titled = _TITLED.match(item)
    if titled:
        return _from_title(*titled.groups())
    bare = _COMPACT.match(item) if compact else None
    if bare and any(dash in item[bare.end() :] for dash in _DASHES):
        return _placed(bare[1], item[bare.end() :])
    return None


def _from_row(item: str) -> DelegationFinding | None:
    cells = [cell.strip().replace("\\|", "|") for cell in _PIPE.split(item.strip().strip("|"))]
    severity = _CELL.fullmatch(cells[0])
    if len(cells) < 3 or not severity or not cells[2]:
        return None
    return _made(severity[1], cells[1], cells[2])


def _placed(severity: str, rest: str) -> DelegationFinding | None:
    """``loc - text``; without a separator all of it is the text."""
    for dash in _DASHES:
        place, found, message = rest.partition(dash)
        if found and message.strip():
            return _made(severity, place, message)
    message = rest.strip().strip("-\u2013\u2014").strip()
    return _made(severity, "", message) if message else None


def _from_title(severity: str, title: str, rest: str) -> DelegationFinding | None:
    details = rest.strip().lstrip(":-\u2013\u2014").strip()
    message = f"{title.strip()} - {details}" if details else title.strip()
    place = next((found for text in (details, title) if (found := _leading_place(text))), "")
    file, line = location(place)
    return DelegationFinding(severity=severity, file=file, line=line, message=message)


def _leading_place(text: str) -> str:
    found = _LINK.match(text.strip()) or _TICKED.match(text.strip())
    return found[0] if found else ""


def _made(severity: str, place: str, message: str) -> DelegationFinding:
    file, line = location(place)
    return DelegationFinding(severity=severity, file=file, line=line, message=message.strip())


def location(text: str) -> tuple[str | None, int | None]:
    """File and line of ``file:line``, ``file:first-last`` or a link to one; a suffix that is no line stays a name."""
    link = _LINK.search(text)
    if link:
        file, line = _file_and_line(link[1])
        target, target_line = _file_and_line(link[2])
        return file or target, line or target_line
    return _file_and_line(text)


def _file_and_line(text: str) -> tuple[str | None, int | None]:
    place = text.replace("`", "").replace("**", "").strip()
    found = _LINES.fullmatch(place) or _ANCHOR.fullmatch(place)
    if found and int(found[2]):
        return found[1].strip() or None, int(found[2])
    return place or None, None
