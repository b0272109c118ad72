"""What a request's head alone decides: host, origin, method, announced size, type. Pure: bytes in, an error out."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from termal.gateway.refusal import BodyTooLarge, MethodNotAllowed, NotJson
from termal.wire.errors import Forbidden, InvalidRequest

BODY_BYTES = 16 << 20
"""One image of 10 MiB is 13.4 MiB in base64; a request has room for it and its prompt."""
METHODS = "GET, POST, PUT, PATCH, DELETE"
HEADERS = "accept, content-type"
TOKEN_HEADERS = f"{HEADERS}, authorization"
IMPORT = "/api/sessions/import"
_JSON = b"application/json"
_LINES = b"application/x-ndjson"
_KNOWN = frozenset((*METHODS.split(", "), "HEAD", "OPTIONS"))
_BODILESS = frozenset(("GET", "HEAD", "OPTIONS"))
_LOOPBACK = re.compile(rb"(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?")


class Head(NamedTuple):
    """The fields of a request's head that the guards look at. ``length`` is what was announced, None for chunked."""

    method: str
    host: bytes | None
    origin: bytes | None
    content_type: bytes
    content_encoding: bytes
    length: int | None
    waits: bool
    asks_method: bool
    authorization: bytes | None = None
    lines: bool = False
    """The body is lines of JSON without an end in sight: each line has its limit, the whole has none."""

    @property
    def has_body(self) -> bool:
        return self.length is None or self.length > 0

    @property
    def preflight(self) -> bool:
        return self.method == "OPTIONS" and self.origin is not None and self.asks_method


def read_head(method: str, headers: Iterable[tuple[bytes, bytes]], *, lines: bool = False) -> Head:
    """``headers`` with lower-case names. The server in front has refused contradicting lengths already."""
    found = dict(headers)
    length: int | None = 0
    if b"transfer-encoding" in found:
        length = None
    elif b"content-length" in found:
        digits = found[b"content-length"]
        length = int(digits) if digits.isdigit() and len(digits) < 19 else BODY_BYTES + 1
    return Head(
        method,
        found.get(b"host"),
        found.get(b"origin"),
        found.get(b"content-type", b""),
        found.get(b"content-encoding", b"identity"),
        length,
        found.get(b"expect", b"").lower() == b"100-continue",
        b"access-control-request-method" in found,
        found.get(b"authorization"),
        lines,
    )


class Guards:
    """The rules of one address. ``host`` and ``port`` are what the daemon is bound to."""

    def __init__(self, host: str, port: int) -> None:
        shown = f"[{host}]" if ":" in host else host
        self._bound = f"{shown}:{port}".lower().encode()
        names = {shown.lower(), "127.0.0.1", "localhost"}
        self._origins = frozenset(f"http://{name}:{port}".encode() for name in names)

    def admit(self, head: Head) -> None:
        """Raises the error that the head deserves. A page of another site gets past neither of the first two."""
        self._own_host(head.host)
        if head.origin is not None and head.origin.lower() not in self._origins:
            raise Forbidden("requests of pages from other origins are refused", reason="foreignOrigin")
        if head.method not in _KNOWN:
            raise MethodNotAllowed("this method is not known here", METHODS)
        if head.preflight or not head.has_body:
            return
        if head.length is not None and head.length > BODY_BYTES and not head.lines:
            raise too_large()
        if head.method not in _BODILESS:
            self._json(head, _LINES if head.lines else _JSON)

    def _own_host(self, host: bytes | None) -> None:
        # A page of a rebound name sends that name here; a browser never leaves the header out.
        named = (host or b"").lower()
        if named != self._bound and _LOOPBACK.fullmatch(named) is None:
            raise Forbidden("this host name is not one of this daemon", reason="foreignHost")

    @staticmethod
    def _json(head: Head, kind: bytes) -> None:
        if head.content_type.split(b";", 1)[0].strip().lower() != kind:
            raise NotJson(f"a body must be sent as {kind.decode()}", reason="contentType")
        if head.content_encoding.lower() != b"identity":
            raise NotJson("a body must be sent without a content encoding", reason="contentEncoding")


def readable_query(query: bytes) -> None:
    """Raises `InvalidRequest` for a query string that is no UTF-8."""
    try:
        query.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequest("the query is not UTF-8", reason="query") from error


def too_large() -> BodyTooLarge:
    return BodyTooLarge(f"a request body has at most {BODY_BYTES >> 20} MiB", reason="bodyLimit")
