"""Routes: what reaches state, what comes back, and what is refused before state hears of it."""

import base64
import zlib
from pathlib import Path
from typing import Any

import pytest

from termal.gateway.images import IMAGE_BYTES
from termal.wire.errors import Busy, Conflict, NotFound, OutcomeUnknown
from termal.wire.mail_operations import ReadMailbox
from termal.wire.session_operations import (
    AnswerApproval,
    CancelPrompt,
    CreateSession,
    OneSession,
    PromptImage,
    ReadHistory,
    ReadSession,
    SendPrompt,
)
from tests.component.gateway_app import App, serve

TRACE = "0" * 32

FORWARDED: list[Any] = [
    pytest.param(
        "POST /api/sessions",
        {"agent": "Claude", "name": "A", "workdir": "/w", "projectId": "p", "model": "m", "claudeEffort": "low"},
        201,
        CreateSession(
            key=TRACE,
            agent="Claude",
            name="A",
            workdir="/w",
            project_id="p",
            model="m",
            settings={"claudeEffort": "low"},
        ),
        id="create",
    ),
    pytest.param("POST /api/sessions", {"other": [1], "name": None}, 201, CreateSession(key=TRACE), id="defaults"),
    pytest.param("GET /api/sessions/session-1", None, 200, ReadSession("session-1", 20), id="read"),
    pytest.param("GET /api/sessions/a%2Fb?tail=64", None, 200, ReadSession("a/b", 64), id="read with a tail"),
    pytest.param("GET /api/sessions/s/history", None, 200, ReadHistory(session_id="s"), id="history"),
    pytest.param(
        "GET /api/sessions/s/history?before=m%201&limit=3",
        None,
        200,
        ReadHistory(session_id="s", before="m 1", limit=3),
        id="history before",
    ),
    pytest.param(
        "GET /api/sessions/s/history?around=0", None, 200, ReadHistory(session_id="s", around=0), id="history around"
    ),
    pytest.param(
        "GET /api/sessions/s/history?from=start",
        None,
        200,
        ReadHistory(session_id="s", from_start=True),
        id="history from the start",
    ),
    pytest.param(
        "POST /api/sessions/s/messages",
        {"text": "hi", "expandedText": "hi there", "sourceSessionId": "t", "attachments": None},
        202,
        SendPrompt(key=TRACE, session_id="s", text="hi", expanded_text="hi there", source_session_id="t"),
        id="prompt",
    ),
    pytest.param(
        "POST /api/sessions/s/messages",
        {"text": "", "attachments": [{"data": "AQI=", "mediaType": "image/png", "fileName": "a"}]},
        202,
        SendPrompt(key=TRACE, session_id="s", text="", attachments=[PromptImage(b"\1\2", "image/png", "a")]),
        id="prompt of an image",
    ),
    pytest.param(
        "POST /api/sessions/s/queued-prompts/p/cancel", None, 200, CancelPrompt("s", "p"), id="cancel a prompt"
    ),
    pytest.param("POST /api/sessions/s/stop", None, 200, OneSession("s"), id="stop"),
    pytest.param("POST /api/sessions/s/kill", None, 200, OneSession("s"), id="kill"),
    pytest.param(
        "POST /api/sessions/s/approvals/m",
        {"decision": "acceptedForSession"},
        200,
        AnswerApproval("s", "m", "acceptedForSession"),
        id="approve",
    ),
]


@pytest.mark.parametrize(("asked", "json", "status", "record"), FORWARDED)
def test_a_request_reaches_state_as_a_record_and_its_answer_is_passed_on_unread(
    run_dir: Path, asked: str, json: Any, status: int, record: Any
) -> None:
    async def scenario(app: App) -> None:
        app.state.answer_json = b'{ "as" : "it came" }'
        method, path = asked.split(maxsplit=1)
        reply = await app.request(method, path, json)
        assert (reply.status_code, reply.content) == (status, b'{ "as" : "it came" }')
        assert reply.headers["content-type"] == "application/json"
        (_, came, trace) = app.state.requests[0]
        assert trace == reply.headers["x-request-id"]
        if getattr(came, "key", None) is not None:
            assert came.key == trace
            came = type(came)(**{name: getattr(came, name) for name in came.__struct_fields__} | {"key": TRACE})
        assert came == record

    serve(run_dir, scenario)


def bad_queries(path: str, *queries: str, marks: Any = ()) -> list[Any]:
    return [
        pytest.param(f"GET {path}?{query}", None, 400, "invalid_request", id=query, marks=marks) for query in queries
    ]


SESSION, HISTORY = "/api/sessions/s", "/api/sessions/s/history"
REFUSED: list[Any] = [
    *bad_queries(SESSION, "tail=0", "tail=65", "tail=abc", marks=pytest.mark.case("H5")),
    *bad_queries(SESSION, "tail=", "tail=-1", "tail=1.5", "tail=%2B5", "tail=3&tail=3"),
    *bad_queries(
        HISTORY,
        "limit=0",
        "limit=65",
        "before=",
        "before=x&after=y",
        "from=end",
        marks=pytest.mark.case("H7"),
    ),
    *bad_queries(HISTORY, "before=%20", "around=1&from=start", "around=-1", "around=x", "before=x&before=y"),
    pytest.param("GET /api/sessions/s?tail=%", b"", 400, "invalid_request", id="half an escape"),
    pytest.param("POST /api/sessions", b"{", 422, "unprocessable", id="half a body"),
    pytest.param("POST /api/sessions", b"[]", 422, "unprocessable", id="a list"),
    pytest.param("POST /api/sessions", b"\xff", 422, "unprocessable", id="no text"),
    pytest.param("POST /api/sessions", None, 422, "unprocessable", id="no body"),
    pytest.param("POST /api/sessions", b'{"name":1}', 422, "unprocessable", id="a number for a name"),
    pytest.param("POST /api/sessions", b'{"agent":null}', 422, "unprocessable", id="no agent"),
    pytest.param("POST /api/sessions", b'{"claudeEffort":"huge"}', 422, "unprocessable", id="an unknown effort"),
    pytest.param("POST /api/sessions", rb'{"name":"\ud800"}', 422, "unprocessable", id="half a character"),
    pytest.param("POST /api/sessions", rb'{"name":"\udc00 x"}', 422, "unprocessable", id="its other half"),
    pytest.param("POST /api/sessions", b"[" * 5000, 422, "unprocessable", id="far too deep"),
    pytest.param("POST /api/sessions/s/messages", b"{}", 422, "unprocessable", id="no text in a prompt"),
    pytest.param("POST /api/sessions/s/approvals/m", b'{"decision":"yes"}', 422, "unprocessable", id="a new decision"),
    pytest.param("GET /api/sessions//history", None, 404, "not_found", id="an empty id"),
    pytest.param("GET /api/sessions/", None, 404, "not_found", id="an empty last id"),
    pytest.param("GET /api/sessions/%FF", None, 404, "not_found", id="an id that is no text"),
    pytest.param("GET /api/nothing", None, 404, "not_found", id="an unknown path"),
    pytest.param("GET /", None, 404, "not_found", id="the root"),
    pytest.param("PUT /api/sessions", b"{}", 405, "invalid_request", id="a wrong method"),
    pytest.param("DELETE /api/state", None, 405, "invalid_request", id="another wrong method"),
]


@pytest.mark.parametrize(("asked", "body", "status", "code"), REFUSED)
def test_what_can_be_seen_to_be_wrong_is_refused_in_one_form_and_state_never_hears_of_it(
    run_dir: Path, asked: str, body: bytes | None, status: int, code: str
) -> None:
    async def scenario(app: App) -> None:
        method, path = asked.split(maxsplit=1)
        reply = await app.request(method, path, body=body)
        assert (reply.status_code, reply.json["code"]) == (status, code)
        assert reply.json["error"]
        assert reply.json["requestId"] == reply.headers["x-request-id"]
        assert set(reply.json) <= {"error", "code", "reason", "detail", "requestId"}
        if "tail=" in asked:
            assert "session query" in reply.json["error"]
            assert "tail" in reply.json["error"]
        assert app.state.requests == []

    serve(run_dir, scenario)


@pytest.mark.case("H42")
def test_a_wrong_method_a_long_body_and_plain_text_carry_code_and_request_id(run_dir: Path) -> None:
    async def scenario(app: App) -> None:
        wrong = await app.request("PUT", "/api/state")
        long = await app.post("/api/sessions", body=b'"' + b"x" * (17 << 20) + b'"')
        text = await app.post("/api/sessions", body=b"{}", headers={"Content-Type": "text/plain"})
        assert [reply.status_code for reply in (wrong, long, text)] == [405, 413, 415]
        assert wrong.headers["allow"] == "GET, OPTIONS"
        for reply in (wrong, long, text):
            assert reply.json["code"] == "invalid_request"
            assert reply.json["requestId"] == reply.headers["x-request-id"]

    serve(run_dir, scenario)


@pytest.mark.case("H41")
def test_mail_that_is_no_json_is_told_so_as_everywhere_else(run_dir: Path) -> None:
    async def scenario(app: App) -> None:
        reply = await app.post("/api/sessions/s/mailboxes/send", body=b"{")
        assert (reply.status_code, reply.json["code"]) == (422, "unprocessable")
        assert reply.json["requestId"] == reply.headers["x-request-id"]

    serve(run_dir, scenario)


@pytest.mark.case("C19")
def test_a_page_of_a_mailbox_is_of_50_messages_unless_it_is_said(run_dir: Path) -> None:
    async def scenario(app: App) -> None:
        for body in ({}, {"limit": 0}, {"limit": 5000, "afterSequence": 7}):
            reply = await app.post("/api/sessions/s/mailboxes/m/read", body)
            assert reply.status_code == 200, reply.text
        assert app.coordination.reads == [
            ReadMailbox("s", "m", 0, 50),
            ReadMailbox("s", "m", 0, 0),
            ReadMailbox("s", "m", 7, 200),
        ]

    serve(run_dir, scenario)


@pytest.mark.case("H38")
def test_a_write_of_another_type_is_refused(run_dir: Path) -> None:
    async def scenario(app: App) -> None:
        for path in ("/api/sessions", "/api/sessions/s/messages", "/api/sessions/s/stop"):
            reply = await app.post(path, body=b'{"text":"x"}', headers={"Content-Type": "text/plain"})
            assert reply.status_code == 415
        assert app.state.requests == []

    serve(run_dir, scenario)


@pytest.mark.case("H15")
def test_an_image_of_ten_mebibytes_is_taken_and_not_a_byte_more(run_dir: Path) -> None:
    async def scenario(app: App) -> None:
        for size, media_type, status in (
            (IMAGE_BYTES, "image/gif", 202),
            (IMAGE_BYTES + 1, "image/gif", 400),
            (9, "image/tiff", 400),
        ):
            data = base64.b64encode(b"x" * size).decode()
            attachment = {"data": data, "mediaType": media_type}
            reply = await app.post("/api/sessions/s/messages", {"text": "", "attachments": [attachment]})
            assert reply.status_code == status
        ((_, prompt, _),) = app.state.requests
        assert len(prompt.attachments[0].data) == IMAGE_BYTES

    serve(run_dir, scenario)


@pytest.mark.case("H39")
def test_a_foreign_host_is_refused_and_gets_no_cors_headers(run_dir: Path) -> None:
    async def scenario(app: App) -> None:
        for path in ("/api/state", "/api/events", "/nothing"):
            reply = await app.get(path, host="evil.example")
            assert (reply.status_code, reply.json["code"]) == (403, "forbidden")
        foreign = await app.get("/api/state", headers={"Origin": "http://evil.example"})
        assert foreign.status_code == 403
        assert "access-control-allow-origin" not in foreign.headers

    serve(run_dir, scenario)


@pytest.mark.case("H19")
def test_a_preflight_of_our_own_page_is_answered_for_every_path(run_dir: Path) -> None:
    async def scenario(app: App) -> None:
        headers = {"Origin": "http://127.0.0.1:8787", "Access-Control-Request-Method": "PATCH"}
        reply = await app.request("OPTIONS", "/api/sessions/s/markers/m", headers=headers)
        assert (reply.status_code, reply.content) == (200, b"")
        assert "PATCH" in reply.headers["access-control-allow-methods"].split(", ")
        assert reply.headers["access-control-allow-headers"] == "accept, content-type"
        assert reply.headers["access-control-allow-origin"] == "http://127.0.0.1:8787"
        got = await app.get("/api/state", headers={"Origin": "http://localhost:8787"})
        assert got.headers["access-control-allow-origin"] == "http://localhost:8787"

    serve(run_dir, scenario)


def test_an_idempotency_key_of_the_client_is_passed_on_and_one_of_another_form_refused(run_dir: Path) -> None:
    async def scenario(app: App) -> None:
        for key, status in (("k" * 200, 202), ("k" * 201, 400), ("", 400), ("caf\xe9", 400)):
            reply = await app.post("/api/sessions/s/messages", {"text": "x"}, headers={"Idempotency-Key": key})
            assert reply.status_code == status
        assert [prompt.key for _, prompt, _ in app.state.requests] == ["k" * 200]

    serve(run_dir, scenario)


@pytest.mark.parametrize(
    ("error", "headers"),
    [
        (NotFound("no such session", reason="session"), {}),
        (Conflict("moved", reason="busy", detail={"stamp": 3}), {}),
        (Busy("not now", code="no_write_committed"), {"retry-after": "1"}),
        (OutcomeUnknown("who knows"), {}),
    ],
)
def test_the_error_of_state_becomes_its_status_and_body(run_dir: Path, error: Any, headers: dict[str, str]) -> None:
    async def scenario(app: App) -> None:
        app.state.error = error
        reply = await app.get("/api/sessions/s")
        assert reply.status_code == error.status
        assert reply.json["error"] == error.message
        assert reply.json["code"] == error.code
        assert reply.json.get("reason") == error.reason
        assert reply.json.get("detail") == error.detail
        assert headers.items() <= reply.headers.items()

    serve(run_dir, scenario)


def test_a_fault_of_ours_is_logged_and_shows_the_client_its_request_id_only(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise ValueError("secret words")

    async def scenario(app: App) -> None:
        monkeypatch.setattr(app.gateway, "ask", broken)
        reply = await app.get("/api/state")
        assert (reply.status_code, reply.json["code"]) == (500, "internal")
        assert "secret" not in reply.text
        log = app.gateway.home.log("gateway").read_text("utf-8")
        assert reply.headers["x-request-id"] in log
        assert "secret words" in log

    serve(run_dir, scenario)


@pytest.mark.parametrize("size", [3_000, 300_000])
def test_json_worth_it_is_compressed_for_who_accepts_it(run_dir: Path, size: int) -> None:
    async def scenario(app: App) -> None:
        app.state.answer_json = b'"' + b"ab" * (size // 2) + b'"'
        plain = await app.get("/api/sessions/s")
        assert plain.content == app.state.answer_json
        assert "content-encoding" not in plain.headers
        packed = await app.get("/api/sessions/s", headers={"Accept-Encoding": "br, gzip"})
        assert packed.headers["content-encoding"] == "gzip"
        assert packed.headers["vary"] == "Accept-Encoding"
        assert zlib.decompress(packed.content, 31) == app.state.answer_json
        app.state.answer_json = b'"short"'
        short = await app.get("/api/sessions/s", headers={"Accept-Encoding": "gzip"})
        assert "content-encoding" not in short.headers

    serve(run_dir, scenario)


def test_every_reply_has_a_request_id_of_its_own_whatever_the_client_sends(run_dir: Path) -> None:
    async def scenario(app: App) -> None:
        replies = [await app.get(path, headers={"X-Request-Id": "mine"}) for path in ("/api/state", "/", "/api/state")]
        ids = {reply.headers["x-request-id"] for reply in replies}
        assert len(ids) == 3
        assert all(len(one) == 32 for one in ids)

    serve(run_dir, scenario)


@pytest.mark.parametrize(
    "asked", ["GET import", "GET import/diff", "POST import", "POST import/undo", "POST worktree/remove"]
)
def test_what_is_not_built_yet_says_so_and_state_never_hears_of_it(run_dir: Path, asked: str) -> None:
    async def scenario(app: App) -> None:
        method, path = asked.split()
        reply = await app.request(
            method, f"/api/sessions/s/delegations/d/{path}", body=b"{" if method == "POST" else None
        )
        assert (reply.status_code, reply.json["code"]) == (501, "not_implemented")
        assert reply.json["reason"] == "importNotImplemented"
        assert app.state.requests == []

    serve(run_dir, scenario)
