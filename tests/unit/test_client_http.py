"""The HTTP client: what it sends, what it repeats, and which error it raises. The wire is a plain function."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from termal.client.errors import Unreachable
from termal.client.http import Http
from termal.wire import errors
from tests.support.client_replies import session, session_reply, state

Answer = Callable[[httpx.Request], httpx.Response]


def client(answer: Answer, **options: Any) -> Http:
    return Http("http://127.0.0.1:1/", transport=httpx.MockTransport(answer), **options)


def always(status: int, body: Any) -> Answer:
    return lambda _request: httpx.Response(status, json=body)


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "invalid_request", errors.InvalidRequest),
        (403, "forbidden", errors.Forbidden),
        (404, "not_found", errors.NotFound),
        (405, "invalid_request", errors.InvalidRequest),
        (409, "conflict", errors.Conflict),
        (413, "invalid_request", errors.InvalidRequest),
        (415, "invalid_request", errors.InvalidRequest),
        (422, "unprocessable", errors.Unprocessable),
        (429, "too_many", errors.TooMany),
        (500, "internal", errors.Internal),
        (501, "not_implemented", errors.NotImplementedYet),
        (503, "no_mutation_attempted", errors.Busy),
        (504, "outcome_unknown", errors.OutcomeUnknown),
    ],
)
def test_an_error_body_is_raised_as_the_daemons_own_error(
    status: int, code: str, kind: type[errors.TermalError]
) -> None:
    body = {"error": "Not so.", "code": code, "reason": "why", "detail": {"a": 1}, "requestId": "r-1"}
    with client(always(status, body)) as http, pytest.raises(kind) as caught:
        http.state()
    assert (caught.value.message, caught.value.code, caught.value.reason, caught.value.detail) == (
        "Not so.",
        code,
        "why",
        {"a": 1},
    )
    assert caught.value.__notes__ == ["request r-1"]


def test_an_error_without_a_body_is_still_an_error() -> None:
    with client(lambda _: httpx.Response(502, text="<html>")) as http, pytest.raises(errors.Internal, match="502"):
        http.state()


def test_another_program_at_the_address_is_told_from_a_daemon() -> None:
    with client(lambda _: httpx.Response(200, text="<html>")) as http, pytest.raises(Unreachable, match="no TermAl"):
        http.state()


def test_a_daemon_that_says_that_it_is_down_has_answered() -> None:
    body = {"ok": False, "state": "down", "version": "1", "serverInstanceId": "", "workers": {"state": "restarting"}}
    with client(always(503, body)) as http:
        found = http.health()
    assert (found.ok, found.state, found.workers) == (False, "down", {"state": "restarting"})


def test_a_dropped_write_with_a_key_is_repeated_under_the_same_key() -> None:
    seen: list[tuple[str, bytes]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append((request.headers["Idempotency-Key"], request.content))
        if len(seen) == 1:
            raise httpx.RemoteProtocolError("dropped")
        return httpx.Response(202, json=state(session()))

    with client(answer) as http:
        http.send_prompt("session-1", "Hi")
    assert len(seen) == 2
    assert seen[0] == seen[1]
    assert json.loads(seen[0][1]) == {"text": "Hi"}


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda http: http.stop("session-1"), id="stop"),
        pytest.param(lambda http: http.kill("session-1"), id="kill"),
        pytest.param(lambda http: http.answer_approval("session-1", "message-1", "accepted"), id="answer"),
    ],
)
def test_a_dropped_write_without_a_key_is_never_repeated(call: Callable[[Http], Any]) -> None:
    seen: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.path)
        raise httpx.RemoteProtocolError("dropped")

    with client(answer) as http, pytest.raises(Unreachable, match="dropped"):
        call(http)
    assert len(seen) == 1


def test_silence_ends_at_once_even_for_a_read() -> None:
    seen: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.path)
        raise httpx.ReadTimeout("")

    with client(answer) as http, pytest.raises(Unreachable, match="no answer in time"):
        http.state()
    assert seen == ["/api/state"]


def test_an_id_is_one_segment_of_the_path_whatever_it_holds() -> None:
    seen: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.raw_path.decode())
        return httpx.Response(200, json=session_reply())

    with client(answer) as http:
        http.read_session("../a b", tail=3)
    assert seen == ["/api/sessions/..%2Fa%20b?tail=3"]


def test_what_was_not_given_is_not_sent() -> None:
    seen: list[Any] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(json.loads(request.content))
        made = {"sessionId": "session-1", "session": session(), "revision": 1, "serverInstanceId": "one"}
        return httpx.Response(201, json=made)

    with client(answer) as http:
        http.create_session(agent="Demo", workdir="/work", settings={"claudeEffort": "low"})
    assert seen == [{"agent": "Demo", "workdir": "/work", "claudeEffort": "low"}]
