"""What the shared process of Codex says to nobody in particular."""

from types import SimpleNamespace
from typing import Any

import pytest

from workers.runtime.codex_server import AppServer


def test_a_request_that_nobody_here_listens_to_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[str] = []
    log: Any = SimpleNamespace(repeating=lambda event, **_: logged.append(event))
    server = AppServer(log)
    refused: list[tuple[object, ...]] = []
    monkeypatch.setattr(server.lines, "refuse", lambda *answer: refused.append(answer))
    server.asked(7, "item/tool/call", {"threadId": "nobody's"})
    server.asked("a", "account/refresh", {})
    assert refused == [
        (7, -32601, "nobody here answers item/tool/call"),
        ("a", -32601, "nobody here answers account/refresh"),
    ]
    assert logged == ["agent.refused_request"] * 2
