"""What must be true of a transcript after any number of kills, seen from outside."""

from collections import Counter
from pathlib import Path
from typing import Any

import apsw


def prompts_of(transcript: list[dict[str, Any]]) -> list[str]:
    return [message["text"] for message in transcript if message["type"] == "text" and message["author"] == "you"]


def answers_of(transcript: list[dict[str, Any]]) -> list[str]:
    return [message["text"] for message in transcript if message["type"] == "text" and message["author"] == "assistant"]


def check_transcript(transcript: list[dict[str, Any]], acknowledged: list[str], attempted: list[str]) -> None:
    """Acknowledged prompts are there exactly once and in order; nothing is there twice; nothing was invented."""
    prompts = prompts_of(transcript)
    counted = Counter(prompts)
    doubled = [prompt for prompt, times in counted.items() if times > 1]
    assert not doubled, f"prompts stored twice: {doubled}"
    lost = [prompt for prompt in acknowledged if prompt not in counted]
    assert not lost, f"acknowledged prompts lost: {lost}"
    invented = [prompt for prompt in prompts if prompt not in set(attempted)]
    assert not invented, f"prompts that nobody sent: {invented}"
    order = [prompt for prompt in prompts if prompt in set(acknowledged)]
    assert order == [prompt for prompt in acknowledged if prompt in counted], "prompts changed their order"
    ids = [message["id"] for message in transcript]
    assert len(ids) == len(set(ids)), "a message id stands twice"


def check_database(file: Path) -> None:
    """Integrity, foreign keys, dense positions, and overview bytes that agree with the rows."""
    connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        if file.name != "termal.sqlite":
            return
        rows = connection.execute(
            "SELECT session_id, count(*), min(position), max(position) FROM messages GROUP BY session_id"
        ).fetchall()
        for row in rows:
            session, count, low, high = str(row[0]), int(str(row[1])), int(str(row[2])), int(str(row[3]))
            assert (low, high) == (0, count - 1), f"{session}: positions {low}..{high} for {count} messages"
            kinds = connection.execute(
                "SELECT overview_kind | (is_user << 2) FROM messages WHERE session_id=? ORDER BY position", (session,)
            ).fetchall()
            blob = connection.execute(
                "SELECT value_blob FROM session_overviews WHERE session_id=?", (session,)
            ).fetchall()
            assert blob == [(bytes(int(str(kind)) for (kind,) in kinds),)], (
                f"{session}: the overview disagrees with the rows"
            )
    finally:
        connection.close()
