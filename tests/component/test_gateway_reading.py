"""Overview and markers on their way through the gateway: what state is told, and what is refused before."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from termal.wire.session_operations import CreateMarker, OneMarker, OneSession, ReadOverview, UpdateMarker
from tests.component.gateway_app import App, serve

SESSION = "/api/sessions/s"
GIVEN = {"kind": "bug", "name": "N", "color": "#fff", "messageId": "m"}
MADE = CreateMarker(session_id="s", marker_id="", kind="bug", name="N", color="#fff", message_id="m")
NONE = UpdateMarker(session_id="s", marker_id="k")

FORWARDED: list[Any] = [
    pytest.param("GET", "overview", None, 200, ReadOverview("s", 200), id="overview"),
    pytest.param("GET", "overview?buckets=512", None, 200, ReadOverview("s", 512), id="buckets"),
    pytest.param("GET", "markers", None, 200, OneSession("s"), id="list"),
    pytest.param("POST", "markers", GIVEN, 201, MADE, id="create"),
    pytest.param(
        "POST",
        "markers",
        {**GIVEN, "body": "B", "endMessageId": "n", "later": 1},
        201,
        replace(MADE, body="B", end_message_id="n"),
        id="create with everything",
    ),
    pytest.param("PATCH", "markers/k", {}, 200, NONE, id="change nothing"),
    pytest.param("PATCH", "markers/k", {"name": "M"}, 200, replace(NONE, name="M"), id="rename"),
    pytest.param(
        "PATCH",
        "markers/k",
        {"body": None, "endMessageId": None},
        200,
        replace(NONE, body=None, end_message_id=None),
        id="clear",
    ),
    pytest.param("DELETE", "markers/k", None, 200, OneMarker("s", "k"), id="delete"),
]


@pytest.mark.parametrize(("method", "path", "json", "status", "record"), FORWARDED)
def test_a_request_reaches_state_as_a_record(
    run_dir: Path, method: str, path: str, json: Any, status: int, record: Any
) -> None:
    async def scenario(app: App) -> None:
        reply = await app.request(method, f"{SESSION}/{path}", json)
        assert (reply.status_code, reply.content) == (status, b'{"answer":true}')
        ((_, came, _),) = app.state.requests
        if isinstance(came, CreateMarker):
            assert came.marker_id.startswith("marker-")
            came = replace(came, marker_id="")
        assert came == record

    serve(run_dir, scenario)


REFUSED: list[Any] = [
    pytest.param(
        "GET", "overview?buckets=0", None, 400, "invalid_request", id="no bucket", marks=pytest.mark.case("H9")
    ),
    pytest.param("GET", "overview?buckets=513", None, 400, "invalid_request", id="many", marks=pytest.mark.case("H9")),
    pytest.param("GET", "overview?buckets=x", None, 400, "invalid_request", id="no number"),
    pytest.param("POST", "markers", b"{", 422, "unprocessable", id="half a body", marks=pytest.mark.case("H17")),
    pytest.param("POST", "markers", b'{"kind":"bug","name":"N"}', 422, "unprocessable", id="no anchor"),
    pytest.param(
        "PATCH",
        "markers/k",
        b'{"kind":"decison"}',
        422,
        "unprocessable",
        id="an unknown kind",
        marks=pytest.mark.case("H18"),
    ),
    pytest.param("PATCH", "markers/k", b'{"name":null}', 422, "unprocessable", id="null for a name"),
    pytest.param("PUT", "markers/k", b"{}", 405, "invalid_request", id="another method"),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "code"), REFUSED)
def test_what_can_be_seen_to_be_wrong_never_reaches_state(
    run_dir: Path, method: str, path: str, body: bytes | None, status: int, code: str
) -> None:
    async def scenario(app: App) -> None:
        reply = await app.request(method, f"{SESSION}/{path}", body=body)
        assert (reply.status_code, reply.json["code"]) == (status, code)
        assert reply.json["error"]
        assert app.state.requests == []

    serve(run_dir, scenario)


@pytest.mark.case("H19")
def test_a_page_of_this_daemon_may_change_a_marker(run_dir: Path) -> None:
    async def scenario(app: App) -> None:
        reply = await app.request(
            "OPTIONS",
            f"{SESSION}/markers/k",
            headers={"Origin": "http://127.0.0.1:8787", "Access-Control-Request-Method": "PATCH"},
        )
        assert reply.status_code == 200
        assert "PATCH" in reply.headers["access-control-allow-methods"]

    serve(run_dir, scenario)
