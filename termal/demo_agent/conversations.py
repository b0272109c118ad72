"""The demo agent's memory: a small JSON file for each conversation, which can so be loaded after any kind of end."""

import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

_ID = re.compile(r"demo-[0-9a-f]{32}")
_FOLDER = "termal-demo-agent"


class Conversations:
    """Files below ``folder``, which is made on the first write, readable by the owner alone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, conversation: str) -> list[dict[str, str]] | None:
        """The exchanges (``prompt`` and ``answer``) of a conversation, None when there is no such one."""
        if _ID.fullmatch(conversation) is None:
            return None
        try:
            record: Any = json.loads(self._file(conversation).read_text("utf-8"))
        except (OSError, ValueError):
            return None
        return list(record["exchanges"])

    def write(self, conversation: str, exchanges: list[dict[str, str]]) -> None:
        """Replace the file at once; raises OSError."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._folder.lstat().st_uid != os.getuid():
            raise PermissionError(f"{self._folder} belongs to another user")
        fresh = self._folder / f".{conversation}.{os.getpid()}"
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({"exchanges": exchanges}, file)
        fresh.replace(self._file(conversation))

    def _file(self, conversation: str) -> Path:
        return self._folder / f"{conversation}.json"


def find_folder() -> Path:
    """``TERMAL_DEMO_HOME``, else a folder of the user's state, else one of the user's own among the temporary files."""
    named = os.environ.get("TERMAL_DEMO_HOME")
    if named:
        return Path(named)
    state = os.environ.get("XDG_STATE_HOME")
    if state:
        return Path(state) / _FOLDER
    return Path(tempfile.gettempdir()) / f"{_FOLDER}-{os.getuid()}"
