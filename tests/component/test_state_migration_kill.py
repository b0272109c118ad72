"""SIGKILL inside a migration: the file stays the old one, and the next start gives the same bytes as any other."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from termal.wire.control import Extend
from tests.support.control_peer import ControlPeer
from tests.support.older_store import Dump, dump, first_store, migrate, transcript
from tests.support.state_worker import MODULE, StateWorker

ROOT = Path(__file__).parents[2]
ONE_IN_FIFTY = "one message in fifty of an unknown type"
KILLS = (1, 2, 3, 5, 8, 13, 21, 34, 55, 77)


@pytest.fixture
def path(home_dir: Path) -> Path:
    home_dir.mkdir(mode=0o700)
    return home_dir / "termal.sqlite"


def killed(path: Path, faults: Path, step: int) -> None:
    """A process that opens the file and is killed at the given step of the migration."""
    faults.mkdir(exist_ok=True)
    (faults / "migration.step").write_text(f"kill {step}", "utf-8")
    program = (
        "import sys; from pathlib import Path; from workers.state.store_schema import open_store; "
        "open_store(Path(sys.argv[1]), durability='normal')"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        cwd=ROOT,
        env={**os.environ, "TERMAL_FAULTS": str(faults)},
        stderr=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL


def undisturbed(path: Path, sessions: int, messages: int, damage_every: int, fault: str | None = None) -> Dump:
    other = path.with_name("other.sqlite")
    first_store(other, sessions, messages, damage_every=damage_every, fault=fault)
    migrate(other)
    return dump(other)


@pytest.mark.case("S86")
@pytest.mark.parametrize("step", KILLS)
def test_killed_at_any_step_the_file_is_the_old_one_and_the_next_start_gives_the_same_result(
    path: Path, run_dir: Path, step: int
) -> None:
    first_store(path, 24, 170, damage_every=6)
    before = dump(path)
    killed(path, run_dir / "faults", step)
    assert dump(path) == before
    migrate(path)
    assert dump(path) == undisturbed(path, 24, 170, 6)


def test_the_worker_killed_in_its_migration_serves_all_of_it_after_the_next_start(
    state: StateWorker, run_dir: Path
) -> None:
    bad = first_store(state.home.termal_db, 40, 200, damage_every=10)
    before = dump(state.home.termal_db)
    faults = run_dir / "faults"
    faults.mkdir()
    (faults / "migration.step").write_text("kill 60", "utf-8")
    with ControlPeer(MODULE, state.home.root, state.run_dir, faults=faults) as peer:
        assert peer.wait() == -signal.SIGKILL
        assert peer.said(Extend)
    assert dump(state.home.termal_db) == before
    state.start()
    assert state.process.said(Extend)
    shown = state.state()["sessions"]
    assert len(shown) == 40 - len(bad) == 36
    assert {known["messageCount"] for known in shown} == {200}
    state.reload()
    assert state.process.said(Extend) == []
    page = state.history("session-7", from_start=True)
    assert [known["id"] for known in page["messages"]] == [known["id"] for known in transcript(7, 64)]


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_two_hundred_sessions_with_three_hundred_thousand_messages_move_and_survive_ten_kills(
    path: Path, run_dir: Path
) -> None:
    bad = first_store(path, 200, 1500, damage_every=10, fault=ONE_IN_FIFTY)
    before = dump(path)
    for step in (1, 2, 50, 400, 1000, 1700, 2400, 3100, 3800, 4400):
        killed(path, run_dir / "faults", step)
        assert dump(path) == before
    registry = migrate(path)
    assert len(registry.sessions) == 200 - len(bad)
    assert all(record.count == 1500 for record in registry.sessions.values())
    assert dump(path) == undisturbed(path, 200, 1500, 10, ONE_IN_FIFTY)
