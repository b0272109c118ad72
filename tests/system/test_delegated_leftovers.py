"""What the turn of a delegated child leaves running is gone before anything may be written beside the delegation."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.daemon import Daemon
from tests.support.delegating_http import LIMIT_S, Parent
from tests.support.waiting import wait_until

pytestmark = pytest.mark.system

AGENT = str(Path(__file__).parents[1] / "support" / "bad_agent.py")


@pytest.fixture
def parent(home_dir: Path, tmp_path: Path) -> Iterator[Parent]:
    home_dir.mkdir(mode=0o700)
    command = json.dumps([sys.executable, AGENT, "leaving"])
    (home_dir / "config.toml").write_text(f"[agents.messy]\ncommand = {command}\n")
    with Daemon(home_dir) as daemon:
        parent = Parent(daemon.start(), tmp_path)
        yield parent
        parent.http.close()


@pytest.mark.case("A110")
def test_a_lock_lifts_when_what_the_child_left_running_is_gone(parent: Parent, tmp_path: Path) -> None:
    beside = f"/api/sessions/{parent.id}"
    parent.post(f"{beside}/messages", {"text": "edit beside.txt words"}, 202)

    def card() -> Any:
        messages = parent.get(beside)["session"]["messages"]
        return next((message for message in messages if message["type"] == "approval"), None)

    asked = wait_until(card, "the approval", LIMIT_S)
    spawned = parent.spawn("Leave something.", agent="messy")
    wait_until((tmp_path / "tick").exists, "the command that is left", LIMIT_S)

    def allowed() -> bool:
        reply = parent.http.post(f"{beside}/approvals/{asked['id']}", json={"decision": "accepted"})
        assert reply.status_code == 200 or reply.json()["reason"] == "readOnlyLocked", reply.text
        return bool(reply.status_code == 200)

    wait_until(allowed, "the lock to lift", LIMIT_S)
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text("utf-8")))
    assert parent.ended(spawned)["status"] == "completed"
