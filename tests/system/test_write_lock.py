"""What a session's mode allows by itself, beside a read-only delegation: held until the lock lifts, then done."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from termal.rules.wording import HELD
from tests.support.codex_kit import SERVER
from tests.support.daemon import Daemon
from tests.support.delegating_http import LIMIT_S, Parent
from tests.support.waiting import wait_until

pytestmark = pytest.mark.system

ALLOWS_ALL = {"approvalPolicy": "never", "sandboxMode": "danger-full-access"}
Json = dict[str, Any]


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    folder = Path(tempfile.mkdtemp(prefix="tml-"))
    home = folder / "home"
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text(f'[agents.Codex]\ncommand = ["{sys.executable}", "{SERVER}"]\n')
    try:
        with Daemon(home, environment={"CODEX_FAKE_HOME": str(folder)}) as running:
            yield running.start()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def parent(daemon: Daemon, tmp_path: Path) -> Iterator[Parent]:
    parent = Parent(daemon, tmp_path)
    yield parent
    parent.http.close()


class Sibling:
    """A Codex session whose mode allows everything, in the folder of the parent."""

    def __init__(self, parent: Parent, folder: Path) -> None:
        self._parent = parent
        made = parent.post("/api/sessions", {"agent": "Codex", "workdir": str(folder), **ALLOWS_ALL}, 201)
        self.path = f"/api/sessions/{made['sessionId']}"

    def prompt(self, text: str) -> None:
        self._parent.post(f"{self.path}/messages", {"text": text}, 202)

    @property
    def session(self) -> Json:
        found: Json = self._parent.get(self.path)["session"]
        return found

    def cards(self) -> list[Json]:
        return [one for one in self.session["messages"] if one["type"] in ("approval", "mcpElicitationRequest")]

    def asked(self) -> Json:
        return wait_until(lambda: next(iter(self.cards()), None), "the card", LIMIT_S)

    def idle(self) -> None:
        wait_until(lambda: self.session["status"] == "idle", "the end of the turn", LIMIT_S)


@pytest.mark.case("A105")
@pytest.mark.parametrize("killed", [None, "state"])
def test_a_write_that_a_mode_allows_waits_for_the_end_of_the_lock(
    daemon: Daemon, parent: Parent, tmp_path: Path, killed: str | None
) -> None:
    sibling = Sibling(parent, tmp_path)
    sibling.prompt("edit before")
    sibling.idle()
    assert ((tmp_path / "before").exists(), sibling.cards()) == (True, []), "without a lock nobody is asked"

    spawned = parent.spawn("wait 60")
    sibling.prompt("edit made")
    card = sibling.asked()
    assert (card["decision"], sibling.session["status"], (tmp_path / "made").exists()) == ("pending", "approval", False)
    assert card["detail"].endswith(HELD)
    refused = parent.post(f"{sibling.path}/approvals/{card['id']}", {"decision": "accepted"}, 403)
    assert refused["reason"] == "readOnlyLocked"
    if killed is not None:
        daemon.kill(killed)
        wait_until(lambda: parent.http.get(sibling.path).status_code == 200, "the next state", LIMIT_S)
        assert (sibling.asked()["decision"], (tmp_path / "made").exists()) == ("pending", False)
    parent.post(f"{parent.one(spawned)}/cancel", {})
    sibling.idle()
    assert (sibling.asked()["decision"], (tmp_path / "made").exists()) == ("accepted", True)


def test_a_person_may_refuse_what_a_mode_would_allow(parent: Parent, tmp_path: Path) -> None:
    sibling = Sibling(parent, tmp_path)
    spawned = parent.spawn("wait 60")
    sibling.prompt("edit made")
    parent.post(f"{sibling.path}/approvals/{sibling.asked()['id']}", {"decision": "rejected"})
    sibling.idle()
    parent.post(f"{parent.one(spawned)}/cancel", {})
    assert (sibling.asked()["decision"], (tmp_path / "made").exists()) == ("rejected", False)


def test_another_mode_leaves_what_was_held_to_a_person(parent: Parent, tmp_path: Path) -> None:
    sibling = Sibling(parent, tmp_path)
    spawned = parent.spawn("wait 60")
    sibling.prompt("edit made")
    card = sibling.asked()
    parent.post(f"{sibling.path}/settings", {"approvalPolicy": "on-request"})
    parent.post(f"{parent.one(spawned)}/cancel", {})
    assert (sibling.asked()["decision"], (tmp_path / "made").exists()) == ("pending", False)
    parent.post(f"{sibling.path}/approvals/{card['id']}", {"decision": "accepted"})
    sibling.idle()
    assert (tmp_path / "made").exists()
