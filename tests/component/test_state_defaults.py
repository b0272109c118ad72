"""What a session begins with when nobody asked for anything."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from termal.bus.server import Request
from termal.config import Config
from termal.wire.session_operations import CreateSession
from termal.wire.turns import JsonReply
from tests.support.state_memory import Memory
from workers.state.preferences import Preferences
from workers.state.readiness import Agents
from workers.state.sessions import Sessions


class Installed(Agents):
    """Every agent is there: what this machine has must not decide what a default is."""

    def check(self, agent: str) -> None:
        return


class Asked:
    """The bus's side of one request."""

    def __init__(self) -> None:
        self.replies: list[dict[str, Any]] = []

    def reply(self, reply: JsonReply) -> None:
        self.replies.append(json.loads(reply.json))


def created(path: Path, request: CreateSession, environ: dict[str, str]) -> dict[str, Any]:
    """The session of the reply, made in a fresh store."""
    memory = Memory(path / "termal.sqlite")
    try:
        preferences = Preferences(memory.book, environ)
        sessions = Sessions(memory.book, Installed(Config(), {}), str(path), preferences.defaults)
        asked = Asked()
        sessions.create(cast("Request", asked), request)
        memory.commit()
        session: dict[str, Any] = asked.replies[0]["session"]
        return session
    finally:
        memory.close()


@pytest.mark.case("S3")
def test_a_session_without_an_agent_is_codex_with_its_defaults(tmp_path: Path) -> None:
    session = created(tmp_path, CreateSession(key="k"), {})
    assert (session["agent"], session["model"], session["name"]) == ("Codex", "gpt-5.4", "Codex 1")
    settings = ("sandboxMode", "approvalPolicy", "reasoningEffort")
    assert [session[key] for key in settings] == ["workspace-write", "never", "medium"]
    assert (session["messageCount"], session["messagesLoaded"]) == (0, True)


def test_the_environment_seeds_the_defaults_of_codex(tmp_path: Path) -> None:
    environ = {"TERMAL_CODEX_SANDBOX": "read-only", "TERMAL_CODEX_APPROVAL": "nonsense"}
    session = created(tmp_path, CreateSession(key="k"), environ)
    assert (session["sandboxMode"], session["approvalPolicy"]) == ("read-only", "never")
