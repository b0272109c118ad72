"""Paths of this machine in what an agent's program says of itself: they are for the log, not for a client. Pure."""

import posixpath
import re

_PATH = re.compile(r"(?<![\w.~/-])(file://)?(/(?!/)[^\s\"'`<>|:;,()\[\]{}]+)")
_MASK = "[path]"


def masked(text: str, folder: str) -> str:
    """``text`` with each absolute path that is not ``folder``, the session's own, nor below it replaced."""
    own = posixpath.normpath(folder)

    def shown(found: re.Match[str]) -> str:
        path = posixpath.normpath(found[2])
        return found[0] if path == own or path.startswith(own.rstrip("/") + "/") else _MASK

    return _PATH.sub(shown, text)
