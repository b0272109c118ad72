"""The hint that files below the directories of sessions changed, as clients get it."""

from msgspec import UNSET, UnsetType

from termal.model.message import ChangedFile, Record


class WorkspaceChange(ChangedFile, frozen=True):
    """``path`` is absolute. ``session_id``: whose agent works there, when there is only one."""

    root_path: str | UnsetType = UNSET
    session_id: str | UnsetType = UNSET
    mtime_ms: int | UnsetType = UNSET
    size_bytes: int | UnsetType = UNSET


class FilesChanged(Record, frozen=True):
    """``revision`` counts hints since `state` started. ``overflow``: directories in which anything may have changed."""

    revision: int
    changes: list[WorkspaceChange]
    overflow: list[str] | UnsetType = UNSET
