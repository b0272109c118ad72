"""Whether a folder holds code that OpenCode would run at its start, whatever it is told to leave alone there.

It looks into the folder and everything above it within the working tree; without git into everything above it.
"""

import os
from pathlib import Path

from workers.runtime.repository import working_tree

_SETTINGS = ("opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc")
_SETTINGS_BYTES = 1 << 20
_CODE = (".js", ".ts")


def plugin_in(workdir: str, home: str = "") -> str:
    """The first file that is, or names, such code, seen from the working tree; outside of one its full path; empty
    without any. What lies in the user's ``home`` itself is the user's own, unless it is the ``workdir``."""
    folder = Path(workdir)
    tree = working_tree(folder)
    for place in _places(folder, tree, home):
        found = next((file for file in _suspects(place)), None)
        if found is not None:
            return str(found.relative_to(tree) if found.is_relative_to(tree) else found)
    return ""


def _places(folder: Path, tree: Path, home: str) -> list[Path]:
    chain = [folder, *folder.parents]
    if (tree / ".git").exists():
        return chain[: chain.index(tree) + 1]
    # It goes up to the root of the file system then, and that one belongs to nobody who could want harm.
    own = os.path.realpath(home) if home else ""
    return [folder, *(place for place in chain[1:-1] if os.path.realpath(place) != own)]


def _suspects(place: Path) -> list[Path]:
    found = [file for name in ("plugin", "plugins") for file in _files(place / ".opencode" / name)]
    return found + [place / name for name in _SETTINGS if _names_plugins(place / name)]


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(file for file in folder.iterdir() if file.suffix in _CODE)
    except OSError:
        return []


def _names_plugins(file: Path) -> bool:
    """Also where the word is hidden behind an escape, and where nobody can tell."""
    try:
        with file.open("rb") as opened:
            text = opened.read(_SETTINGS_BYTES + 1)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return b"plugin" in text or b"\\u" in text or len(text) > _SETTINGS_BYTES
