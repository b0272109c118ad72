"""Reads the result packet that ends a child's prose, and makes one of plain prose. No typed result is read here."""

from typing import Literal, NamedTuple

from termal.model.delegation import DelegationFinding
from termal.rules.delegation_claims import claimed_severity
from termal.rules.delegation_findings import (
    Reading,
    distinct,
    heading_label,
    is_code_review,
    is_none,
    read_findings,
    without_bullet,
)
from termal.rules.delegation_output import boundary_after

WINDOW_BYTES = 32768
"""So much of the end of a message is looked through."""
NO_SUMMARY = {"completed": "Completed without a summary.", "failed": "Failed without a summary."}
INSPECTED = "Inspected "
_HEADING = "## result"
_SECTIONS = {
    "summary": "summary",
    "findings": "findings",
    "notes": "notes",
    "files inspected": "files",
    "commands run": "ignored",
}
_SEE_OUTPUT = "The summary speaks of findings that the packet does not list; see the child's full output."


class Prose(NamedTuple):
    """What a child's own text says, before the caps of a stored result."""

    status: Literal["completed", "failed"]
    summary: str
    findings: list[DelegationFinding]
    notes: list[str]


class _Packet(NamedTuple):
    status: str
    summary: str
    sections: dict[str, list[str]]


def parse_packet(text: str) -> Prose | None:
    """The packet in the last part of ``text``, None when there is none that can be trusted."""
    window = _window(text)
    lines = window.splitlines()
    start = next((number for number, line in enumerate(lines) if line.strip().lower() == _HEADING), None)
    packet = _read(lines[start + 1 :]) if start is not None else None
    if packet is None:
        return None
    summary = packet.summary or NO_SUMMARY[packet.status]
    findings = _findings(packet, "\n".join(lines[:start]))
    if findings is None:
        return None
    status: Literal["completed", "failed"] = "completed" if packet.status == "completed" else "failed"
    return Prose(status, summary, distinct(findings), _notes(packet))


def synthesize(text: str) -> Prose:
    """The result of a child that ended with ``text`` and without a packet, whatever it says of its success."""
    reading = read_findings(_window(text), inside=False, compact=False)
    return Prose("completed", text.strip() or NO_SUMMARY["completed"], distinct(reading.found), [])


def _window(text: str) -> str:
    data = text.encode("utf-8", "replace")
    if len(data) <= WINDOW_BYTES:
        return text
    return data[boundary_after(data, len(data) - WINDOW_BYTES) :].decode()


def _read(lines: list[str]) -> _Packet | None:
    """The sections below the heading of a packet; None without a status."""
    reader = _Reader()
    for line in lines:
        reader.take(line)
    if reader.status is None:
        return None
    summary = "\n".join(reader.sections.get("summary", [])).strip()
    return _Packet(reader.status, summary, reader.sections)


class _Reader:
    """Takes the lines of a packet one by one; ``open`` is the section that they belong to."""

    def __init__(self) -> None:
        self.status: str | None = None
        self.sections: dict[str, list[str]] = {}
        self.open: str | None = None

    def take(self, line: str) -> None:
        if self.open is None and self._preface(line):
            return
        section = self._section(line)
        if section is not None:
            # A summary that comes again, and what is not read at all, take their lines with them.
            self.open = "ignored" if section == "summary" and "summary" in self.sections else section
            self.sections.setdefault(self.open, [])
        elif self.open in ("summary", "findings", "notes") or (
            self.open == "files" and not line.lstrip().startswith("#")
        ):
            self.sections[self.open].append(line)

    def _preface(self, line: str) -> bool:
        """``Status:`` and ``Summary:`` before any section, with what stands behind them."""
        label, colon, rest = line.strip().lstrip("#").replace("**", "").strip().partition(":")
        word = label.strip().lower()
        if not colon or word not in ("status", "summary"):
            return False
        if word == "status":
            said = rest.strip().strip("`*_.").lower()
            self.status = said if said in ("completed", "failed") else None
        else:
            self.open = "summary"
            self.sections["summary"] = [rest.strip()] if rest.strip() else []
        return True

    def _section(self, line: str) -> str | None:
        label = heading_label(line)
        if label is None:
            return None
        if is_code_review(label):
            return None if self.open == "findings" else "ignored"
        return _SECTIONS.get(label)


def _notes(packet: _Packet) -> list[str]:
    notes = _items(packet.sections.get("notes", []))
    return notes + [INSPECTED + item for item in _items(packet.sections.get("files", []))]


def _items(lines: list[str]) -> list[str]:
    items = [without_bullet(line) for line in lines]
    return [item for item in items if item and not is_none(item)]


def _findings(packet: _Packet, preamble: str) -> list[DelegationFinding] | None:
    """None: the packet points at findings that nobody can find."""
    own = read_findings("\n".join(packet.sections.get("findings", [])), inside=True, compact=True)
    if own.empty and not own.found and not own.crossed:
        return _although_empty(packet, preamble)
    if own.found and not own.crossed:
        return own.found
    earlier = _earlier(preamble)
    if own.crossed and not own.found and not earlier.found:
        return None
    return earlier.found + own.found


def _although_empty(packet: _Packet, preamble: str) -> list[DelegationFinding]:
    severity = claimed_severity(packet.summary)
    if severity is None:
        return []
    return _earlier(preamble).found or [DelegationFinding(severity=severity, message=_SEE_OUTPUT)]


def _earlier(preamble: str) -> Reading:
    return read_findings(preamble, inside=False, compact=False)
