"""Replies and events of the HTTP API as a client gets them, made short for tests of the client and the command line."""

import json
from typing import Any


def text(number: int, words: str, author: str = "assistant") -> dict[str, Any]:
    return {
        "type": "text",
        "id": f"message-{number}",
        "timestamp": "2026-01-01 10:00:00",
        "author": author,
        "text": words,
    }


def session(*messages: dict[str, Any], status: str = "active", count: int | None = None, **more: Any) -> dict[str, Any]:
    return {
        "id": "session-1",
        "name": "First",
        "emoji": "DM",
        "agent": "Demo",
        "workdir": "/work",
        "model": "demo",
        "status": status,
        "preview": "",
        "messageCount": len(messages) if count is None else count,
        "messages": list(messages),
        **more,
    }


def session_reply(*messages: dict[str, Any], revision: int = 1, **more: Any) -> dict[str, Any]:
    return {"revision": revision, "serverInstanceId": "one", "session": session(*messages, **more)}


def state(*sessions: dict[str, Any], revision: int = 1, **more: Any) -> dict[str, Any]:
    return {"revision": revision, "serverInstanceId": "one", "sessions": list(sessions), **more}


def delta(kind: str, revision: int, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "revision": revision, "sessionId": "session-1", **fields}


def added(message: dict[str, Any], index: int, revision: int, status: str = "active") -> dict[str, Any]:
    place = {"messageId": message["id"], "messageIndex": index, "messageCount": index + 1}
    return delta("messageAdded", revision, message=message, preview="", status=status, **place)


def grown(message_id: str, piece: str, start: int, revision: int) -> dict[str, Any]:
    return delta("textDelta", revision, messageId=message_id, delta=piece, textStartByte=start)


def event(name: str, data: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()
