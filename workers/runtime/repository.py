"""What the folder of a session may do to its agent: its advice is heard; its hooks, plugins and servers run if trusted.

Advice is text for the model. It is read here where an agent would read it only together with what runs programs.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from termal.config import AgentConfig
from termal.rules.delegation_paths import contains
from termal.wire.turns import SessionSpec

ADVICE_BYTES = 64 << 10
"""Of one file; what is longer is cut, for it goes to the model with each request."""


def is_closed(spec: SessionSpec) -> bool:
    """Whether the session works under bounds that nothing of the user's or the repository's own may widen."""
    return spec.delegated or spec.read_only


def is_trusted(own: AgentConfig, spec: SessionSpec) -> bool:
    """Whether the user allowed this folder its own agent settings. A delegated or read-only session has none."""
    if is_closed(spec):
        return False
    folder = os.path.realpath(spec.workdir)
    return any(contains(os.path.realpath(Path(one).expanduser()), folder) for one in own.trusted)


def advice_files(workdir: str, *names: str) -> list[Path]:
    """The files of advice from the root of the repository down to ``workdir``: of each folder the first of ``names``
    that is there. A link that leads out of the repository is none of them."""
    folder = Path(os.path.realpath(workdir))
    root = next((one for one in (folder, *folder.parents) if _is_root(one)), folder)
    chain = [folder, *folder.parents]
    folders = reversed(chain[: chain.index(root) + 1])
    return [found for one in folders if (found := next(_readable(root, one, names), None)) is not None]


def advice(workdir: str, *names: str) -> str:
    """The texts of `advice_files`, each under its name; empty without any."""
    root = os.path.realpath(workdir)
    parts = [
        f"Instructions of {os.path.relpath(file, root)} in this repository:\n\n{text}"
        for file in advice_files(workdir, *names)
        if (text := _text(file).strip())
    ]
    return "\n\n".join(parts)


def working_tree(folder: Path) -> Path:
    """The nearest folder from ``folder`` up that holds a ``.git`` of whatever kind; ``folder`` itself without one."""
    return next((one for one in (folder, *folder.parents) if (one / ".git").exists()), folder)


def _is_root(folder: Path) -> bool:
    """A worktree has a file of that name."""
    return (folder / ".git" / "HEAD").exists() or (folder / ".git").is_file()


def _readable(root: Path, folder: Path, names: tuple[str, ...]) -> Iterator[Path]:
    for name in names:
        file = folder / name
        if file.is_file() and contains(str(root), os.path.realpath(file)):
            yield file


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(ADVICE_BYTES).decode("utf-8", "ignore")
    except OSError:
        # It went meanwhile, or may not be read: the agent could not read it either.
        return ""
