"""Tokens: the owner's is made once, a session's is derived, and nothing else opens anything."""

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from termal.gateway.scope import judge, seen_by
from termal.tokens import Holder, holder_of, make_owner_token, read_owner_token, session_token

OWN = "/api/sessions/session-1"


def test_the_owners_token_is_made_once_for_the_user_alone(tmp_path: Path) -> None:
    file = tmp_path / "owner.token"
    assert read_owner_token(file) is None
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(lambda _: make_owner_token(file), range(16)))
    assert made == {read_owner_token(file)}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["owner.token"]


def test_a_token_names_its_holder() -> None:
    assert holder_of("to1.secret", "to1.secret") == Holder(None)
    assert holder_of("to1.secret", session_token("to1.secret", "session-1")) == Holder("session-1")


@pytest.mark.parametrize(
    "presented",
    [
        "",
        "to1.other",
        "ts1",
        "ts1..",
        "ts1.c2Vzc2lvbi0x.",
        "ts1.!!!.x",
        "ts1.c2Vzc2lvbi0x.AAAA",
        "to1.secret ",
        "tö1",
        "x" * 5000,
        session_token("to1.another", "session-1"),
        session_token("to1.secret", "session-1") + "A",
        session_token("to1.secret", "session-1").replace("c2Vzc2lvbi0x", "c2Vzc2lvbi0y"),
    ],
)
def test_everything_else_opens_nothing(presented: str) -> None:
    assert holder_of("to1.secret", presented) is None


@pytest.mark.parametrize(
    ("method", "path", "verdict"),
    [
        ("GET", "/api/state", "open"),
        ("GET", "/api/health", "open"),
        ("GET", OWN, "open"),
        ("GET", f"{OWN}/history", "open"),
        ("POST", f"{OWN}/delegations", "open"),
        ("GET", f"{OWN}/delegations/delegation-1/result/output", "open"),
        ("POST", f"{OWN}/agent-commands/review%3Alocal/resolve", "open"),
        ("POST", f"{OWN}/delegation-review-result", "open"),
        ("POST", f"{OWN}/mailboxes/send", "peers"),
        ("GET", f"{OWN}/mailboxes", "peers"),
        ("GET", f"{OWN}/board/keys/a.b", "peers"),
        ("POST", f"{OWN}/board/set", "peers"),
        ("GET", "/api/sessions/session%2D1/mailboxes", "peers"),
        ("GET", "/api/events", "closed"),
        ("GET", "/api/status", "closed"),
        ("GET", "/metrics", "closed"),
        ("GET", "/api/search", "closed"),
        ("POST", "/api/sessions", "closed"),
        ("POST", "/api/state", "closed"),
        ("POST", f"{OWN}/messages", "closed"),
        ("POST", f"{OWN}/settings", "closed"),
        ("POST", f"{OWN}/approvals/message-1", "closed"),
        ("POST", f"{OWN}/kill", "closed"),
        ("POST", f"{OWN}/delegations/delegation-1/import", "closed"),
        ("POST", f"{OWN}/connections", "closed"),
        ("DELETE", OWN, "closed"),
        ("GET", "/api/sessions/session-2", "closed"),
        ("POST", "/api/sessions/session-2/delegations", "closed"),
        ("GET", "/api/sessions/session-1%2F..%2Fsession-2", "closed"),
        ("GET", "/api/sessions/session-1 ", "closed"),
        ("GET", "/api/sessions//session-1", "closed"),
        ("GET", f"{OWN}/", "closed"),
        ("GET", "/api/sessions/%ff", "closed"),
    ],
)
def test_the_token_of_a_session_opens_its_own_routes_alone(method: str, path: str, verdict: str) -> None:
    assert judge("session-1", method, path) == verdict


STATE = b"""{"revision": 4, "serverInstanceId": "life", "preferences": {"secret": 1}, "codex": {},
 "projects": [{"id": "project-1"}, {"id": "project-2"}],
 "sessions": [{"id": "session-1", "projectId": "project-1"}, {"id": "session-2", "projectId": "project-2"},
              {"id": "child-1", "parentDelegationId": "d-1", "projectId": "project-1"}, {"id": "child-2"}],
 "delegations": [{"id": "d-1", "parentSessionId": "session-1", "childSessionId": "child-1"},
                 {"id": "d-2", "parentSessionId": "session-2", "childSessionId": "child-2"}],
 "delegationWaits": [{"id": "w-1", "parentSessionId": "session-1"}, {"id": "w-2", "parentSessionId": "session-2"}]}"""


@pytest.mark.parametrize(
    ("session_id", "sessions", "delegations", "waits", "projects"),
    [
        ("session-1", ["session-1", "session-2", "child-1"], ["d-1"], ["w-1"], ["project-1", "project-2"]),
        ("child-1", ["child-1"], ["d-1"], [], ["project-1"]),
        ("child-2", ["child-2"], ["d-2"], [], []),
        ("session-9", [], [], [], []),
    ],
)
def test_a_session_sees_of_the_state_what_its_tools_need(
    session_id: str, sessions: list[str], delegations: list[str], waits: list[str], projects: list[str]
) -> None:
    seen = json.loads(seen_by(session_id, STATE))
    assert [row["id"] for row in seen["sessions"]] == sessions
    assert [row["id"] for row in seen["delegations"]] == delegations
    assert [row["id"] for row in seen["delegationWaits"]] == waits
    assert [row["id"] for row in seen["projects"]] == projects
    assert not {"preferences", "codex"} & seen.keys()
    assert (seen["revision"], seen["serverInstanceId"]) == (4, "life")
