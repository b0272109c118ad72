"""The file changes that an ACP agent shows, as unified diffs. Pure, and bounded in time whatever the texts are."""

import difflib
import re
from io import StringIO

COMPARED_LINES = 2000
"""Comparing two texts line by line takes time by the square: 40 ms at this size, 7 s at ten times as much."""
_CONTEXT = 3
_HUNK = re.compile(r"@@ -(\d+)((?:,\d+)?) \+(\d+)((?:,\d+)?) @@")


class Change:
    """One file of an edit: its text before (None: a new file) and after."""

    def __init__(self, path: str, old: str | None, new: str) -> None:
        self.path = path
        self.old = old
        self.new = new

    def unified(self) -> str:
        """The diff, empty when nothing changed."""
        old, new = list(StringIO(self.old or "")), list(StringIO(self.new))
        if old == new:
            return ""
        before = "/dev/null" if self.old is None else f"a/{self.path}"
        head = [f"--- {before}\n", f"+++ b/{self.path}\n"]
        lines = head + _hunks(old, new)
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def changes_in(content: object, folder: str) -> list[Change]:
    """The changes among the parts of a tool call's content; paths below ``folder`` are shortened."""
    out = []
    for part in content if isinstance(content, list) else ():
        if not (isinstance(part, dict) and part.get("type") == "diff"):
            continue
        path, old, new = part.get("path"), part.get("oldText"), part.get("newText")
        if isinstance(path, str) and isinstance(new, str):
            out.append(Change(_short(path, folder), old if isinstance(old, str) else None, new))
    return out


def _hunks(old: list[str], new: list[str]) -> list[str]:
    """What is equal at both ends is set aside, so that a small change of a large file is found at once."""
    shorter = min(len(old), len(new))
    head = next((index for index in range(shorter) if old[index] != new[index]), shorter)
    rest = shorter - head
    tail = next((index for index in range(rest) if old[-1 - index] != new[-1 - index]), rest)
    removed, added = old[head : len(old) - tail], new[head : len(new) - tail]
    if len(removed) + len(added) > COMPARED_LINES:
        start = f"@@ -{_range(head, removed)} +{_range(head, added)} @@\n"
        return [start, *(f"-{line}" for line in removed), *(f"+{line}" for line in added)]
    first = max(0, head - _CONTEXT)
    after = max(0, tail - _CONTEXT)
    hunks = difflib.unified_diff(old[first : len(old) - after], new[first : len(new) - after], n=_CONTEXT)
    return [_moved(line, first) for line in list(hunks)[2:]]


def _range(start: int, lines: list[str]) -> str:
    return f"{start + 1 if lines else start},{len(lines)}"


def _moved(line: str, offset: int) -> str:
    if not offset or not line.startswith("@@"):
        return line
    return _HUNK.sub(
        lambda found: f"@@ -{int(found[1]) + offset}{found[2]} +{int(found[3]) + offset}{found[4]} @@", line
    )


def _short(path: str, folder: str) -> str:
    """Agents name files in full; below the session's folder the rest of the path says it all."""
    inside = path.removeprefix(folder.rstrip("/") + "/")
    return inside or path
