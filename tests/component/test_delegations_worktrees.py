"""Isolated children: their worktree, what they changed in it, what a crash leaves of it."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from termal.wire.delegation_operations import DELEGATION_SPAWN
from termal.wire.errors import Conflict, InvalidRequest
from tests.support.delegating import Delegating, House, a_house, packet
from tests.support.state_worker import Json
from tests.support.waiting import wait_until

ISOLATED = {"kind": "isolatedWorktree"}


@pytest.fixture(scope="module")
def shared_daemon() -> Iterator[House]:
    with a_house() as house:
        yield house


@pytest.fixture
def house(shared_daemon: House) -> Iterator[House]:
    yield shared_daemon
    shared_daemon.warm()


@pytest.fixture
def work(house: House) -> Delegating:
    """A parent in a repository of its own."""
    work = house.work()
    repository(work.workdir)
    return work


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def repository(folder: Path) -> None:
    git(folder.parent, "init", "-q", str(folder))
    for name in ("docs/a", "src/b", "c"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"{name}\n", "utf-8")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")


def worktree_of(spawned: Json) -> Path:
    return Path(spawned["delegation"]["writePolicy"]["worktreePath"])


@pytest.mark.case("A20", "A24")
def test_an_isolated_child_gets_the_work_as_it_stands(house: House) -> None:
    work = house.work("Codex")
    repository(work.workdir)
    (work.workdir / "docs/a").write_text("staged\n", "utf-8")
    git(work.workdir, "add", "docs/a")
    (work.workdir / "c").write_text("unstaged\n", "utf-8")
    inner = Delegating(work.state, work.workdir / "src", runtime=work.runtime, shelf=work.shelf, agent="Codex")
    spawned = inner.spawn(policy=ISOLATED)
    tree, child = worktree_of(spawned), spawned["childSession"]
    assert spawned["delegation"]["id"] in str(tree)
    assert tree.parent == house.state.home.worktrees.resolve()
    assert git(tree, "diff", "--cached", "--name-only") == "docs/a\n"
    assert git(tree, "diff", "--name-only") == "c\n"
    assert git(tree, "rev-parse", "--abbrev-ref", "HEAD") == "HEAD\n"
    assert child["workdir"] == spawned["delegation"]["cwd"] == str(tree / "src")
    assert "projectId" not in child
    assert (child["sandboxMode"], child["approvalPolicy"]) == ("workspace-write", "on-request")
    assert not inner.child_turn(spawned).start.spec.read_only
    inner.cancel(spawned)


@pytest.mark.case("A21", "A23", "A32")
def test_what_cannot_be_isolated_is_refused_and_leaves_nothing(house: House, work: Delegating) -> None:
    (work.workdir / "full").mkdir()
    (work.workdir / "full" / "x").write_text("x", "utf-8")
    link = work.workdir / "out"
    link.symlink_to(house.root)
    git(work.workdir, "add", ".")
    git(work.workdir, "commit", "-qm", "second")
    taken = house.state.home.worktrees / "taken"
    taken.mkdir()
    (taken / "x").write_text("x", "utf-8")
    refused: list[tuple[Json, str]] = [
        ({"worktreePath": "/tmp/elsewhere"}, "worktreePathOutsideRoot"),
        ({"worktreePath": str(taken)}, "worktreePathNotEmpty"),
        ({"ownedPaths": ["../x"]}, "ownedPathInvalid"),
        ({"ownedPaths": ["out/x"]}, "ownedPathInvalid"),
    ]
    before = {path.name for path in house.state.home.worktrees.iterdir()}
    for fields, reason in refused:
        with pytest.raises(InvalidRequest) as error:
            work.spawn(policy={**ISOLATED, **fields})
        assert error.value.reason == reason
    (work.workdir / "new.txt").write_text("x", "utf-8")
    with pytest.raises(InvalidRequest, match=r"new\.txt") as untracked:
        work.spawn(policy=ISOLATED)
    assert untracked.value.reason == "untrackedFiles"
    assert {path.name for path in house.state.home.worktrees.iterdir()} - {".termal"} == before - {".termal"}
    assert work.listed() == []
    (work.workdir / "new.txt").unlink()
    spawned = work.spawn(policy={**ISOLATED, "ownedPaths": ["./docs/"]})
    assert spawned["delegation"]["writePolicy"]["ownedPaths"] == ["docs"]


def test_a_repository_is_needed(house: House) -> None:
    with pytest.raises(InvalidRequest) as refused:
        house.work().spawn(policy=ISOLATED)
    assert refused.value.reason == "notGitRepository"


@pytest.mark.case("A25")
def test_a_fifth_isolated_child_makes_no_worktree(house: House, work: Delegating) -> None:
    for _ in range(4):
        work.spawn()
    before = sorted(house.state.home.worktrees.iterdir())
    with pytest.raises(Conflict) as refused:
        work.spawn(policy=ISOLATED)
    assert refused.value.reason == "activeLimit"
    assert sorted(house.state.home.worktrees.iterdir()) == before


def test_isolated_spawns_at_once_do_not_pass_the_limit(house: House, work: Delegating) -> None:
    asked = [work.state.begin(DELEGATION_SPAWN, work.request(policy=ISOLATED)) for _ in range(6)]
    wait_until(lambda: all(outcome.ends for outcome in asked), "every spawn to be answered", 20.0)
    ends = [outcome.ends[0] for outcome in asked]
    made = {json.loads(reply.json)["delegation"]["id"] for reply, _ in ends if reply is not None}
    assert len(made) == 4
    assert {error.reason for _, error in ends if error is not None} == {"activeLimit"}

    def only_those() -> bool:
        there = {path.name for path in house.state.home.worktrees.iterdir() if path.name.startswith("delegation-")}
        known = {row[0] for row in house.state.rows("SELECT id FROM delegations")}
        return there <= known

    wait_until(only_those, "the other worktrees to be removed")


@pytest.mark.parametrize("meanwhile", ["removed", "full"])
def test_a_repeat_that_waited_for_git_is_refused_like_any_other_spawn(
    house: House, work: Delegating, tmp_path: Path, meanwhile: str
) -> None:
    house.state.stop()
    house.state.start(environment=house.environment, faults=tmp_path)
    house.serving()
    pid = house.state.process.pid
    request = work.request(policy=ISOLATED)
    (tmp_path / "worktree.marked").write_text("hold")
    asked = [house.state.begin(DELEGATION_SPAWN, request)]
    wait_until((tmp_path / "worktree.marked.held").exists, "git to be at work")
    asked += [house.state.begin(DELEGATION_SPAWN, request) for _ in range(2)]
    if meanwhile == "removed":
        house.state.kill_session(work.parent)
    else:
        for _ in range(4):
            work.spawn()
    (tmp_path / "worktree.marked.go").touch()
    errors = [outcome.wait()[1] for outcome in asked]
    expected = {"removed": "sessionNotFound", "full": "activeLimit"}[meanwhile]
    assert [error.reason for error in errors if error is not None] == [expected] * 3
    assert house.state.process.pid == pid
    assert house.state.state()["sessions"]


@pytest.mark.case("A09")
def test_opencode_may_explore_in_a_worktree_alone(house: House) -> None:
    work = house.work()
    repository(work.workdir)
    with pytest.raises(InvalidRequest) as refused:
        work.spawn(agent="OpenCode")
    assert refused.value.reason == "readOnlyAgentUnsupported"
    spawned = work.spawn(agent="OpenCode", policy=ISOLATED)
    assert spawned["delegation"]["agent"] == "OpenCode"
    work.cancel(spawned)


def test_what_a_child_changed_is_what_git_finds(work: Delegating) -> None:
    spawned = work.spawn(policy={**ISOLATED, "ownedPaths": ["docs"]})
    tree = worktree_of(spawned)
    before = git(work.workdir, "status", "--porcelain")
    work.child_turn(spawned)
    for name in ("docs/a", "docs2/y", "src/x"):
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_text("changed", "utf-8")
    work.finish(spawned, packet())
    record = work.wait_status(spawned, "completed")
    assert record["result"]["changedFiles"] == ["docs/a", "docs2/y", "src/x"]
    assert record["result"]["notes"] == [
        "Changed outside owned paths: docs2/y",
        "Changed outside owned paths: src/x",
    ]
    flagged = [event["detail"] for event in work.audit() if event["kind"] == "ownedPathViolation"]
    assert flagged == ["docs2/y", "src/x"]
    assert git(work.workdir, "status", "--porcelain") == before
    assert work.result(spawned)["artifacts"][-1] == {"kind": "worktree", "id": str(tree)}
    assert tree.is_dir()


def test_prompts_that_wait_do_not_run_while_git_is_asked(work: Delegating) -> None:
    spawned = work.spawn(policy=ISOLATED)
    work.child_turn(spawned)
    child = spawned["delegation"]["childSessionId"]
    work.state.send(child, "more")
    work.finish(spawned, packet())
    assert work.wait_status(spawned, "completed")
    assert len(work.turns_of(child)) == 1
    assert work.queue(child) == []


@pytest.mark.case("A90")
@pytest.mark.parametrize("point", ["worktree.marked", "worktree.added", "state.worktree_prepared"])
def test_no_worktree_is_left_of_a_spawn_that_was_killed(
    house: House, work: Delegating, tmp_path: Path, point: str
) -> None:
    house.state.stop()
    house.state.start(environment=house.environment, faults=tmp_path)
    house.serving()
    request = work.request(policy=ISOLATED)
    (tmp_path / point).write_text("kill")
    asked = house.state.begin(DELEGATION_SPAWN, request, within_s=2.0)
    wait_until(lambda: not (tmp_path / point).exists(), "the kill")
    wait_until(lambda: not house.state.client.up, "state to be gone")
    house.state.kill()
    house.state.start("replacement", running=["runtime-acp"], environment=house.environment)
    asked.wait()

    def whole() -> bool:
        known = {row[0] for row in house.state.rows("SELECT id FROM delegations")}
        there = {path.name for path in house.state.home.worktrees.iterdir() if path.name.startswith("delegation-")}
        making = list((house.state.home.worktrees / ".termal").glob("*.making"))
        return there <= known and not making

    wait_until(whole, "what was begun to be removed or to belong to a delegation")
    made = len(house.state.rows("SELECT 1 FROM delegations WHERE id = ?", (request.delegation_id,)))
    like = f'%"parentDelegationId":"{request.delegation_id}"%'
    assert len(house.state.rows("SELECT 1 FROM sessions WHERE value_json LIKE ?", (like,))) == made
    cards = [message for message in work.state.read(work.parent)["messages"] if message["type"] == "parallelAgents"]
    assert len(cards) == made


def test_a_review_in_a_worktree_names_its_files_too(work: Delegating) -> None:
    spawned = work.spawn(mode="reviewer", policy=ISOLATED)
    (worktree_of(spawned) / "c").write_text("mended", "utf-8")
    work.submit(spawned, summary="Mended.")
    work.finish(spawned, packet())
    assert work.wait_status(spawned, "completed")["result"]["changedFiles"] == ["c"]
