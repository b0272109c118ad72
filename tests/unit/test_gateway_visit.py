"""One request through the outermost layer, without a server: how its body comes, and what is left of it afterwards."""

import asyncio
import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from termal.gateway.access import Access
from termal.gateway.door import VISIT, Door, Visit
from termal.gateway.guards import Guards
from termal.gateway.meters import Meters
from termal.worker.stats import Stats
from tests.support.bus import Lines

Message = dict[str, Any]


class Nobody:
    async def ask(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("nobody is to be asked")


def visited(pieces: list[bytes], see: Callable[[Visit], None], **headers: str) -> tuple[list[Message], Message]:
    """What was sent in reply to a request with the body of ``pieces``, and its scope; ``see`` gets its visit."""
    messages: Iterator[Message] = iter(
        {"type": "http.request", "body": piece, "more_body": at < len(pieces)} for at, piece in enumerate(pieces, 1)
    )
    sent: list[Message] = []

    async def inner(scope: Message, receive: Any, send: Any) -> None:
        while (await receive())["more_body"]:
            pass
        see(scope[VISIT])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    async def receive() -> Message:
        return next(messages)

    async def send(message: Message) -> None:
        sent.append(message)

    fields = {"host": "127.0.0.1", "content-type": "application/json", **headers}
    scope: Message = {
        "type": "http",
        "method": "POST",
        "path": "/x",
        "raw_path": b"/x",
        "query_string": b"",
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in fields.items()],
    }
    door = Door(inner, Guards("127.0.0.1", 1), Meters(), Stats(), Lines(), access=Access(Nobody(), None))
    asyncio.run(door(scope, receive, send))
    return sent, scope


@pytest.mark.parametrize(
    ("pieces", "whole"),
    [
        pytest.param([b"abc"], b"abc", id="at once"),
        pytest.param([b"", b"abc"], b"abc", id="behind an empty piece"),
        pytest.param([b"ab", b"c"], None, id="in two pieces"),
        pytest.param([b"abc", b""], None, id="with an empty end"),
    ],
)
def test_a_body_that_came_at_once_is_known_without_being_read(pieces: list[bytes], whole: bytes | None) -> None:
    seen: list[bytes | None] = []
    visited(pieces, lambda visit: seen.append(visit.whole_body), transfer_encoding="chunked")
    assert seen == [whole]


def test_a_request_that_is_over_leaves_no_garbage_that_must_be_looked_for() -> None:
    seen: list[str] = []
    gc.collect()
    gc.disable()
    try:
        _, scope = visited([b"abc"], lambda visit: seen.append(visit.request_id), content_length="3")
        assert len(seen) == 1
        assert VISIT not in scope
        assert not [found for found in gc.get_objects() if isinstance(found, Visit) and found.request_id == seen[0]]
    finally:
        gc.enable()
