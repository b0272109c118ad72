"""Files that change while a turn of a real runtime worker process runs: what state is told of them, and when."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from termal.rules.file_changes import HINT_PATHS, TURN_PATHS
from termal.wire.control import Beat, Reload
from termal.wire.turns import ApprovalAsked, TouchedFile, TurnEnded
from termal.wire.workspace_operations import SeenChange, WorkspaceChanged
from tests.support.acp_peer import RuntimePeer
from tests.support.waiting import wait_until

ASK = "run true"
"""The agent asks before it goes on: the turn lasts until the test answers."""
START_S = 20.0
"""For an agent to start."""


@pytest.fixture
def runtime(home_dir: Path, run_dir: Path) -> Iterator[RuntimePeer]:
    with RuntimePeer(home_dir, run_dir) as peer:
        yield peer


@pytest.fixture
def portable(home_dir: Path, run_dir: Path) -> Iterator[RuntimePeer]:
    """Where the system tells of no changes."""
    with RuntimePeer(home_dir, run_dir, portable=True) as peer:
        yield peer


def begin(runtime: RuntimePeer, turn: str = "turn-1", session: str = "session-1") -> None:
    """A turn that waits for an answer, and whose directory is watched by now."""
    probe = runtime.workdir / f"probe-{turn}"
    runtime.start(turn, ASK, runtime.spec(session))
    runtime.wait_for(turn, ApprovalAsked, limit_s=START_S)
    probe.touch()
    wait_until(lambda: probe.name in paths(runtime), f"{probe.name} to be seen")


def finish(runtime: RuntimePeer, turn: str = "turn-1", session: str = "session-1") -> TurnEnded:
    asked = runtime.asked(turn)
    runtime.answer(turn, asked.request, asked.options[0].id, session)
    return runtime.ended(turn)


def paths(runtime: RuntimePeer) -> list[str]:
    return [change.path for hint in list(runtime.state.hints) for change in hint.changes]


def files(end: TurnEnded) -> dict[str, str]:
    return {file.path: file.kind for file in end.files if not file.path.startswith("probe")}


def overflowed(runtime: RuntimePeer) -> list[WorkspaceChanged]:
    return [hint for hint in list(runtime.state.hints) if hint.overflow]


def test_the_end_of_a_turn_names_the_files_that_changed_meanwhile(runtime: RuntimePeer) -> None:
    (runtime.workdir / "old").write_text("old")
    (runtime.workdir / "gone").write_text("gone")
    begin(runtime)
    (runtime.workdir / "old").write_text("new text")
    (runtime.workdir / "gone").unlink()
    (runtime.workdir / "src").mkdir()
    (runtime.workdir / "src" / "new").write_text("new")

    assert files(finish(runtime)) == {"old": "modified", "gone": "deleted", "src/new": "created"}


def test_what_changes_goes_out_as_a_hint_at_once(runtime: RuntimePeer) -> None:
    begin(runtime)
    file = runtime.workdir / "new"
    file.write_text("12345")

    wait_until(lambda: "new" in paths(runtime), "the hint")
    hint = next(hint for hint in runtime.state.hints if "new" in [change.path for change in hint.changes])
    assert (hint.root, hint.session_ids, hint.overflow) == (str(runtime.workdir), ["session-1"], False)
    seen = next(change for change in hint.changes if change.path == "new")
    assert seen == SeenChange("new", "created", file.stat().st_mtime_ns // 1_000_000, 5)
    finish(runtime)


def test_files_that_an_agent_writes_at_once_are_named_with_the_end_or_right_after_it(runtime: RuntimePeer) -> None:
    runtime.start("turn-1", "run echo out > made")
    asked = runtime.wait_for("turn-1", ApprovalAsked, limit_s=START_S)
    runtime.answer("turn-1", asked.request, asked.options[0].id)

    end = runtime.ended("turn-1")

    def named() -> dict[str, str]:
        return files(end) | {file.path: file.kind for late in runtime.state.late for file in late.files}

    assert wait_until(named, "the file to be named") == {"made": "created"}


def test_later_changes_are_nobodys(runtime: RuntimePeer) -> None:
    begin(runtime)
    finish(runtime)
    wait_until(lambda: watched(runtime) == 0, "the watch to end")
    (runtime.workdir / "later").write_text("x")
    begin(runtime, "turn-2")

    assert files(finish(runtime, "turn-2")) == {}
    assert "later" not in paths(runtime)


def test_sessions_in_one_directory_share_a_watch(runtime: RuntimePeer) -> None:
    begin(runtime)
    begin(runtime, "turn-2", "session-2")
    (runtime.workdir / "new").write_text("x")

    assert files(finish(runtime)) == files(finish(runtime, "turn-2", "session-2")) == {"new": "created"}
    both = [hint for hint in runtime.state.hints if "new" in [change.path for change in hint.changes]]
    assert [hint.session_ids for hint in both] == [["session-1", "session-2"]]


def test_a_session_that_may_not_write_is_not_watched(runtime: RuntimePeer) -> None:
    runtime.start("turn-1", "say hello", runtime.spec(read_only=True))
    assert runtime.ended("turn-1") == TurnEnded("completed")
    assert watched(runtime) == 0


def test_a_killed_session_ends_its_watch(runtime: RuntimePeer) -> None:
    begin(runtime)
    runtime.close("session-1")

    wait_until(lambda: watched(runtime) == 0, "the watch to end")
    assert runtime.state.late == []


def test_more_than_a_hint_can_name_is_an_overflow_and_the_turn_still_names_it(runtime: RuntimePeer) -> None:
    begin(runtime)
    for number in range(HINT_PATHS + 1):
        (runtime.workdir / f"f{number}").touch()
    end = finish(runtime)

    assert len(files(end)) == HINT_PATHS + 1
    assert not end.more_files


def test_more_files_than_a_turn_can_name_are_said_to_be_more(runtime: RuntimePeer) -> None:
    begin(runtime)
    for number in range(TURN_PATHS + 1):
        (runtime.workdir / f"f{number}").touch()
    wait_until(lambda: overflowed(runtime), "a hint that there is too much")
    end = finish(runtime)

    assert end.more_files
    assert all(hint.changes == [] for hint in overflowed(runtime))


def test_the_daemons_own_files_are_not_looked_at(home_dir: Path, run_dir: Path) -> None:
    with RuntimePeer(home_dir, run_dir) as runtime:
        inside = runtime.home / "worktrees" / "one"
        inside.mkdir(parents=True)
        for number, folder in enumerate((runtime.home, runtime.home / "logs", inside)):
            spec = replace(runtime.spec(f"session-{number}"), workdir=str(folder))
            runtime.start(f"turn-{number}", ASK, spec)
            runtime.wait_for(f"turn-{number}", ApprovalAsked, limit_s=START_S)
        wait_until(lambda: watched(runtime) == 1, "the worktree alone to be watched")


def test_watching_can_be_switched_off_and_on(home_dir: Path, run_dir: Path) -> None:
    with RuntimePeer(home_dir, run_dir, config="[workspace]\nwatch = false\n") as runtime:
        runtime.start("turn-1", ASK)
        runtime.wait_for("turn-1", ApprovalAsked, limit_s=START_S)
        (runtime.workdir / "new").write_text("x")
        assert finish(runtime) == TurnEnded("completed")
        assert watched(runtime) == 0
        (runtime.home / "config.toml").write_text('[workspace]\nignore = ["out"]\n')
        runtime.worker.order(Reload())
        wait_until(lambda: "config.reloaded" in log_of(runtime), "the new configuration")
        begin(runtime, "turn-2")
        (runtime.workdir / "out").mkdir()
        (runtime.workdir / "out" / "made").write_text("x")
        (runtime.workdir / "seen").write_text("x")
        assert files(finish(runtime, "turn-2")) == {"seen": "created"}


def test_names_that_are_no_text_are_told_as_far_as_they_are(runtime: RuntimePeer) -> None:
    begin(runtime)
    (runtime.workdir / os.fsdecode(b"caf\xe9")).write_text("x")

    (name,) = files(finish(runtime))
    assert name.startswith("caf")


def test_without_word_from_the_system_files_are_found_by_looking(portable: RuntimePeer) -> None:
    (portable.workdir / "old").write_text("old")
    begin(portable)
    (portable.workdir / "old").write_text("new text")
    wait_until(lambda: "old" in paths(portable), "the change to be found")
    (portable.workdir / "last").write_text("x")
    end = finish(portable)

    assert files(end)["old"] == "modified"
    if "last" not in files(end):
        late = wait_until(lambda: portable.state.late, "what the last look finds")
        assert TouchedFile("last", "created") in late[0].files


def watched(runtime: RuntimePeer) -> object:
    """How many directories are watched, by the worker's next heartbeat."""
    runtime.worker.forget_beats()
    return runtime.worker.wait_for(Beat).facts["watchedFolders"]


def log_of(runtime: RuntimePeer) -> str:
    return (runtime.home / "logs" / "runtime-acp.log").read_text("utf-8")
