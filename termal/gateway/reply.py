"""Replies: JSON bytes as they came from a worker, compressed where the client accepts it and it pays."""

import asyncio
import re
import zlib

from falcon.asgi import Request, Response

from termal.gateway.refusal import JSON

GZIP_BYTES = 1024
"""Below it the header costs more than the compression saves."""
THREAD_BYTES = 64 << 10
"""Above it compressing would hold up the event loop for more than half a millisecond."""
_LEVEL = 4
_GZIP_FRAME = 31
_REFUSED = re.compile(r"\bgzip\s*;\s*q\s*=\s*0(?:\.0*)?\s*(?:,|$)")


async def send_json(req: Request, resp: Response, body: bytes, status: int = 200) -> None:
    """Answer with ``body``, final JSON bytes."""
    resp.status_code = status
    resp.content_type = JSON
    if len(body) > GZIP_BYTES:
        resp.set_header("Vary", "Accept-Encoding")
        if accepts_gzip(req.get_header("Accept-Encoding")):
            resp.set_header("Content-Encoding", "gzip")
            body = await _squeezed(body)
    resp.data = body


def accepts_gzip(accepted: str | None) -> bool:
    return accepted is not None and "gzip" in accepted and _REFUSED.search(accepted) is None


async def _squeezed(body: bytes) -> bytes:
    if len(body) > THREAD_BYTES:
        return await asyncio.to_thread(_gzip, body)
    return _gzip(body)


def _gzip(body: bytes) -> bytes:
    return zlib.compress(body, _LEVEL, _GZIP_FRAME)
