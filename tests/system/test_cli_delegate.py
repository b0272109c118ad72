"""``termal delegate`` and ``termal worktrees`` against a real daemon: what they print, and their exit codes."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from termal.cli.main import main
from tests.support.daemon import Daemon, Person
from tests.support.repository import Repository
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.slow]

Run = Callable[..., str]


@pytest.fixture
def run(shared_daemon: Daemon, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The output of a command; on stderr too where it fails."""
    monkeypatch.setenv("TERMAL_HOME", str(shared_daemon.home.root))
    monkeypatch.delenv("TERMAL_BASE_URL", raising=False)

    def act(*arguments: str, code: int = 0) -> str:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        printed = capsys.readouterr()
        assert (ended.value.code or 0) == code, printed
        return printed.out if code == 0 else printed.out + printed.err

    return act


@pytest.fixture
def parent(shared_daemon: Daemon, run_dir: Path) -> str:
    person = Person(shared_daemon, f"parent in {run_dir.name}", workdir=Repository(run_dir / "repo").root)
    person.close()
    return person.session_id


def spawn(run: Run, parent: str, prompt: str, *options: str) -> str:
    return run("delegate", "spawn", parent, prompt, "--mode", "explorer", *options).strip()


def test_work_is_delegated_waited_for_and_read_from_a_shell(run: Run, parent: str) -> None:
    assert run("delegate", "list", parent).startswith("nothing delegated yet")
    made = spawn(run, parent, "say all is well", "--title", "Look around", "--key", "k1")
    assert made.startswith("delegation-")
    assert spawn(run, parent, "say all is well", "--title", "Look around", "--key", "k1") == made
    waited = run("delegate", "wait", parent)
    assert waited.splitlines()[-1] in (f"{made} completed: all is well", "nothing is at work")
    listed = run("delegate", "list", parent).splitlines()
    assert len(listed) == 2
    assert [word in listed[1] for word in (made, "Look around", "explorer", "completed", "clean")] == [True] * 5
    shown = run("delegate", "status", parent, made)
    assert "policy           read-only requested\n" in shown
    assert "result           all is well\n" in shown
    result = run("delegate", "result", parent, made)
    assert result.startswith(f"{made} completed (requested)\n\nall is well\n\nfindings\n  none\n")
    assert "  transcript session-" in result
    assert run("delegate", "result", parent, made, "--output") == "all is well\n"
    packet = json.loads(run("delegate", "result", parent, made, "--json"))
    assert (packet["result"]["delegationId"], packet["policyEnforcement"]) == (made, "requested")
    assert json.loads(run("delegate", "result", parent, made, "--output", "--json")) == {
        "output": "all is well",
        "summaryFallback": False,
    }


def test_a_long_output_comes_whole(run: Run, parent: str) -> None:
    made = spawn(run, parent, "flood 20000")
    run("delegate", "wait", parent, made)
    assert len(run("delegate", "result", parent, made, "--output")) == 20001


def test_a_wait_that_is_over_too_late_or_badly_has_exit_codes_of_its_own(run: Run, parent: str) -> None:
    slow = spawn(run, parent, "wait 30")
    told = run("delegate", "wait", parent, slow, "--timeout", "0", code=5)
    assert f"the time is up: {slow} not over" in told
    run("delegate", "result", parent, slow, code=4)
    assert run("delegate", "cancel", parent, slow) == f"{slow} is canceled\n"
    assert run("delegate", "cancel", parent, slow) == f"{slow} is canceled\n"
    assert f"{slow} canceled" in run("delegate", "wait", parent, slow, code=1)
    run("delegate", "followup", parent, slow, "say more", code=4)
    quick = spawn(run, parent, "say done")
    report = json.loads(run("delegate", "wait", parent, quick, "--json"))
    assert (report["outcome"], [one["status"] for one in report["delegations"]]) == ("completed", ["completed"])
    assert run("delegate", "wait", parent) == "nothing is at work\n"


def test_a_followup_gives_the_child_another_turn(run: Run, parent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("say first"))
    made = spawn(run, parent, "-")
    run("delegate", "wait", parent, made)
    assert run("delegate", "followup", parent, made, "say second") == f"{made} is running again\n"
    run("delegate", "wait", parent, made)
    assert run("delegate", "result", parent, made, "--output") == "second\n"


def test_what_is_refused_says_why(run: Run, parent: str) -> None:
    assert "cannot review" in run("delegate", "spawn", parent, "x", code=1)
    refused = run("delegate", "status", parent, "delegation-x", "--json", code=3)
    assert json.loads(refused[: refused.rindex("}") + 1])["reason"] == "delegationNotFound"
    run("delegate", "list", "session-99999", code=3)
    run("delegate", "spawn", parent, "x", "--own", "docs", code=2)


@pytest.mark.case("A103")
def test_what_a_shell_writes_outside_of_the_owned_paths_is_flagged(
    shared_daemon: Daemon, run: Run, parent: str, run_dir: Path
) -> None:
    before = {path: path.read_bytes() for path in (run_dir / "repo").rglob("*") if path.is_file() and _is_work(path)}
    task = "run mkdir src docs2 && echo x > src/x && echo y > docs2/y\nsay done"
    made = spawn(run, parent, task, "--isolated", "--own", "docs")
    child = json.loads(run("delegate", "status", parent, made, "--json"))["childSessionId"]
    with shared_daemon.client() as http:

        def asked() -> str | None:
            messages = http.get(f"/api/sessions/{child}", params={"tail": 64}).json()["session"]["messages"]
            return next((one["id"] for one in messages if one["type"] == "approval"), None)

        approval = wait_until(asked, "the child to ask", 20.0)
        answer = {"decision": "accepted"}
        assert http.post(f"/api/sessions/{child}/approvals/{approval}", json=answer).is_success
        run("delegate", "wait", parent, made)
        events = http.get(f"/api/sessions/{parent}/delegation-audit-events").json()["events"]
    result = json.loads(run("delegate", "result", parent, made, "--json"))["result"]
    assert result["changedFiles"] == ["docs2/y", "src/x"]
    flagged = [f"Changed outside owned paths: {path}" for path in ("docs2/y", "src/x")]
    assert [note for note in result["notes"] if note in flagged] == flagged
    violations = [event["detail"] for event in events if event["kind"] == "ownedPathViolation"]
    assert violations == ["docs2/y", "src/x"]
    after = {path: path.read_bytes() for path in (run_dir / "repo").rglob("*") if path.is_file() and _is_work(path)}
    assert after == before
    run("worktrees", "remove", made, "--force")


def _is_work(path: Path) -> bool:
    """Not what git keeps for itself of a worktree."""
    return ".git" not in path.parts


def row_of(run: Run, state: str) -> dict[str, Any] | None:
    """The only worktree, once it is in that state."""
    (row,) = json.loads(run("worktrees", "list", "--json"))
    return row if row["state"] == state else None


def test_an_isolated_child_leaves_a_worktree_that_is_listed_and_removed(run: Run, parent: str) -> None:
    assert run("worktrees", "list") == "no worktrees\n"
    made = spawn(run, parent, "wait 30", "--isolated", "--own", "docs")
    row = wait_until(lambda: row_of(run, "clean"), "the worktree to be finished")
    assert (row["delegationId"], row["changedFiles"]) == (made, 0)
    assert "at work" in run("worktrees", "remove", made, code=4)
    run("delegate", "cancel", parent, made)
    path = Path(row["path"])
    (path / "docs").write_text("work")
    assert "1 changed files would be lost" in run("worktrees", "remove", made, code=4)
    listed = run("worktrees", "list")
    assert made in listed
    assert "dirty" in listed
    assert run("worktrees", "remove", made, "--force") == f"{path} removed\n"
    assert not path.exists()
    run("worktrees", "remove", made, code=3)
