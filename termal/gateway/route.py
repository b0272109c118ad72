"""What every resource needs of its request: the visit it belongs to, decoded path segments, the idempotency key."""

import re
from urllib.parse import unquote_to_bytes

from falcon.asgi import Request
from falcon.routing.converters import BaseConverter

from termal.gateway.door import VISIT, Visit
from termal.wire.errors import InvalidRequest

KEY_CHARACTERS = 200
_KEY = re.compile(r"[\x20-\x7e]{1,200}")


class Segment(BaseConverter):
    """One segment of a path, percent-decoded once. An empty one, or one that is no UTF-8, matches no route."""

    def convert(self, value: str) -> str | None:
        if "%" not in value and value.isascii():
            return value or None
        try:
            return unquote_to_bytes(value).decode() or None
        except UnicodeDecodeError:
            return None


def visit_of(req: Request) -> Visit:
    visit: Visit = req.scope[VISIT]
    return visit


def trace_of(req: Request) -> str:
    """The request id, under which every worker logs what it does for this request."""
    return visit_of(req).request_id


def key_of(req: Request) -> str:
    """The client's ``Idempotency-Key``, else the request id. Raises `InvalidRequest` for a key of another form."""
    given = req.get_header("Idempotency-Key")
    if given is None:
        return trace_of(req)
    if _KEY.fullmatch(given) is None:
        raise InvalidRequest(
            f"Idempotency-Key has 1 to {KEY_CHARACTERS} printable ASCII characters", reason="idempotencyKey"
        )
    return given
