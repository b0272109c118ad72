"""``GET /api/sessions/{id}/export``: a session as lines of JSON, read page by page while the client takes them."""

import asyncio
import hashlib
import re
from collections.abc import Callable

from falcon.asgi import Request, Response

from termal.gateway.context import Gateway
from termal.gateway.door import Visit
from termal.gateway.lines import NDJSON
from termal.gateway.route import visit_of
from termal.model.search import ExportFooter
from termal.wire.codec import encode_json
from termal.wire.errors import TooMany
from termal.wire.transcript_operations import EXPORT_READ, ExportPage, ReadExport

UNDER_WAY = 2
Ended = Callable[[], None]
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


class Export:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._under_way = 0

    async def on_get(self, req: Request, resp: Response, session_id: str) -> None:
        if self._under_way >= UNDER_WAY:
            raise TooMany(f"{UNDER_WAY} exports are under way; try again in a moment", reason="exports")
        visit = visit_of(req)
        self._under_way += 1
        body = ExportBody(self._gateway, session_id, visit, self._ended)
        try:
            await body.open()
        except BaseException:
            await body.close()
            raise
        visit.streamed = True
        resp.content_type = NDJSON
        resp.set_header("Content-Disposition", f'attachment; filename="{_UNSAFE.sub("_", session_id)}.ndjson"')
        resp.stream = body

    def _ended(self) -> None:
        self._under_way -= 1


class ExportBody:
    """The body of the reply. It breaks off without its last line when the transcript cannot be read to its end."""

    def __init__(self, gateway: Gateway, session_id: str, visit: Visit, ended: Ended) -> None:
        self._gateway = gateway
        self._session_id = session_id
        self._visit = visit
        self._ended: Ended | None = ended
        self._digest = hashlib.sha256()
        self._page: ExportPage
        self._header = b""
        self._done = False
        self._gone = False
        self._watch: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """The first page: what fails here is still an error with a status. Raises `TermalError`."""
        self._page = await self._ask(ReadExport(session_id=self._session_id))
        self._header = self._page.header + b"\n"

    def __aiter__(self) -> "ExportBody":
        # Only the receiving side tells that a client has left: nothing more is read for it then.
        self._watch = asyncio.create_task(self._until_gone())
        return self

    async def __anext__(self) -> bytes:
        if self._done or self._gone:
            raise StopAsyncIteration
        if self._header:
            chunk, self._header = self._header + self._page.lines, b""
        elif self._page.next < self._page.count:
            page = self._page
            asked = ReadExport(session_id=self._session_id, position=page.next, count=page.count, after=page.last)
            self._page = await self._ask(asked)
            chunk = self._page.lines
        else:
            self._done = True
            return encode_json(ExportFooter(count=self._page.count, sha256=self._digest.hexdigest())) + b"\n"
        self._digest.update(chunk)
        return chunk

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._leave()

    def __del__(self) -> None:
        # The framework closes a body that it has begun to send; a client may be gone before that.
        self._leave()

    async def _until_gone(self) -> None:
        await self._visit.disconnected()
        self._gone = True

    async def _ask(self, request: ReadExport) -> ExportPage:
        return await self._gateway.ask("state", EXPORT_READ, request, trace=self._visit.request_id)

    def _leave(self) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            ended()
