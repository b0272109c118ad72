"""The two ends of the pipe to the agent: lines in, lines out, nothing else on them. Knows JSON-RPC, not its methods.

What the SDK's own transport does not: batches, a reply to a line that is no JSON, a byte-order mark, blank lines.
"""

import asyncio
import os
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any

import msgspec

from termal.bridge.sdk import JSONRPCNotification, JSONRPCRequest, SessionMessage

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
_MARK = b"\xef\xbb\xbf"


class Pipe:
    """The process's standard streams, taken away from everything else: stray prints go to stderr."""

    def __init__(self) -> None:
        self._input = os.dup(0)
        self._output = os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        sys.stdout = sys.stderr
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._writer: threading.Thread | None = None

    def start(self, on_line: Callable[[bytes | None], None], on_broken: Callable[[], None]) -> None:
        """Call ``on_line`` on the running loop for each line, with None at the end; ``on_broken`` when nobody reads."""
        loop = asyncio.get_running_loop()

        def read() -> None:
            with os.fdopen(self._input, "rb") as source:
                for line in source:
                    loop.call_soon_threadsafe(on_line, line)
            loop.call_soon_threadsafe(on_line, None)

        def write() -> None:
            try:
                while (line := self._lines.get()) is not None:
                    left = memoryview(line)
                    while left:
                        left = left[os.write(self._output, left) :]
            except OSError:
                loop.call_soon_threadsafe(on_broken)

        threading.Thread(target=read, name="stdin", daemon=True).start()
        self._writer = threading.Thread(target=write, name="stdout", daemon=True)
        self._writer.start()

    def put(self, line: bytes) -> None:
        self._lines.put(line)

    def finish(self, limit_s: float = 2.0) -> None:
        """Let what was put be written."""
        self._lines.put(None)
        if self._writer is not None:
            self._writer.join(limit_s)


class Batch:
    """The answers of one array of requests, in order."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.answered = asyncio.Event()


class Wire:
    """Turns lines into the SDK's messages and back. ``put`` takes finished lines, ``feed`` the messages."""

    def __init__(self, put: Callable[[bytes], None], feed: Any) -> None:
        self._put = put
        self._feed = feed
        self._batched: dict[str | int, Batch] = {}
        self._batches: set[asyncio.Task[None]] = set()

    async def take(self, line: bytes) -> None:
        """One line from the agent."""
        line = line.removeprefix(_MARK).strip()
        if not line:
            return
        try:
            message = msgspec.json.decode(line)
        except (msgspec.MsgspecError, RecursionError):
            self._say(_error(None, PARSE_ERROR, "Parse error"))
            return
        if isinstance(message, list):
            # In a task of its own: a long call in it must not hold up the lines behind it.
            task = asyncio.create_task(self._run_batch(message))
            self._batches.add(task)
            task.add_done_callback(self._batches.discard)
            return
        read = _read(message)
        if isinstance(read, dict):
            self._say(read)
        elif read is not None:
            await self._feed.send(SessionMessage(read))

    def give(self, message: Any) -> None:
        """One message from the SDK."""
        number = getattr(message, "id", None)
        batch = self._batched.pop(number, None) if number is not None and not hasattr(message, "method") else None
        text = message.model_dump_json(by_alias=True, exclude_unset=True)
        if batch is None:
            self._put(text.encode() + b"\n")
        else:
            batch.answers.append(msgspec.Raw(text.encode()))
            batch.answered.set()

    async def _run_batch(self, messages: list[Any]) -> None:
        batch = Batch()
        for message in messages:
            read = _read(message)
            if isinstance(read, dict):
                batch.answers.append(read)
            elif read is not None:
                batch.answered.clear()
                if isinstance(read, JSONRPCRequest):
                    self._batched[read.id] = batch
                await self._feed.send(SessionMessage(read))
                if isinstance(read, JSONRPCRequest):
                    await batch.answered.wait()
        if batch.answers:
            self._say(batch.answers)

    def _say(self, value: Any) -> None:
        self._put(msgspec.json.encode(value) + b"\n")


def _read(message: Any) -> Any:
    """A message of the SDK, a finished error for what is none, or None for what gets no answer."""
    if not isinstance(message, dict):
        return _error(None, INVALID_REQUEST, "Invalid Request")
    method, params = message.get("method"), message.get("params")
    given = {"params": params} if isinstance(params, dict) else {}
    if "id" not in message:
        if not isinstance(method, str) or (params is not None and not given):
            return None
        return JSONRPCNotification(jsonrpc="2.0", method=method, **given)
    number = message["id"]
    known = number if isinstance(number, str | int) and not isinstance(number, bool) else None
    if known is None or not isinstance(method, str) or (params is not None and not given):
        return _error(known, INVALID_REQUEST, "Invalid Request")
    return JSONRPCRequest(jsonrpc="2.0", id=known, method=method, **given)


def _error(number: str | int | None, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}
