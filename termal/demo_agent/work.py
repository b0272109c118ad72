"""What each directive does: speaks, asks, runs, writes, calls, and misbehaves when it is told to."""

import asyncio
import contextlib
import os
import signal
import sys
import time
import uuid
from pathlib import Path
from typing import Any, NoReturn

from acp import Client, RequestError, update_agent_message_text, update_agent_thought_text
from acp.schema import AllowedOutcome

from termal.demo_agent import directives as d
from termal.demo_agent.calls import Command, CommandCall, Refused, change_call, open_options
from termal.demo_agent.tools import Result, Tools

CHUNK_CHARACTERS = 12
FLOOD_CHUNK_BYTES = 16 << 10
_FLOOD_LINE_BYTES = 16
_POLL_S = 0.02
_ALLOW_ALWAYS = "allow-always"
_ALLOW = "allow"


class Cancelled(Exception):
    """The client withdrew: the turn ends as cancelled."""


class Output:
    """The pipe to the client, for what no protocol library would send."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    def raw(self, line: bytes) -> None:
        self._writer.write(line + b"\n")

    async def flush(self) -> None:
        """Return when the operating system has all of it."""
        transport = self._writer.transport
        transport.set_write_buffer_limits(high=0)
        await self._writer.drain()


class Work:
    """One conversation's directives, one after the other."""

    def __init__(self, client: Client, conversation: str, folder: str, tools: Tools | None, output: Output) -> None:
        self._client = client
        self._conversation = conversation
        self._folder = Path(folder)
        self._tools = tools
        self._output = output
        self._last: Any = None
        self._allowed: set[str] = set()
        self._said: list[str] = []
        self._spoke_last = False

    def begin(self) -> None:
        self._said = []
        self._spoke_last = False

    def said(self) -> str:
        """The text of the prompt under way or of the last one."""
        return "".join(self._said)

    async def do(self, directive: d.Directive) -> None:
        """Raises `RequestError` to fail the turn and `Cancelled` to end it."""
        spoke, self._spoke_last = self._spoke_last, False
        match directive:
            case d.Say(text):
                await self._say(f"\n{text}" if spoke else text)
            case d.Think(text):
                await self._client.session_update(self._conversation, update_agent_thought_text(text))
            case d.Wait(seconds):
                self._spoke_last = spoke
                await asyncio.sleep(seconds)
            case d.Run(command):
                await self._run(command)
            case d.Edit(path, text):
                await self._edit(path, text)
            case d.Tool(name, arguments):
                await self._tool(name, arguments)
            case _:
                await self._misbehave(directive)

    async def _misbehave(self, directive: d.Directive) -> None:
        match directive:
            case d.Flood(size_bytes):
                await self._flood(size_bytes)
            case d.Garbage():
                self._output.raw(b"this line is no JSON")
            case d.Complain(text):
                sys.stderr.write(text + "\n")
                sys.stderr.flush()
            case d.Fail(text):
                raise RequestError(-32603, text)
            case d.Exit(code):
                await self._output.flush()
                os._exit(code)
            case d.Hang():
                await self._output.flush()
                _hang()

    async def _say(self, text: str) -> None:
        for start in range(0, len(text), CHUNK_CHARACTERS):
            await self._speak(text[start : start + CHUNK_CHARACTERS])
        self._spoke_last = True

    async def _flood(self, size_bytes: int) -> None:
        for start in range(0, size_bytes, FLOOD_CHUNK_BYTES):
            end = min(start + FLOOD_CHUNK_BYTES, size_bytes)
            # Each line says its own place, so that a reader can tell whether anything was lost or moved.
            lines = (f"{place:0{_FLOOD_LINE_BYTES - 1}d}\n" for place in range(start, end, _FLOOD_LINE_BYTES))
            await self._speak("".join(lines)[: end - start], kept=False)
        self._spoke_last = True

    async def _speak(self, text: str, *, kept: bool = True) -> None:
        if kept:
            self._said.append(text)
        await self._client.session_update(self._conversation, update_agent_message_text(text))

    async def _tool(self, name: str, arguments: dict[str, Any]) -> None:
        if self._tools is None:
            raise RequestError(-32603, "this conversation was given no MCP server of TermAl")
        try:
            arguments = d.with_last(arguments, self._last)
        except KeyError as error:
            raise RequestError(-32603, str(error.args[0])) from error
        result: Result = await self._tools.call(name, arguments)
        self._last = result.value
        await self._say(f"tool {name} failed: {result.text}" if result.failed else result.text)

    async def _run(self, command: str) -> None:
        number = f"run-{uuid.uuid4().hex[:12]}"
        call = CommandCall(number, command)
        await self._client.session_update(self._conversation, call.started())
        if not await self._permitted("run", call.asked()):
            await self._client.session_update(self._conversation, call.refused())
            return
        running = Command(command, self._folder)
        try:
            shown = ""
            while running.status is None:
                await asyncio.sleep(_POLL_S)
                if running.output() != shown:
                    shown = running.output()
                    await self._client.session_update(self._conversation, call.progress(shown))
            await self._client.session_update(self._conversation, call.ended(running.output(), running.status))
        finally:
            running.end()
            running.close()

    async def _edit(self, path: str, text: str) -> None:
        number = f"edit-{uuid.uuid4().hex[:12]}"
        try:
            call = change_call(number, self._folder, path, text)
        except Refused as error:
            await self._say(str(error))
            return
        await self._client.session_update(self._conversation, call.started())
        if not await self._permitted("edit", call.asked()):
            await self._client.session_update(self._conversation, call.refused())
            return
        call.write()
        await self._client.session_update(self._conversation, call.ended())

    async def _permitted(self, kind: str, call: Any) -> bool:
        if kind in self._allowed:
            return True
        answer = await self._client.request_permission(
            session_id=self._conversation, tool_call=call, options=open_options()
        )
        if not isinstance(answer.outcome, AllowedOutcome):
            raise Cancelled
        if answer.outcome.option_id == _ALLOW_ALWAYS:
            self._allowed.add(kind)
        return answer.outcome.option_id in (_ALLOW, _ALLOW_ALWAYS)


def _hang() -> NoReturn:
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(3600)
