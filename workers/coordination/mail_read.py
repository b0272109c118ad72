"""The handlers that read mail: lists, pages, single messages, what was sent. None of them changes anything."""

from collections.abc import Callable
from typing import Any

from termal.bus.server import Request
from termal.store.connection import Cursorlike
from termal.store.reader import Reader
from termal.wire.mail_operations import AboutSession, ListSent, ReadMailbox, ReadMessage
from termal.wire.turns import JsonReply
from workers.coordination.mail_desk import Desk, limit_of
from workers.coordination.mail_lists import Lists
from workers.coordination.mail_reads import message, page
from workers.coordination.mail_refusal import storage_error
from workers.coordination.mail_sent import check_sent, sent_page


class Reading:
    def __init__(self, *, desk: Desk, reader: Callable[[], Reader], lists: Lists) -> None:
        self._desk = desk
        self._reader = reader
        self._lists = lists

    def list(self, request: Request, body: AboutSession) -> None:
        limit_s = limit_of(request)

        def admitted() -> None:
            self._lists.list(body.session_id, limit_s, lambda json, error: _answer(request, json, error))

        self._desk.admit(request, body.session_id, limit_s, admitted)

    def page(self, request: Request, body: ReadMailbox) -> None:
        self._read(request, body, page)

    def message(self, request: Request, body: ReadMessage) -> None:
        self._read(request, body, message)

    def sent(self, request: Request, body: ListSent) -> None:
        check_sent(body)
        self._read(request, body, sent_page)

    def _read(self, request: Request, body: Any, read: Callable[[Cursorlike, Any], bytes]) -> None:
        limit_s = limit_of(request)

        def admitted() -> None:
            self._reader().submit(
                lambda connection: read(connection, body),
                lambda json, error: _answer(request, json, error),
                deadline_s=limit_s,
            )

        self._desk.admit(request, body.session_id, limit_s, admitted)


def _answer(request: Request, json: bytes | None, error: Exception | None) -> None:
    if json is None:
        request.refuse(storage_error(error))
    else:
        request.reply(JsonReply(json))
