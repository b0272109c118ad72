"""Paths of delegations as texts and as canonical components. Touches no file: who canonicalizes brings the result."""

import re

from termal.rules.verdicts import Bad

PATH_CHARS = 4096
_DRIVE_RELATIVE = re.compile(r"[A-Za-z]:(?![\\/])")
_SEPARATORS = re.compile(r"[\\/]+")
_NAMESPACES = ("\\\\", "//", "\\??\\", "/\\", "\\/")
"""How UNC paths, verbatim ones and those of devices begin, however their separators are written."""
_DEVICES = frozenset({"globalroot", "mup"})


def checked_form(text: str, *, what: str, long: str, form: str) -> str:
    """``text`` trimmed. Raises `Bad` with the reason ``long`` or ``form``; ``what`` is its name in the sentence."""
    path = text.strip()
    if len(path) > PATH_CHARS:
        raise Bad(f"{what} must be no longer than {PATH_CHARS} characters", reason=long)
    if not path:
        raise Bad(f"{what} must be non-empty", reason=form)
    if _forbidden(path):
        raise Bad(f"{what} must be a plain path of this machine", reason=form)
    return path


def checked_cwd(text: str) -> str:
    """The asked working directory, trimmed. Raises `Bad`; a ``..`` segment is refused wherever it leads."""
    path = checked_form(text, what="cwd", long="cwdTooLong", form="cwdForbiddenForm")
    if ".." in segments(path):
        raise Bad("cwd must not contain a '..' segment", reason="cwdForbiddenForm")
    return path


def checked_worktree_path(text: str) -> str:
    """The asked place of a worktree, trimmed: absolute, without ``.`` and ``..``. Raises `Bad`."""
    path = checked_form(text, what="worktreePath", long="cwdTooLong", form="cwdForbiddenForm")
    if not path.startswith("/"):
        raise Bad("worktreePath must be an absolute path", reason="cwdForbiddenForm")
    if {".", ".."} & set(segments(path)):
        raise Bad("worktreePath must not contain '.' or '..' segments", reason="cwdForbiddenForm")
    return path


def checked_owned_path(text: str) -> str:
    """One owned path, trimmed. Raises `Bad`; whether it stays inside its root is for its canonical form to say."""
    path = checked_form(text, what="an owned path", long="ownedPathInvalid", form="ownedPathInvalid")
    if ".." in segments(path):
        raise Bad("an owned path must not contain a '..' segment", reason="ownedPathInvalid")
    return path


def segments(path: str) -> list[str]:
    """The parts between separators of either kind, without empty ones."""
    return [part for part in _SEPARATORS.split(path) if part]


def contains(outer: str, inner: str) -> bool:
    """Whether the canonical path ``inner`` is ``outer`` or below it, by components and not by characters."""
    return inner == outer or inner.startswith(outer if outer.endswith("/") else outer + "/")


def overlap(one: str, other: str) -> bool:
    """Whether one of two canonical paths holds the other. A blank one holds nothing and lies nowhere."""
    return bool(one and other) and (contains(one, other) or contains(other, one))


def relative(root: str, path: str) -> str:
    """The canonical ``path`` seen from the canonical ``root`` that holds it: with ``/``, ``.`` for the root itself."""
    return path[len(root.rstrip("/")) + 1 :] or "."


def is_owned(path: str, owned: list[str]) -> bool:
    """Whether a path relative to a root is one of the ``owned`` ones or below one; all relative and canonical."""
    return any(entry == "." or contains(entry, path) for entry in owned)


def outside(paths: list[str], owned: list[str]) -> list[str]:
    """Those of ``paths`` that nobody was given; none when nothing was declared."""
    return [path for path in paths if not is_owned(path, owned)] if owned else []


def _forbidden(path: str) -> bool:
    if "\0" in path or _DRIVE_RELATIVE.match(path) or path.startswith(_NAMESPACES):
        return True
    # A Windows path with a drive is no path here; with these parts it would name a device there.
    return "\\" in path and any(part.lower() in _DEVICES for part in segments(path))
