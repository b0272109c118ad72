"""Codex threads: what clients ask of `state`, and what `state` then asks of the worker that runs Codex."""

from typing import Literal

import msgspec

from termal.wire.operation import WRITE_S, read, write
from termal.wire.session_operations import OneSession
from termal.wire.turns import JsonReply, SessionSpec

CALL_S = 30.0
"""For Codex to carry out one call."""
SERVERS_S = 60.0
"""For all pages of the list of MCP servers."""
ThreadAction = Literal["fork", "archive", "unarchive", "compact", "rollback", "servers"]


class RollBack(msgspec.Struct, frozen=True):
    session_id: str
    turns: int = 1


class ForkThread(msgspec.Struct, frozen=True):
    """``key`` makes a repeat answer with the session that the first attempt made."""

    key: str
    session_id: str


class ThreadCommand(msgspec.Struct, frozen=True):
    """``turns``: how many a rollback takes away."""

    spec: SessionSpec
    action: ThreadAction
    turns: int = 1


class PastItem(msgspec.Struct, frozen=True):
    """A part of a thread's history. ``text`` is the prompt, the text, the thought, the command line or the diff;
    ``title`` a diff's path, ``output`` a command's. ``change``: of a diff."""

    kind: Literal["prompt", "text", "thinking", "command", "diff"]
    text: str
    title: str = ""
    output: str = ""
    failed: bool = False
    change: Literal["edit", "create"] = "edit"


class ThreadDone(msgspec.Struct, frozen=True):
    """``thread_id`` is the fork's. ``items`` None: Codex did not return the history, or it is too large to carry.

    ``servers`` is JSON: the list of MCP servers as clients get it.
    """

    thread_id: str | None = None
    items: list[PastItem] | None = None
    servers: bytes = b"[]"


THREAD_FORK = write("thread.fork", ForkThread, JsonReply, repeatable=False, timeout_s=CALL_S + WRITE_S)
THREAD_ARCHIVE = write("thread.archive", OneSession, JsonReply, repeatable=False, timeout_s=CALL_S + WRITE_S)
THREAD_UNARCHIVE = write("thread.unarchive", OneSession, JsonReply, repeatable=False, timeout_s=CALL_S + WRITE_S)
THREAD_COMPACT = write("thread.compact", OneSession, JsonReply, repeatable=False, timeout_s=CALL_S + WRITE_S)
THREAD_ROLLBACK = write("thread.rollback", RollBack, JsonReply, repeatable=False, timeout_s=CALL_S + WRITE_S)
THREAD_SERVERS = read("thread.servers", OneSession, JsonReply, timeout_s=SERVERS_S + WRITE_S)
CODEX_THREAD = write("codex.thread", ThreadCommand, ThreadDone, repeatable=False, timeout_s=SERVERS_S)
"""Asked of the worker that runs Codex. 400: Codex refused; 409: a turn of this session runs."""
