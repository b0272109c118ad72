"""Projects: their names and their places among each other."""

from collections.abc import Iterable
from pathlib import PurePath

from termal.model.stored import Project
from termal.rules.verdicts import Bad

NAME_CHARS = 200


def project_name(wanted: str | None, root_path: str, taken: Iterable[str]) -> str:
    """The asked name or the root's last part, with a number behind it while another project has it. Raises `Bad`."""
    name = (wanted or "").strip() or PurePath(root_path).name or root_path
    if len(name) > NAME_CHARS:
        raise Bad(f"a name must have at most {NAME_CHARS} characters")
    names = set(taken)
    number, unique = 1, name
    while unique in names:
        number += 1
        unique = f"{name} {number}"
    return unique


def same_place(projects: Iterable[Project], remote_id: str, root_path: str) -> Project | None:
    """The project that is there already."""
    for project in projects:
        if (project.remote_id, project.root_path) == (remote_id, root_path):
            return project
    return None
