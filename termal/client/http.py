"""`Http`: one method per route of the daemon. Raises the daemon's own errors; repeats only what is safe to repeat."""

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from termal.client.errors import Unreachable, error_of
from termal.client.replies import Changed, Health, History, ProjectMade, State
from termal.client.stream import Event, parse_events
from termal.model.reply import CreateSessionResponse, SessionResponse
from termal.model.search import SearchResponse
from termal.model.status import DaemonStatus

T = TypeVar("T")

REPLY_S = 20.0
"""Longest wait for a reply: above the daemon's own deadline of the slowest route here (stop, 15 s)."""
SILENCE_S = 40.0
"""An event stream says something at least every 15 s; after this long it is taken for dead."""
REPEAT_S = 5.0
"""A request that is safe to repeat is sent again for this long after its connection was refused or dropped."""
_REPEAT_STEP_S = 0.1


class Http:
    """The API at ``base_url``. Use it as a context manager, or call `close`; one thread at a time.

    Every method raises a `termal.wire.errors.TermalError` for an error that the daemon answered, and `Unreachable` when
    none answered. ``repeat_s`` 0 sends every request once.
    """

    def __init__(
        self,
        base_url: str,
        *,
        reply_s: float = REPLY_S,
        repeat_s: float = REPEAT_S,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self._repeat_s = repeat_s
        # trust_env=False: a proxy from the environment must never see what goes to this machine's own daemon.
        self._http = httpx.Client(base_url=self.base_url, timeout=reply_s, transport=transport, trust_env=False)

    def __enter__(self) -> "Http":
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def health(self) -> Health:
        """A daemon that is down says so in a reply of its own (status 503): that is an answer, no error."""
        return self._call("GET", "/api/health", Health, accept=(200, 503))

    def status(self) -> DaemonStatus:
        return self._call("GET", "/api/status", DaemonStatus)

    def state(self) -> State:
        return self._call("GET", "/api/state", State)

    def create_session(
        self,
        *,
        agent: str | None = None,
        name: str | None = None,
        workdir: str | None = None,
        model: str | None = None,
        project_id: str | None = None,
        settings: dict[str, str] | None = None,
    ) -> CreateSessionResponse:
        body = {"agent": agent, "name": name, "workdir": workdir, "model": model, "projectId": project_id}
        return self._write("/api/sessions", CreateSessionResponse, {**body, **(settings or {})}, key=str(uuid.uuid4()))

    def read_session(self, session_id: str, tail: int = 20) -> SessionResponse:
        """The session with its newest ``tail`` (1 to 64) messages."""
        return self._call("GET", _path(session_id), SessionResponse, params={"tail": tail})

    def history(self, session_id: str, *, after: str | None = None, before: str | None = None) -> History:
        """A page of up to 64 messages next to a message id; the newest ones without any."""
        cursor = {"after": after, "before": before}
        params = {"limit": 64, **{key: value for key, value in cursor.items() if value is not None}}
        return self._call("GET", _path(session_id, "history"), History, params=params)

    def send_prompt(
        self,
        session_id: str,
        text: str,
        *,
        expanded_text: str | None = None,
        source_session_id: str | None = None,
        key: str | None = None,
    ) -> Changed:
        """Accepted and durable when this returns: running, or queued behind what runs. A second call with the same
        ``key`` answers the same and sends nothing again."""
        body = {"text": text, "expandedText": expanded_text, "sourceSessionId": source_session_id}
        return self._write(_path(session_id, "messages"), Changed, body, key=key or str(uuid.uuid4()))

    def answer_approval(self, session_id: str, message_id: str, decision: str) -> Changed:
        """``decision``: ``accepted``, ``acceptedForSession`` or ``rejected``."""
        return self._write(_path(session_id, "approvals", message_id), Changed, {"decision": decision})

    def cancel_prompt(self, session_id: str, prompt_id: str) -> Changed:
        return self._write(_path(session_id, "queued-prompts", prompt_id, "cancel"), Changed)

    def stop(self, session_id: str) -> Changed:
        return self._write(_path(session_id, "stop"), Changed)

    def change_settings(
        self,
        session_id: str,
        *,
        name: str | None = None,
        model: str | None = None,
        settings: Mapping[str, str | bool] | None = None,
    ) -> Changed:
        """All of it or nothing; ``settings`` under their wire names."""
        return self._write(_path(session_id, "settings"), Changed, {"name": name, "model": model, **(settings or {})})

    def create_project(self, root_path: str, *, name: str | None = None) -> ProjectMade:
        """The same root again answers with the project that is there."""
        return self._write("/api/projects", ProjectMade, {"rootPath": root_path, "name": name})

    def delete_project(self, project_id: str) -> State:
        return self._call("DELETE", f"/api/projects/{quote(project_id, safe='')}", State, repeatable=False)

    def kill(self, session_id: str) -> State:
        return self._write(_path(session_id, "kill"), State)

    def search(
        self, query: str, *, session_id: str | None = None, limit: int = 20, cursor: str | None = None
    ) -> SearchResponse:
        """Messages with all words of ``query``, newest first; ``cursor`` is the ``next_cursor`` of the page before."""
        given = {"q": query, "sessionId": session_id, "limit": limit, "cursor": cursor}
        params = {key: value for key, value in given.items() if value is not None}
        return self._call("GET", "/api/search", SearchResponse, params=params)

    @contextmanager
    def export_session(self, session_id: str) -> Iterator[Iterator[bytes]]:
        """The bytes of an export as they come; whoever takes them checks that its last line is there."""
        try:
            with self._http.stream("GET", _path(session_id, "export")) as reply:
                if reply.status_code != 200:
                    reply.read()
                    raise error_of(reply.status_code, reply.content)
                yield reply.iter_bytes()
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    def import_session(self, chunks: Iterable[bytes], *, key: str | None = None) -> CreateSessionResponse:
        """A new session of the bytes of an export. They can be given once, so nothing is repeated here."""
        headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": key or str(uuid.uuid4())}
        path = "/api/sessions/import"
        return self._call("POST", path, CreateSessionResponse, repeatable=False, content=chunks, headers=headers)

    @contextmanager
    def events(self) -> Iterator[Iterator[Event]]:
        """A stream of events, a ``state`` first; it ends when the daemon stops. Raises `Unreachable` when it breaks."""
        timeout = httpx.Timeout(REPLY_S, read=SILENCE_S)
        try:
            with self._http.stream("GET", "/api/events", timeout=timeout) as reply:
                if reply.status_code != 200:
                    reply.read()
                    raise error_of(reply.status_code, reply.content)
                yield parse_events(reply.iter_raw())
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    def _write(self, path: str, reply: type[T], body: dict[str, Any] | None = None, *, key: str | None = None) -> T:
        """With a ``key`` the daemon knows a repeat when it sees one."""
        given = None if body is None else {name: value for name, value in body.items() if value is not None}
        headers = {"Idempotency-Key": key} if key else {}
        return self._call("POST", path, reply, repeatable=key is not None, json=given, headers=headers)

    def _call(
        self,
        method: str,
        path: str,
        reply: type[T],
        *,
        repeatable: bool = True,
        accept: tuple[int, ...] = (200, 201, 202),
        **request: Any,
    ) -> T:
        answer = self._send(method, path, repeatable, request)
        if answer.status_code not in accept:
            raise error_of(answer.status_code, answer.content)
        try:
            return msgspec.json.decode(answer.content, type=reply)
        except msgspec.MsgspecError as error:
            raise Unreachable(
                f"what answers at {self.base_url} is no TermAl daemon of this version: {error}"
            ) from error

    def _send(self, method: str, path: str, repeatable: bool, request: dict[str, Any]) -> httpx.Response:
        end = time.monotonic() + (self._repeat_s if repeatable else 0.0)
        while True:
            try:
                return self._http.request(method, path, **request)
            except httpx.TimeoutException as error:
                raise self._unreachable(error) from error
            except httpx.TransportError as error:
                if time.monotonic() >= end:
                    raise self._unreachable(error) from error
                time.sleep(_REPEAT_STEP_S)

    def _unreachable(self, error: httpx.TransportError) -> Unreachable:
        what = "no answer in time" if isinstance(error, httpx.TimeoutException) else str(error) or type(error).__name__
        return Unreachable(f"no daemon answers at {self.base_url} ({what})")


def _path(session_id: str, *more: str) -> str:
    return "/".join(["/api/sessions", quote(session_id, safe=""), *(quote(part, safe="") for part in more)])
