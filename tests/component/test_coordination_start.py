"""The coordination worker as a real process: its start, its refusals, its word to state, its end."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from termal.bus.server import Request
from termal.home import find_home, prepare
from termal.wire.control import EXIT_INTERNAL, EXIT_OK, EXIT_REFUSED, EXIT_USAGE, Beat, BootDone, Ready, Refused, Reload
from termal.wire.coordination_operations import COORDINATION_FACTS, COORDINATION_PING
from termal.wire.errors import Busy, InvalidRequest
from termal.wire.session_operations import COORDINATION_READY, PROMPT_SEND, CoordinationReady, SendPrompt
from termal.wire.turns import Anything
from tests.support.bus_peer import call, serving
from tests.support.control_peer import ControlPeer
from tests.support.coordination_rows import add_mailbox, coordination_file
from tests.support.waiting import wait_until

MODULE = "workers.coordination"


class State:
    """What the worker may ask of state; ``told`` are the announcements that arrived."""

    def __init__(self) -> None:
        self.told: list[int] = []
        self.refuse: Busy | None = None

    def handlers(self) -> dict[str, Callable[[Request, CoordinationReady], None]]:
        return {COORDINATION_READY.name: self._ready}

    def _ready(self, request: Request, record: CoordinationReady) -> None:
        self.told.append(record.highest_session)
        if self.refuse is not None:
            error, self.refuse = self.refuse, None
            raise error
        request.reply(Anything())


def database(home: Path) -> apsw.Connection:
    """The worker's file before its start, made by the test."""
    prepare(find_home(str(home)))
    return apsw.Connection(str(home / "coordination.sqlite"))


def test_a_fresh_home_gets_its_file_and_the_worker_serves_without_state(home_dir: Path, run_dir: Path) -> None:
    with ControlPeer(MODULE, home_dir, run_dir) as worker:
        worker.wait_for(Ready)
        assert call(run_dir, "coordination", COORDINATION_PING, Anything()) == Anything()
        facts = call(run_dir, "coordination", COORDINATION_FACTS, Anything())
        (file,) = facts.databases
        assert (file.name, file.schema_version) == ("coordination.sqlite", "1")
        assert file.bytes + file.wal_bytes > 0
        assert [(op.operation, op.outcome, op.count) for op in facts.operations] == [("coordination.ping", "ok", 1)]
        assert worker.said(BootDone) == []
        for name in ("coordination.sqlite", "coordination.sqlite-wal", "coordination.sqlite-shm"):
            assert stat.S_IMODE((home_dir / name).stat().st_mode) == 0o600


def test_each_new_state_is_told_the_highest_session_and_the_boot_ends_with_its_answer(
    home_dir: Path, run_dir: Path
) -> None:
    with coordination_file(home_dir) as connection:
        add_mailbox(connection, "session-9", "session-12")
        add_mailbox(connection, "session-0x", "guest")
    first, second = State(), State()
    with ControlPeer(MODULE, home_dir, run_dir) as worker:
        with serving(run_dir, "state", first.handlers()):
            worker.wait_for(BootDone)
            assert first.told == [12]
        with serving(run_dir, "state", second.handlers()):
            wait_until(lambda: second.told, "the next state to be told")
        assert second.told == [12]
        assert len(worker.said(BootDone)) == 1


def test_a_state_that_is_busy_is_told_again(home_dir: Path, run_dir: Path) -> None:
    state = State()
    state.refuse = Busy("not yet")
    with serving(run_dir, "state", state.handlers()), ControlPeer(MODULE, home_dir, run_dir) as worker:
        worker.wait_for(BootDone)
        assert state.told == [0, 0]


def test_a_replacement_reports_no_boot(home_dir: Path, run_dir: Path) -> None:
    state = State()
    with (
        serving(run_dir, "state", state.handlers()),
        ControlPeer(MODULE, home_dir, run_dir, start="replacement") as worker,
    ):
        wait_until(lambda: state.told, "state to be told")
        worker.forget_beats()
        worker.wait_for(Beat)
        assert worker.said(BootDone) == []


def test_a_stop_ends_with_exit_0_and_an_empty_log_file_of_writes(home_dir: Path, run_dir: Path) -> None:
    with ControlPeer(MODULE, home_dir, run_dir) as worker:
        worker.wait_for(Ready)
        assert worker.stop() == EXIT_OK
        assert worker.stderr() == ""
    wal = home_dir / "coordination.sqlite-wal"
    assert not wal.exists() or wal.stat().st_size == 0
    log = (home_dir / "logs" / "coordination.log").read_text()
    assert [line for line in ("worker.started", "worker.draining", "worker.stopped") if line not in log] == []


@pytest.mark.parametrize(
    ("version", "words"),
    [pytest.param("2", "'2'", marks=pytest.mark.case("C76")), ("", "''"), ("01", "'01'"), (None, "no schema version")],
    ids=["newer", "empty", "leading zero", "missing"],
)
def test_a_foreign_version_is_refused_and_the_file_is_untouched(
    home_dir: Path, run_dir: Path, version: str | None, words: str
) -> None:
    with database(home_dir) as connection:
        connection.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
        if version is not None:
            connection.execute("INSERT INTO meta VALUES ('coordination_schema_version', ?)", (version,))
    connection.close()
    before = (home_dir / "coordination.sqlite").read_bytes()
    with ControlPeer(MODULE, home_dir, run_dir) as worker:
        assert worker.wait() == EXIT_REFUSED
        (refused,) = worker.said(Refused)
        assert words in refused.message
        assert "'1'" in refused.message
        assert "coordination.sqlite" in refused.message
        assert worker.said(Ready) == []
    assert (home_dir / "coordination.sqlite").read_bytes() == before


def test_a_damaged_file_is_refused(home_dir: Path, run_dir: Path) -> None:
    prepare(find_home(str(home_dir)))
    file = home_dir / "coordination.sqlite"
    file.write_bytes(b"not a database at all" * 400)
    before = file.read_bytes()
    with ControlPeer(MODULE, home_dir, run_dir) as worker:
        assert worker.wait() == EXIT_REFUSED
        assert "damaged" in worker.said(Refused)[0].message
    assert file.read_bytes() == before


@pytest.mark.parametrize("name", ["coordination.sqlite", "coordination.sqlite-wal"])
def test_a_link_in_place_of_the_file_is_refused_also_with_the_override(
    home_dir: Path, run_dir: Path, name: str
) -> None:
    prepare(find_home(str(home_dir)))
    elsewhere = run_dir / "elsewhere"
    elsewhere.touch()
    (home_dir / name).symlink_to(elsewhere)
    override = {"TERMAL_ALLOW_INSECURE_STATE_PERMISSIONS": "1"}
    with ControlPeer(MODULE, home_dir, run_dir, environment=override) as worker:
        assert worker.wait() == EXIT_REFUSED
        assert "symbolic link" in worker.said(Refused)[0].message
    assert elsewhere.read_bytes() == b""


def test_a_wrong_configuration_is_refused_at_start_and_ignored_later(home_dir: Path, run_dir: Path) -> None:
    prepare(find_home(str(home_dir)))
    config = home_dir / "config.toml"
    config.write_text('durability = "sometimes"')
    with ControlPeer(MODULE, home_dir, run_dir) as worker:
        assert worker.wait() == EXIT_USAGE
        assert "durability" in worker.said(Refused)[0].message
    config.write_text('durability = "full"')
    log = home_dir / "logs" / "coordination.log"
    with ControlPeer(MODULE, home_dir, run_dir) as worker:
        worker.wait_for(Ready)
        config.write_text("durability = 3")
        worker.order(Reload())
        wait_until(lambda: "config.refused" in log.read_text(), "the slip to be logged")
        config.write_text("")
        worker.order(Reload())
        wait_until(lambda: "config.reloaded" in log.read_text(), "the configuration to be read")
        assert worker.stop() == EXIT_OK


def test_a_second_life_of_the_role_does_not_open_the_file(home_dir: Path, run_dir: Path) -> None:
    with ControlPeer(MODULE, home_dir, run_dir) as first:
        first.wait_for(Ready)
        with ControlPeer(MODULE, home_dir, run_dir) as second:
            assert second.wait() == EXIT_INTERNAL
            assert "RoleTaken" in second.stderr()
        assert call(run_dir, "coordination", COORDINATION_PING, Anything()) == Anything()


def test_a_killed_worker_is_replaced_on_the_same_file(home_dir: Path, run_dir: Path) -> None:
    with ControlPeer(MODULE, home_dir, run_dir) as worker:
        worker.wait_for(Ready)
        worker.kill()
    with ControlPeer(MODULE, home_dir, run_dir, start="replacement") as worker:
        worker.wait_for(Ready)
        facts = call(run_dir, "coordination", COORDINATION_FACTS, Anything())
        assert facts.databases[0].schema_version == "1"


@pytest.mark.parametrize("portable", [False, True], ids=["native", "portable"])
def test_the_worker_ends_when_its_supervisor_is_gone(home_dir: Path, run_dir: Path, portable: bool) -> None:
    with ControlPeer(MODULE, home_dir, run_dir, portable=portable) as worker:
        worker.wait_for(Ready)
        worker.hang_up()
        assert worker.process.wait(5) != 0


def test_an_abort_leaves_the_stacks_on_stderr(home_dir: Path, run_dir: Path) -> None:
    with ControlPeer(MODULE, home_dir, run_dir) as worker:
        worker.wait_for(Ready)
        os.kill(worker.pid, signal.SIGABRT)
        assert worker.wait() == -signal.SIGABRT
        assert "Current thread" in worker.stderr()
        assert "loop.py" in worker.stderr()


def test_an_operation_of_another_worker_is_refused(home_dir: Path, run_dir: Path) -> None:
    with ControlPeer(MODULE, home_dir, run_dir) as worker:
        worker.wait_for(Ready)
        with pytest.raises(InvalidRequest, match="no operation"):
            call(run_dir, "coordination", PROMPT_SEND, SendPrompt(key="k", session_id="session-1", text="x"))


def test_the_program_without_a_launch_says_how_it_is_started() -> None:
    environment = {key: value for key, value in os.environ.items() if key != "TERMAL_LAUNCH"}
    ended = subprocess.run(
        [sys.executable, "-m", MODULE], env=environment, capture_output=True, text=True, timeout=10, check=False
    )
    assert ended.returncode == EXIT_USAGE
    assert "termal serve" in ended.stderr
