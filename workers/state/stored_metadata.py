"""The metadata of a stored file: read and judged before anything is written; refused when no start can use it."""

from pathlib import Path

import msgspec

from termal.model.ids import project_number
from termal.model.stored import LOCAL_REMOTE, Metadata
from termal.store.connection import BROKEN, Cursorlike, broken
from termal.store.files import StoreRefused

METADATA_KEY = "metadataState"
_HELD = {
    "app_state": "SELECT EXISTS (SELECT 1 FROM app_state)",
    "sessions": "SELECT EXISTS (SELECT 1 FROM sessions)",
    "delegations": "SELECT EXISTS (SELECT 1 FROM delegations)",
    "messages": "SELECT EXISTS (SELECT 1 FROM messages)",
}

decode_metadata = msgspec.json.Decoder(Metadata).decode


def read_metadata(connection: Cursorlike, path: Path) -> Metadata | None:
    """None for a store that holds nothing at all. Raises `StoreRefused` for metadata that no start can use."""
    try:
        text = metadata_text(connection)
        if text is None:
            _refuse_orphans(connection, path)
            return None
        metadata = decode_metadata(text)
    except BROKEN as error:
        raise broken(path, error) from error
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise StoreRefused(f"{path} has unreadable metadata ({error}); it was not changed") from error
    problem = _problem(metadata)
    if problem:
        raise StoreRefused(f"{path} has unusable metadata: {problem}. It was not changed")
    return metadata


def metadata_text(connection: Cursorlike) -> bytes | None:
    """The stored JSON, None where there is no such row. Raises `ValueError` for a value that is no text."""
    if not connection.table_exists("main", "app_state"):
        return None
    row = connection.execute(
        "SELECT typeof(value_json), CAST(value_json AS BLOB) FROM app_state WHERE key = ?", (METADATA_KEY,)
    ).fetchone()
    if row is None:
        return None
    if row[0] != "text":
        raise ValueError("it is no text")
    return bytes(row[1])


def _refuse_orphans(connection: Cursorlike, path: Path) -> None:
    """Rows without metadata are no empty store: it would begin to count at one again."""
    for table, holds_rows in _HELD.items():
        if connection.table_exists("main", table) and connection.execute(holds_rows).get:
            raise StoreRefused(
                f"{path} has rows but no metadata: a start would hand out ids that are taken. Put back a backup of it"
            )


def _problem(metadata: Metadata) -> str:
    remotes = [remote.id for remote in metadata.preferences.remotes]
    highest = max((project_number(project.id) for project in metadata.projects), default=0)
    counters = (metadata.next_project_number, metadata.next_session_number, metadata.next_message_number)
    if min(counters) < 1 or metadata.next_project_number <= highest:
        return "a counter is lower than what it has handed out"
    if len(set(remotes)) != len(remotes):
        return "two remotes have one id"
    if LOCAL_REMOTE not in remotes:
        return f"the remote {LOCAL_REMOTE!r} is missing"
    for project in metadata.projects:
        if project.remote_id not in remotes:
            return f"project {project.id} is on an unknown remote"
    return ""
