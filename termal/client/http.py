"""`Http`: the daemon's API for one thread. Raises the daemon's own errors; repeats only what is safe to repeat."""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from termal.client.call import Answer, Call, new_key, session_path
from termal.client.errors import Unreachable, error_of
from termal.client.replies import Changed, Health, History, ProjectMade, State
from termal.client.routes import daemon, sessions
from termal.client.stream import Event, parse_events
from termal.client.transport import (
    REPEAT_S,
    REPEAT_STEP_S,
    REPLY_S,
    STREAM_TIMEOUT,
    httpx,
    read_answer,
    request_of,
    settings,
    token_of_environment,
    unreachable,
)
from termal.model.reply import CreateSessionResponse, SessionResponse
from termal.model.search import SearchResponse
from termal.model.status import DaemonStatus

T = TypeVar("T")


class Http:
    """The API at ``base_url``. Use it as a context manager, or call `close`; one thread at a time.

    `run` carries out any call of `termal.client.routes`; what commands need most has a method. Every method raises a
    `termal.wire.errors.TermalError` for an error that the daemon answered, and `Unreachable` when none answered.
    ``repeat_s`` 0 sends every request once. ``token``: None takes the one of the environment, if any.
    """

    def __init__(
        self,
        base_url: str,
        *,
        reply_s: float = REPLY_S,
        repeat_s: float = REPEAT_S,
        token: str | None = None,
        client_name: str | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self._repeat_s = repeat_s
        token = token or token_of_environment()
        self._http = httpx.Client(transport=transport, **settings(self.base_url, reply_s, token, client_name))

    def __enter__(self) -> "Http":
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def run(self, call: Call[T]) -> T:
        """Send it and read the answer; again within ``repeat_s`` after a lost connection, if that is safe."""
        end = time.monotonic() + (self._repeat_s if call.repeatable else 0.0)
        while True:
            try:
                return read_answer(call, self.exchange(call), self.base_url)
            except Unreachable as error:
                if error.trouble not in ("connect", "transport") or time.monotonic() >= end:
                    raise
                time.sleep(REPEAT_STEP_S)

    def exchange(self, call: Call[T]) -> Answer:
        """Send it once, whatever the answer says. Raises `Unreachable`."""
        return self._send(call.method, call.path, **request_of(call))

    @contextmanager
    def events(self) -> Iterator[Iterator[Event]]:
        """A stream of events, a ``state`` first; it ends when the daemon stops. Raises `Unreachable` when it breaks."""
        with self._stream("/api/events", timeout=STREAM_TIMEOUT) as reply:
            yield parse_events(reply.iter_raw())

    @contextmanager
    def export_session(self, session_id: str) -> Iterator[Iterator[bytes]]:
        """The bytes of an export as they come; whoever takes them checks that its last line is there."""
        with self._stream(session_path(session_id, "export")) as reply:
            yield reply.iter_bytes()

    def import_session(self, chunks: Iterable[bytes], *, key: str | None = None) -> CreateSessionResponse:
        """A new session of the bytes of an export. They can be given once, so nothing is repeated here."""
        headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": key or new_key()}
        call = Call(method="POST", path="/api/sessions/import", reply=CreateSessionResponse)
        return read_answer(call, self._send(call.method, call.path, content=chunks, headers=headers), self.base_url)

    def _send(self, method: str, path: str, **request: Any) -> Answer:
        try:
            answer = self._http.request(method, path, **request)
        except httpx.TransportError as error:
            raise unreachable(error, self.base_url) from error
        return Answer(answer.status_code, answer.reason_phrase, answer.content)

    @contextmanager
    def _stream(self, path: str, **options: Any) -> Iterator[httpx.Response]:
        """An answer of success whose body is still to come. Raises also what breaks while it is read."""
        try:
            with self._http.stream("GET", path, **options) as reply:
                if reply.status_code != 200:
                    reply.read()
                    raise error_of(reply.status_code, reply.content)
                yield reply
        except httpx.TransportError as error:
            raise unreachable(error, self.base_url, "reading body") from error

    # ----------------------------------------------------- what commands need most

    def health(self) -> Health:
        return self.run(daemon.health())

    def status(self) -> DaemonStatus:
        return self.run(daemon.status())

    def state(self) -> State:
        return self.run(daemon.state())

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
        call = sessions.create(
            agent=agent, name=name, workdir=workdir, model=model, project_id=project_id, settings=settings
        )
        return self.run(call)

    def read_session(self, session_id: str, tail: int = 20) -> SessionResponse:
        """The session with its newest ``tail`` (1 to 64) messages."""
        return self.run(sessions.get(session_id, tail))

    def history(self, session_id: str, *, after: str | None = None, before: str | None = None) -> History:
        """A page of up to 64 messages next to a message id; the newest ones without any."""
        return self.run(sessions.history(session_id, after=after, before=before))

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
        call = sessions.send_prompt(
            session_id, text, expanded_text=expanded_text, source_session_id=source_session_id, key=key
        )
        return self.run(call)

    def answer_approval(self, session_id: str, message_id: str, decision: str) -> Changed:
        """``decision``: ``accepted``, ``acceptedForSession`` or ``rejected``."""
        return self.run(sessions.answer_approval(session_id, message_id, decision))

    def cancel_prompt(self, session_id: str, prompt_id: str) -> Changed:
        return self.run(sessions.cancel_prompt(session_id, prompt_id))

    def stop(self, session_id: str) -> Changed:
        return self.run(sessions.stop(session_id))

    def change_settings(
        self,
        session_id: str,
        *,
        name: str | None = None,
        model: str | None = None,
        settings: Mapping[str, str | bool] | None = None,
    ) -> Changed:
        """All of it or nothing; ``settings`` under their wire names."""
        return self.run(sessions.change_settings(session_id, name=name, model=model, settings=settings))

    def create_project(self, root_path: str, *, name: str | None = None) -> ProjectMade:
        """The same root again answers with the project that is there."""
        return self.run(daemon.create_project(root_path, name=name))

    def delete_project(self, project_id: str) -> State:
        return self.run(daemon.delete_project(project_id))

    def kill(self, session_id: str) -> State:
        return self.run(sessions.kill(session_id))

    def search(
        self, query: str, *, session_id: str | None = None, limit: int = 20, cursor: str | None = None
    ) -> SearchResponse:
        """Messages with all words of ``query``, newest first; ``cursor`` is the ``next_cursor`` of the page before."""
        return self.run(daemon.search(query, session_id=session_id, limit=limit, cursor=cursor))
