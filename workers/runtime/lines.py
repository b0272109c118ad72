"""A child process that speaks JSON-RPC, one object a line, in both directions: start, write, read, match answers, stop.

Knows no agent and no turn. Never waits without a limit, never trusts a line, never lets an agent block its reader.
"""

import asyncio
import contextlib
import json
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

import msgspec

from workers.runtime.host_paths import masked

LINE_BYTES = 64 << 20
"""A tool's result is one line, so lines are long; beyond this an agent is broken."""
STDERR_LINES = 200
STDERR_CHARACTERS = 2000
EXIT_S = 1.5
"""How long an agent may take to leave by itself, first after its input was closed, then after SIGTERM."""
CLEAN_UP_S = 1.0
"""What the agent's whole tree may take to be ended, once it is."""
DRAIN_S = 0.3
"""How long its last output is waited for after its exit; a process it left behind may hold the pipe open for ever."""
METHOD_NOT_FOUND = -32601
"""What a request is refused with that nobody here answers."""
_COLOURS = re.compile(rb"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_STDIN, _STDOUT = 0, 1

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Refused(Exception):
    """The process answered a request with an error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class NoAnswer(Exception):
    """No answer came in time, or none will: the process has ended (`JsonLines.ended` says which)."""


class Journal(Protocol):
    """Takes log lines (`termal.log.Log`)."""

    def warning(self, event: str, **keys: Any) -> None: ...


class Peer(Protocol):
    """Who talks to the process. All three are called on the loop, in the order in which the lines came."""

    def asked(self, request: object, method: str, params: dict[str, Any]) -> None: ...
    def told(self, method: str, params: dict[str, Any]) -> None: ...
    def gone(self, reason: str) -> None:
        """Once, after its last line: ``reason`` is a sentence where we ended it for its faults, else empty."""


Answered = Callable[[Any, Exception | None], None]


class JsonLines(asyncio.SubprocessProtocol):
    """One process. Made and used on the loop; `start` once."""

    def __init__(self, peer: Peer, log: Journal, name: str, *, versioned: bool = True) -> None:
        """``versioned``: each record says that it is JSON-RPC 2.0."""
        self._head = {"jsonrpc": "2.0"} if versioned else {}
        self._peer = peer
        self._log = log
        self._name = name
        self._transport: asyncio.SubprocessTransport | None = None
        self._number = 0
        self._pending: dict[int, Answered] = {}
        self._line = bytearray()
        self._stderr: deque[str] = deque(maxlen=STDERR_LINES)
        self._stderr_rest = b""
        self._garbage = 0
        self._exited = asyncio.Event()
        self._reason = ""
        self._folder = "/"
        self._held_back = False
        self.ended = False

    @property
    def pid(self) -> int | None:
        return self._transport.get_pid() if self._transport is not None and not self.ended else None

    @property
    def alive(self) -> bool:
        return self._transport is not None and not self._exited.is_set() and not self._reason

    @property
    def has_exited(self) -> bool:
        return self._exited.is_set()

    @property
    def broke_rules(self) -> str:
        """Why we ended it for its faults, a sentence; empty in every other case."""
        return self._reason

    @property
    def garbage_lines(self) -> int:
        return self._garbage

    def last_words(self) -> str:
        """The last line of its standard error, empty without one, and without paths outside its folder."""
        return masked(next((line for line in reversed(self._stderr) if line), ""), self._folder)

    async def start(self, argv: Sequence[str], *, folder: str, environment: Mapping[str, str]) -> None:
        """Raises OSError when it cannot be started."""
        self._folder = folder
        loop = asyncio.get_running_loop()
        await loop.subprocess_exec(lambda: self, *argv, cwd=folder, env=dict(environment), start_new_session=True)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)

    # ------------------------------------------------------------------ speaking

    def call(self, method: str, params: dict[str, Any], answered: Answered) -> int:
        """Ask; ``answered(result, error)`` runs once, in its place among the lines. Returns the request's number."""
        self._number += 1
        if not self.alive:
            asyncio.get_running_loop().call_soon(answered, None, NoAnswer("the process has ended"))
            return self._number
        self._pending[self._number] = answered
        self._write({**self._head, "id": self._number, "method": method, "params": params})
        return self._number

    async def request(
        self, method: str, params: dict[str, Any], limit_s: float, taken: Callable[[Any], Any] | None = None
    ) -> Any:
        """The result. Raises `Refused` or `NoAnswer`; an answer that comes after the limit is dropped.

        ``taken`` runs in the answer's place among the lines; what it makes of the result is returned, or its `Refused`
        raised.
        """
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def answered(result: Any, error: Exception | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
                return
            try:
                future.set_result(result if taken is None else taken(result))
            except Refused as refused:
                future.set_exception(refused)

        number = self.call(method, params, answered)
        try:
            async with asyncio.timeout(limit_s):
                return await future
        except TimeoutError:
            raise NoAnswer(f"no answer to {method} within {limit_s:g} s") from None
        finally:
            self._pending.pop(number, None)

    def notify(self, method: str, params: dict[str, Any]) -> None:
        self._write({**self._head, "method": method, "params": params})

    def answer(self, request: object, result: object) -> None:
        self._write({**self._head, "id": request, "result": result})

    def refuse(self, request: object, code: int, message: str) -> None:
        self._write({**self._head, "id": request, "error": {"code": code, "message": message}})

    def _write(self, record: dict[str, Any]) -> None:
        pipe = self._pipe(_STDIN)
        if pipe is not None and self.alive:
            cast(asyncio.WriteTransport, pipe).write(_encode(record) + b"\n")

    def _pipe(self, fd: int) -> asyncio.BaseTransport | None:
        pipe = self._transport.get_pipe_transport(fd) if self._transport is not None else None
        return None if pipe is None or pipe.is_closing() else pipe

    # ----------------------------------------------------------------- listening

    def hold_back(self, held: bool) -> None:
        """Stop reading its output (it will wait in its writes), or go on."""
        pipe = cast("asyncio.ReadTransport | None", self._pipe(_STDOUT))
        # Remembered here: the pipes of older Pythons (3.11.2 is one) cannot say whether they are read.
        if pipe is not None and held is not self._held_back:
            self._held_back = held
            (pipe.pause_reading if held else pipe.resume_reading)()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == _STDOUT:
            self._output(data)
        else:
            self._complaint(data)

    def _output(self, data: bytes) -> None:
        if self._reason:
            return
        head, *rest = data.split(b"\n")
        self._line += head
        for part in rest:
            line, self._line = self._line, bytearray(part)
            self._take(line)
        if len(self._line) > LINE_BYTES:
            self._line = bytearray()
            self._give_up(f"{self._name} sent a line of more than {LINE_BYTES >> 20} MiB")

    def _take(self, line: bytearray) -> None:
        if not line.strip() or self._reason:
            return
        record = _parsed(line)
        if not isinstance(record, dict):
            self._garbage += 1
            if self._garbage == 1:
                self._log.warning("agent.garbage", agent=self._name, bytes=len(line))
            return
        method, number = record.get("method"), record.get("id")
        if isinstance(method, str):
            params = record.get("params")
            params = params if isinstance(params, dict) else {}
            if "id" in record:
                self._peer.asked(number, method, params)
            else:
                self._peer.told(method, params)
        elif isinstance(number, int):
            self._settle(number, record)

    def _settle(self, number: int, record: dict[str, Any]) -> None:
        answered = self._pending.pop(number, None)
        if answered is None:
            return
        error = record.get("error")
        if error is None:
            answered(record.get("result"), None)
            return
        error = error if isinstance(error, dict) else {"message": str(error)}
        code = error.get("code")
        message = error.get("message")
        answered(
            None,
            Refused(code if isinstance(code, int) else 0, str(message or "an error without a text"), error.get("data")),
        )

    def _complaint(self, data: bytes) -> None:
        *lines, rest = (self._stderr_rest + data).split(b"\n")
        self._stderr_rest = rest[-STDERR_CHARACTERS:]
        for line in lines[-STDERR_LINES:]:
            self._stderr.append(_COLOURS.sub(b"", line)[:STDERR_CHARACTERS].decode("utf-8", "replace").strip())

    # -------------------------------------------------------------------- ending

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == _STDOUT and self._exited.is_set():
            self._finish()

    def process_exited(self) -> None:
        self._exited.set()
        self.hold_back(False)
        if self._pipe(_STDOUT) is None:
            self._finish()
        else:
            asyncio.get_running_loop().call_later(DRAIN_S, self._finish)

    def _give_up(self, reason: str) -> None:
        """The process broke the rules: nothing of it is read any more, and it is ended."""
        self._reason = reason
        self._fail_pending()
        self._peer.gone(reason)
        if self._transport is not None:
            with contextlib.suppress(ProcessLookupError):
                self._transport.terminate()
            asyncio.get_running_loop().call_later(EXIT_S, self._kill)

    def _finish(self) -> None:
        if self.ended:
            return
        self.ended = True
        if self._stderr_rest:
            self._complaint(b"\n")
        self._fail_pending()
        if not self._reason:
            self._peer.gone("")
        if self._transport is not None:
            self._transport.close()

    def _fail_pending(self) -> None:
        pending, self._pending = self._pending, {}
        for answered in pending.values():
            answered(None, NoAnswer("the process has ended"))

    def _kill(self) -> None:
        if self._transport is not None and not self._exited.is_set():
            with contextlib.suppress(ProcessLookupError):
                self._transport.kill()

    async def stop(self, *, patience_s: float = EXIT_S) -> None:
        """End the process: close its input, wait ``patience_s``, SIGTERM, once more, SIGKILL. Safe to repeat.

        What stands before an agent to clean up after it gives it `EXIT_S` at the first SIGTERM, nothing at a second.
        """
        if self._transport is None:
            return
        pipe = self._pipe(_STDIN)
        if pipe is not None:
            pipe.close()
        self.hold_back(False)
        terminate, kill = self._transport.terminate, self._transport.kill
        gone = await self._has_exited(patience_s)
        for step, limit_s in ((terminate, EXIT_S + CLEAN_UP_S), (terminate, CLEAN_UP_S), (kill, CLEAN_UP_S)):
            if gone:
                break
            with contextlib.suppress(ProcessLookupError):
                step()
            gone = await self._has_exited(limit_s)
        self._finish()

    async def _has_exited(self, limit_s: float) -> bool:
        # Process.wait() would also wait for the pipes, which any process that it left behind may hold open.
        try:
            async with asyncio.timeout(limit_s):
                await self._exited.wait()
        except TimeoutError:
            return False
        return True


def _parsed(line: bytearray) -> Any:
    with contextlib.suppress(msgspec.MsgspecError, RecursionError):
        return _decode(line)
    try:
        # Half of a surrogate pair, which programs in other languages cut and send, is refused above.
        return _decode(json.dumps(json.loads(line), ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return None
