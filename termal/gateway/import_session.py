"""``POST /api/sessions/import``: the lines of an export on their way to state; shown there once the last one fits."""

import asyncio
import contextlib
import hashlib
import time
from typing import Any

import msgspec
from falcon.asgi import Request, Response

from termal.gateway.bodies import BODY_S
from termal.gateway.context import Gateway
from termal.gateway.lines import Lines
from termal.gateway.pace import Pace
from termal.gateway.reply import send_json
from termal.gateway.route import key_of, trace_of
from termal.model.search import EXPORT_FORMAT, EXPORT_VERSION, ExportFooter
from termal.wire.errors import Busy, Conflict, InvalidRequest, TermalError, Unprocessable
from termal.wire.transcript_operations import (
    IMPORT_ABORT,
    IMPORT_BEGIN,
    IMPORT_FINISH,
    IMPORT_MESSAGES,
    AbortImport,
    BeginImport,
    FinishImport,
    ImportMessages,
)

SLICE_LINES = 64
SLICE_BYTES = 64 << 10
"""PERF: every commit beside an import waits for a slice of it. With 256 KiB mail took twice as long; an import of a
gigabyte was a sixth faster."""


class _Header(msgspec.Struct, frozen=True):
    format: str
    version: int
    session: msgspec.Raw


_decode_header = msgspec.json.Decoder(_Header).decode
_decode_footer = msgspec.json.Decoder(ExportFooter).decode


class Import:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def on_post(self, req: Request, resp: Response) -> None:
        transfer = _Transfer(self._gateway, f"import:{key_of(req)}", trace_of(req))
        try:
            created = await transfer.run(req)
        except BaseException:
            await transfer.abort()
            raise
        await send_json(req, resp, created, 201)


class _Transfer:
    """One import. A line is sent on when the next one is there: the last one is no message but the footer."""

    def __init__(self, gateway: Gateway, key: str, trace: str) -> None:
        self._gateway = gateway
        self._key = key
        self._trace = trace
        self._import_id = ""
        self._digest = hashlib.sha256()
        self._header_seen = False
        self._last: bytes | None = None
        self._slice: list[bytes] = []
        self._slice_bytes = 0
        self._sent = 0
        self._pace = Pace(gateway.meters)
        self._created: bytes | None = None

    async def run(self, req: Request) -> bytes:
        """The reply of the finished import. Raises `TermalError`, with nothing to be seen of the import."""
        lines = Lines()
        chunks = aiter(req.stream)
        while (chunk := await _next(chunks)) is not None:
            for line in lines.feed(chunk):
                await self._line(line)
                if self._created is not None:
                    return self._created
        if not lines.ended:
            raise Unprocessable(f"line {lines.number + 1} is cut off", reason="importIncomplete")
        await self._finish()
        assert self._created is not None
        return self._created

    async def abort(self) -> None:
        """State forgets it by itself when this does not reach it."""
        if self._import_id and self._created is None:
            with contextlib.suppress(TermalError):
                await self._ask(IMPORT_ABORT, AbortImport(self._import_id))

    async def _line(self, line: bytes) -> None:
        if not self._header_seen:
            self._header_seen = True
            self._digest.update(line + b"\n")
            await self._begin(line)
            return
        previous, self._last = self._last, line
        if previous is not None:
            self._digest.update(previous + b"\n")
            self._slice.append(previous)
            self._slice_bytes += len(previous)
            if len(self._slice) >= SLICE_LINES or self._slice_bytes >= SLICE_BYTES:
                await self._send()

    async def _begin(self, line: bytes) -> None:
        try:
            header = _decode_header(line)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise Unprocessable(f"line 1 is no header of an export: {error}", reason="importHeader") from error
        if header.format != EXPORT_FORMAT or header.version != EXPORT_VERSION:
            raise Unprocessable(
                f"line 1 names the format {header.format[:40]!r}, version {header.version}:"
                f" {EXPORT_FORMAT!r}, version {EXPORT_VERSION}, can be imported",
                reason="importFormat",
            )
        begun = await self._ask(IMPORT_BEGIN, BeginImport(self._key, bytes(header.session)))
        self._import_id, self._created = begun.import_id, begun.created

    async def _send(self) -> None:
        lines, self._slice, self._slice_bytes = self._slice, [], 0
        if lines:
            started_s = time.monotonic()
            await self._ask(IMPORT_MESSAGES, ImportMessages(self._import_id, self._sent, lines))
            self._sent += len(lines)
            # Also for nothing: whoever came meanwhile is looked at before the next slice.
            await asyncio.sleep(self._pace.pause_s(time.monotonic() - started_s))

    async def _finish(self) -> None:
        if self._last is None:
            raise Unprocessable("the last line of the export is missing", reason="importIncomplete")
        number = self._sent + len(self._slice)
        try:
            footer = _decode_footer(self._last)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise Unprocessable(
                f"line {number + 2} is not the last line of an export: it is incomplete", reason="importIncomplete"
            ) from error
        if footer.count != number:
            raise Unprocessable(f"there are {number} messages, not {footer.count}", reason="importDamaged")
        if footer.sha256 != self._digest.hexdigest():
            raise Unprocessable("the checksum is that of another text: it was changed", reason="importDamaged")
        await self._send()
        reply = await self._ask(IMPORT_FINISH, FinishImport(self._import_id, self._key, number))
        self._created = reply.json

    async def _ask(self, op: Any, request: Any) -> Any:
        try:
            return await self._gateway.ask("state", op, request, trace=self._trace)
        except Conflict as error:
            if error.reason != "importGone":
                raise
            # State was started anew and has removed it: nothing was ever shown of it.
            raise Busy(
                "the import was interrupted and nothing of it is kept; send it again", reason=error.reason
            ) from error


async def _next(chunks: Any) -> bytes | None:
    """The next piece of the body, None at its end."""
    try:
        async with asyncio.timeout(BODY_S):
            chunk: bytes | None = await anext(chunks, None)
    except TimeoutError as error:
        raise InvalidRequest("the body did not come to its end in time", reason="incompleteBody") from error
    return chunk
