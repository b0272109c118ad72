"""A small HTTP server that answers as a test says and keeps what it was asked."""

import contextlib
import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple
from urllib.parse import urlsplit


class Asked(NamedTuple):
    """``path`` as it was sent, encoded and with its query. Names of ``headers`` are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body) if self.body else None

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Reply(NamedTuple):
    """``cut``: the connection is closed in the middle of the body. ``drop``: closed without any answer. ``hold``: waits
    for the event first."""

    status: int = 200
    body: Any = None
    cut: bool = False
    drop: bool = False
    hold: threading.Event | None = None

    @property
    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


Answering = Callable[[Asked], Reply]


def failure(status: int, code: str, error: str = "no", **more: Any) -> Reply:
    return Reply(status, {"error": error, "code": code, "requestId": "r-1", **more})


class ScriptedApi:
    """Answers each route with the replies that were put for it, in order, the last one again and again."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self._replies: dict[str, list[Reply | Answering]] = {}
        self._lock = threading.Lock()
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def _answer(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                headers = {name.lower(): value for name, value in self.headers.items()}
                asked = Asked(self.command, self.path, headers, self.rfile.read(length))
                reply = api._reply(asked)
                if reply.hold is not None:
                    reply.hold.wait(30)
                if reply.drop:
                    self.close_connection = True
                    return
                content = reply.content
                self.send_response(reply.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content) + (10 if reply.cut else 0)))
                # A client that gave up on its request is gone by now.
                with contextlib.suppress(ConnectionError):
                    self.end_headers()
                    self.wfile.write(content)
                self.close_connection = self.close_connection or reply.cut

            do_GET = do_POST = do_PATCH = do_DELETE = _answer

            def log_message(self, *_said: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def on(self, route: str, *replies: Reply | Answering | Mapping[str, Any] | list[Any]) -> None:
        """``route``: method and path without query. A mapping or a list is the body of a 200."""
        with self._lock:
            self._replies[route] = [
                reply if isinstance(reply, Reply) or callable(reply) else Reply(200, reply) for reply in replies
            ]

    def count(self, route: str) -> int:
        return len(self.of(route))

    def of(self, route: str) -> list[Asked]:
        """The requests of one route, in order."""
        with self._lock:
            return [asked for asked in self.asked if _route(asked) == route]

    def _reply(self, asked: Asked) -> Reply:
        with self._lock:
            self.asked.append(asked)
            replies = self._replies.get(_route(asked))
            if not replies:
                return failure(404, "not_found", f"nothing is scripted for {asked}", reason="unknownPath")
            reply = replies.pop(0) if len(replies) > 1 else replies[0]
        return reply if isinstance(reply, Reply) else reply(asked)

    def __enter__(self) -> "ScriptedApi":
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _route(asked: Asked) -> str:
    return f"{asked.method} {urlsplit(asked.path).path}"
