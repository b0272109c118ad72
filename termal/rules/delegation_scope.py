"""The lock of read-only delegations: whether what a write touches lies in what an active one looks at."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from termal.rules.delegation_paths import contains, overlap


class Place(NamedTuple):
    """A project and a canonical directory; either may be missing."""

    project_id: str | None = None
    workdir: str | None = None


class Targets(NamedTuple):
    """Everything that a write touches: projects by id, directories by canonical path."""

    projects: frozenset[str]
    workdirs: frozenset[str]


def targets(places: Iterable[Place], roots: Mapping[str, str]) -> Targets:
    """What a write at ``places`` touches; ``roots`` are the canonical roots of the local projects, by id.

    A project brings its root along, a directory every project that holds it.
    """
    given = [Place(project, workdir or None) for project, workdir in places]
    projects = {place.project_id for place in given if place.project_id}
    workdirs = {place.workdir for place in given if place.workdir}
    roots_named = {roots[project] for project in projects if project in roots}
    holders = {project for project, root in roots.items() if any(contains(root, path) for path in workdirs)}
    return Targets(frozenset(projects | holders), frozenset(workdirs | roots_named))


def is_locked(touched: Targets, scopes: Iterable[Place]) -> bool:
    """Whether one of ``scopes``, the places of active read-only delegations, overlaps what is touched."""
    return any(_overlaps(touched, scope) for scope in scopes)


def _overlaps(touched: Targets, scope: Place) -> bool:
    if scope.project_id and scope.project_id in touched.projects:
        return True
    return bool(scope.workdir) and any(overlap(path, scope.workdir or "") for path in touched.workdirs)
