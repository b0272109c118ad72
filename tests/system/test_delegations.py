"""Delegations over HTTP with the Demo agent: from the spawn to the parent that is resumed."""

import subprocess
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.support.daemon import Daemon
from tests.support.delegating_http import LIMIT_S, Parent
from tests.support.waiting import wait_until

pytestmark = pytest.mark.system


@pytest.fixture
def parent(shared_daemon: Daemon, tmp_path: Path) -> Any:
    parent = Parent(shared_daemon, tmp_path)
    yield parent
    parent.http.close()


def test_a_parent_that_ends_its_turn_is_resumed_with_the_results(parent: Parent) -> None:
    first = parent.spawn("say The first answer.")
    second = parent.spawn("wait 0.2\nsay The second answer.", title="Second")
    ids = [one["delegation"]["id"] for one in (first, second)]
    wait = parent.post(f"/api/sessions/{parent.id}/delegation-waits", {"delegationIds": ids}, 201)["wait"]
    prompt = wait_until(lambda: [text for text in parent.texts() if wait["id"] in text], "the fan-in", LIMIT_S)[0]
    assert "The first answer." in prompt
    assert "The second answer." in prompt
    result = parent.get(f"{parent.one(second)}/result")
    assert result["result"]["summary"] == "The second answer."
    page = parent.get(f"{parent.one(second)}/result/output", limitBytes=256)
    assert (page["output"], page["complete"]) == ("The second answer.", True)
    assert parent.get(f"/api/sessions/{parent.id}/delegation-waits")["delegationWaits"] == []
    assert parent.get(f"{parent.path}/capacity")["available"] == 4
    kinds = [event["kind"] for event in parent.get(f"/api/sessions/{parent.id}/delegation-audit-events")["events"]]
    assert kinds.count("spawn") == 2


@pytest.mark.case("A06")
def test_bodies_that_are_none_are_refused_with_an_error(parent: Parent) -> None:
    asked: list[tuple[dict[str, Any], int]] = [
        ({"json": {}}, 422),
        ({"content": b'{"prompt":"x"}'}, 415),
        ({"content": b'{"prompt":', "headers": {"Content-Type": "application/json"}}, 422),
    ]
    for fields, status in asked:
        reply = parent.http.post(parent.path, **fields)
        assert (reply.status_code, bool(reply.json()["error"])) == (status, True)
        assert status == 415 or reply.json()["reason"] == "invalidJson"
    for path in (f"{parent.path}/delegation-1/followup", f"/api/sessions/{parent.id}/delegation-waits"):
        assert parent.post(path, {}, 422)["reason"] == "invalidJson"


def test_a_spawn_with_the_same_key_makes_one_child(parent: Parent) -> None:
    bodies = [
        parent.post(parent.path, {"prompt": "wait 5", "mode": "explorer"}, 201, **{"Idempotency-Key": "one"})
        for _ in range(2)
    ]
    assert bodies[0]["delegation"]["id"] == bodies[1]["delegation"]["id"]
    canceled = parent.post(f"{parent.one(bodies[0])}/cancel", {})
    assert canceled["delegation"]["status"] == "canceled"


def test_a_follow_up_goes_on_in_the_same_conversation(parent: Parent) -> None:
    spawned = parent.spawn("say One.")
    assert parent.ended(spawned)["result"]["summary"] == "One."
    running = parent.post(f"{parent.one(spawned)}/followup", {"message": "say Two."})
    assert running["delegation"]["status"] == "running"
    assert parent.ended(spawned)["result"]["summary"] == "Two."


def test_a_delegation_is_over_when_nothing_that_its_child_started_runs_any_more(parent: Parent, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@example.com"]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    # In a session of its own: not even the agent's end of its command reaches it.
    loop = "setsid sh -c 'echo $$ > pid; while sleep 0.05; do echo x >> tick; done' > /dev/null 2>&1 &"
    spawned = parent.spawn(
        f"run {loop} until test -s tick; do sleep 0.02; done; echo started\nsay Done.", writePolicy="isolatedWorktree"
    )
    child = spawned["delegation"]["childSessionId"]

    def card() -> Any:
        messages = parent.get(f"/api/sessions/{child}", tail=64)["session"]["messages"]
        return next((message for message in messages if message["type"] == "approval"), None)

    asked = wait_until(card, "the approval", LIMIT_S)
    parent.post(f"/api/sessions/{child}/approvals/{asked['id']}", {"decision": "accepted"})
    record = parent.ended(spawned)
    folder = Path(spawned["delegation"]["cwd"])
    assert (record["status"], (folder / "tick").exists()) == ("completed", True)
    assert not psutil.pid_exists(int((folder / "pid").read_text("utf-8")))


@pytest.mark.case("A103")
def test_what_an_approved_command_wrote_outside_its_paths_is_flagged(parent: Parent, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@example.com"]
    (tmp_path / "kept").write_text("as it is\n", "utf-8")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "first"], check=True)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    spawned = parent.spawn(
        "run sh -c 'mkdir -p src docs2; echo 1 > src/x; echo 2 > docs2/y'\nsay Done.",
        writePolicy={"kind": "isolatedWorktree", "ownedPaths": ["docs"]},
    )
    child = spawned["delegation"]["childSessionId"]

    def card() -> Any:
        messages = parent.get(f"/api/sessions/{child}", tail=64)["session"]["messages"]
        return next((message for message in messages if message["type"] == "approval"), None)

    asked = wait_until(card, "the approval", LIMIT_S)
    parent.post(f"/api/sessions/{child}/approvals/{asked['id']}", {"decision": "accepted"})
    record = parent.ended(spawned)
    assert record["result"]["changedFiles"] == ["docs2/y", "src/x"]
    assert record["result"]["notes"] == [
        "Changed outside owned paths: docs2/y",
        "Changed outside owned paths: src/x",
    ]
    events = parent.get(f"/api/sessions/{parent.id}/delegation-audit-events")["events"]
    assert [event["detail"] for event in events if event["kind"] == "ownedPathViolation"] == ["docs2/y", "src/x"]
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before
    assert not (tmp_path / "src").exists()


def test_children_of_a_removed_parent_are_gone_with_their_agents(daemon: Daemon, tmp_path: Path) -> None:
    parent = Parent(daemon, tmp_path)
    spawned = parent.spawn("wait 30")
    child = spawned["delegation"]["childSessionId"]
    left = parent.post(f"/api/sessions/{parent.id}/kill", {})
    assert not {parent.id, child} & {session["id"] for session in left["sessions"]}
    [record] = left["delegations"]
    assert record["status"] == "failed"
    assert parent.get(parent.one(spawned), 404)["reason"] == "delegationNotFound"
    parent.http.close()


def test_a_removed_parent_of_three_generations_leaves_no_session_and_no_process(daemon: Daemon, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@example.com"]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    parent = Parent(daemon, tmp_path)
    above, family = parent.id, [parent.id]
    for policy in ("isolatedWorktree", "readOnly", "readOnly"):
        body = {"prompt": "say At work.\nwait 60", "mode": "explorer", "writePolicy": policy}
        above = parent.post(f"/api/sessions/{above}/delegations", body, 201)["childSession"]["id"]
        family.append(above)

    def agents() -> list[psutil.Process]:
        return [one for one in daemon.marked() if "termal.demo_agent" in _command_line(one)]

    wait_until(lambda: len(agents()) >= 3, "the agents of the children", LIMIT_S)
    left = parent.post(f"/api/sessions/{parent.id}/kill", {})
    assert not set(family) & {session["id"] for session in left["sessions"]}
    assert [record["status"] for record in left["delegations"]] == ["failed"] * 3
    wait_until(lambda: not agents(), "the agents to be gone", LIMIT_S)
    parent.http.close()


@pytest.mark.parametrize("killed", ["state", "runtime-acp"])
def test_a_killed_worker_loses_no_wait(daemon: Daemon, tmp_path: Path, killed: str) -> None:
    parent = Parent(daemon, tmp_path)
    spawned = parent.spawn("wait 1\nsay Survived.")
    body = {"delegationIds": [spawned["delegation"]["id"]]}
    wait = parent.post(f"/api/sessions/{parent.id}/delegation-waits", body, 201)["wait"]
    daemon.kill(killed)

    def resumed() -> bool:
        try:
            return any(wait["id"] in text for text in parent.texts())
        except (httpx.HTTPError, AssertionError):
            return False

    wait_until(resumed, "the parent to be resumed", LIMIT_S)
    record = parent.ended(spawned)
    assert record["status"] == ("completed" if killed == "state" else "failed")
    parent.http.close()


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
