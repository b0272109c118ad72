"""Answers on their way through the gateway: what state is told, and what is refused before it hears of it."""

from pathlib import Path
from typing import Any

import pytest

from termal.wire.session_operations import AnswerAppRequest, AnswerElicitation, AnswerQuestions
from tests.component.gateway_app import App, serve

SESSION = "/api/sessions/s"

FORWARDED: list[Any] = [
    pytest.param("user-input", b'{"answers":{"q":["a"]}}', AnswerQuestions("s", "m", {"q": ["a"]}), id="answers"),
    pytest.param("mcp-elicitation", b'{"action":"decline"}', AnswerElicitation("s", "m", "decline"), id="no content"),
    pytest.param(
        "mcp-elicitation",
        b'{"action":"accept", "content":{"a": 1}}',
        AnswerElicitation("s", "m", "accept", b'{"a":1}'),
        id="content",
    ),
    pytest.param("codex/requests", b'{"result": null}', AnswerAppRequest("s", "m", b"null"), id="null"),
    pytest.param(
        "codex/requests", b'{"result": {"a": [1.5]}}', AnswerAppRequest("s", "m", b'{"a":[1.5]}'), id="any JSON"
    ),
]


@pytest.mark.parametrize(("path", "body", "record"), FORWARDED)
def test_an_answer_reaches_state_as_a_record(run_dir: Path, path: str, body: bytes, record: Any) -> None:
    async def scenario(app: App) -> None:
        reply = await app.post(f"{SESSION}/{path}/m", body=body)
        assert (reply.status_code, reply.content) == (200, b'{"answer":true}')
        ((_, came, _),) = app.state.requests
        assert came == record

    serve(run_dir, scenario)


DEEP = b'{"result":' + b"[" * 5000 + b"]" * 5000 + b"}"
REFUSED: list[Any] = [
    pytest.param("user-input", b"{}", 422, "unprocessable", id="no answers"),
    pytest.param("user-input", b'{"answers":{"q":"a"}}', 422, "unprocessable", id="a text for a list"),
    pytest.param("mcp-elicitation", b'{"action":"maybe"}', 422, "unprocessable", id="an unknown action"),
    pytest.param("codex/requests", b"{}", 422, "unprocessable", id="no result"),
    pytest.param("codex/requests", b'{"result":', 422, "unprocessable", id="half a result"),
    pytest.param("codex/requests", DEEP, 400, "invalid_request", id="a result that nobody can read"),
    pytest.param("approvals", b'{"decision":"maybe"}', 422, "unprocessable", id="an unknown decision"),
]


@pytest.mark.parametrize(("path", "body", "status", "code"), REFUSED)
def test_an_answer_of_another_shape_is_refused(run_dir: Path, path: str, body: bytes, status: int, code: str) -> None:
    async def scenario(app: App) -> None:
        reply = await app.post(f"{SESSION}/{path}/m", body=body)
        assert (reply.status_code, reply.json["code"]) == (status, code)
        assert app.state.requests == []

    serve(run_dir, scenario)
