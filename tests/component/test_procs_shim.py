"""The shim in front of an agent, both ways: what it passes on, and that nothing of the agent's tree survives."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from termal.procs.agent import shim_argv, write_shim_launcher
from tests.support.supervised import Life, life
from tests.support.waiting import wait_until

AGENT = [sys.executable, "-S", str(Path(__file__).parent.parent / "support" / "agents_tree.py")]
WHOLE_TREE = "acd"


@pytest.fixture(params=[False, True], ids=["linux", "portable"])
def portable(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def alive(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Life]:
    with life(run_dir) as made:
        monkeypatch.setenv("TEST_LIFE", str(run_dir / "life"))
        yield made


def start(argv: list[str], *, portable: bool, grace_s: float = 2.0) -> "subprocess.Popen[bytes]":
    command = shim_argv(argv, portable=portable, grace_s=grace_s)
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_stdin_stdout_and_the_exit_status_are_the_agents_and_its_leftovers_die_with_it(
    alive: Life, portable: bool
) -> None:
    shim = start([*AGENT, "agent"], portable=portable)
    alive.wait_for(WHOLE_TREE)
    said, _ = shim.communicate(b"hello\n", timeout=5)
    assert (said, shim.returncode) == (b"echo hello\n", 7)
    wait_until(alive.all_dead, "the child and the daemon to die with the agent")


def test_sigterm_to_the_shim_ends_the_agent_and_then_everything_that_it_started(alive: Life, portable: bool) -> None:
    shim = start([*AGENT, "agent"], portable=portable)
    alive.wait_for(WHOLE_TREE)
    shim.terminate()
    # Its stdin stays open until then: the end of it would end the agent in another way.
    shim.wait(5)
    shim.communicate(timeout=5)
    assert shim.returncode == 128 + signal.SIGTERM
    wait_until(alive.all_dead, "the whole tree to be dead")


def test_an_agent_that_ignores_sigterm_is_killed_after_the_grace(alive: Life, portable: bool) -> None:
    shim = start([*AGENT, "stubborn"], portable=portable, grace_s=0.1)
    alive.wait_for(WHOLE_TREE)
    shim.terminate()
    shim.wait(5)
    shim.communicate(timeout=5)
    assert shim.returncode == 128 + signal.SIGKILL
    wait_until(alive.all_dead, "the whole tree to be dead")


def test_a_second_sigterm_does_not_wait_for_the_grace(alive: Life, portable: bool) -> None:
    shim = start([*AGENT, "stubborn"], portable=portable, grace_s=600.0)
    alive.wait_for(WHOLE_TREE)
    shim.terminate()

    def ended() -> bool:
        shim.terminate()
        return shim.poll() is not None

    wait_until(ended, "the shim to end")
    shim.communicate(timeout=5)
    wait_until(alive.all_dead, "the whole tree to be dead")


def test_the_death_of_its_parent_kills_the_tree_at_once(alive: Life, portable: bool, run_dir: Path) -> None:
    program = (
        "import os, subprocess, sys\n"
        "from termal.procs.agent import shim_argv\n"
        f"argv = shim_argv({[*AGENT, 'stubborn']!r}, portable={portable}, grace_s=600.0)\n"
        "subprocess.Popen(argv, stdin=subprocess.PIPE)\n"
        "sys.stdin.read()\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
    alive.wait_for(WHOLE_TREE)
    parent.kill()
    parent.communicate()
    wait_until(alive.all_dead, "the tree of the dead parent to be dead")


def test_a_killed_shim_takes_its_tree_with_it_where_no_subreaper_does(alive: Life) -> None:
    shim = start([*AGENT, "agent"], portable=True)
    alive.wait_for(WHOLE_TREE)
    shim.kill()
    shim.communicate()
    wait_until(alive.all_dead, "the guardian to end the tree of the killed shim")


@pytest.mark.parametrize(
    ("program", "status", "words"),
    [
        ("/no/such/program", 127, "No such file"),
        (__file__, 126, "Permission denied"),
        ("no-such-program-anywhere", 127, "No such"),
    ],
)
def test_a_program_that_cannot_be_run_is_said_on_stderr(program: str, status: int, words: str, portable: bool) -> None:
    shim = start([program], portable=portable)
    _, errors = shim.communicate(timeout=5)
    assert shim.returncode == status
    assert words in errors.decode()


@pytest.mark.parametrize(("code", "status"), [("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", 137)])
def test_the_status_of_an_agent_that_ended_by_itself_is_passed_on(code: str, status: int, portable: bool) -> None:
    shim = start([sys.executable, "-S", "-c", code], portable=portable)
    shim.communicate(timeout=5)
    assert shim.returncode == status


def test_the_end_of_file_reaches_both_sides_while_the_shim_lives(portable: bool) -> None:
    code = "import os, sys, time; sys.stdin.read(); os.close(1); os.close(2); time.sleep(600)"
    shim = start([sys.executable, "-c", code], portable=portable, grace_s=0.1)
    assert shim.stdin is not None
    assert shim.stdout is not None
    shim.stdin.close()
    assert shim.stdout.read() == b""
    assert shim.poll() is None
    shim.terminate()
    shim.wait(5)
    assert shim.stderr is not None
    for pipe in (shim.stdout, shim.stderr):
        pipe.close()


def test_the_agent_leads_a_session_of_its_own_and_ignores_no_signal(portable: bool) -> None:
    code = (
        "import os, signal\n"
        "watched = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE]\n"
        "ignored = [number.name for number in watched if signal.getsignal(number) == signal.SIG_IGN]\n"
        "print(os.getpid() == os.getsid(0), os.getsid(os.getppid()) == os.getppid(), ignored)\n"
    )
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGHUP)}
    try:
        shim = start([sys.executable, "-S", "-c", code], portable=portable)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    said, _ = shim.communicate(timeout=5)
    # Python itself ignores SIGPIPE.
    assert said == b"True True ['SIGPIPE']\n"


def test_a_shim_that_was_started_by_a_dead_worker_runs_nothing(run_dir: Path, portable: bool) -> None:
    command = shim_argv(
        [sys.executable, "-S", "-c", f"open({str(run_dir / 'ran')!r}, 'w').close(); input()"], portable=portable
    )
    position = command.index("--parent") + 1
    ended = subprocess.run([*command[:position], "1", *command[position + 1 :]], stdin=subprocess.DEVNULL, check=False)
    assert ended.returncode == 128 + signal.SIGKILL
    assert not (run_dir / "ran").exists()


def test_the_launcher_passes_arguments_untouched_and_the_agent_dies_like_under_the_shim(
    alive: Life, run_dir: Path, portable: bool
) -> None:
    code = "import json, sys; print(json.dumps(sys.argv[1:]))"
    launcher = write_shim_launcher(run_dir / "claude", [sys.executable, "-S", "-c", code, "first"], portable=portable)
    assert launcher.stat().st_mode & 0o777 == 0o700
    arguments = ["a b", "$(exit 3)", "'quoted'", '"', "--grace", "-S", "é", ""]
    said = subprocess.run([launcher, *arguments], capture_output=True, check=True).stdout
    assert said.decode() == '["first", "a b", "$(exit 3)", "\'quoted\'", "\\"", "--grace", "-S", "\\u00e9", ""]\n'
    again = write_shim_launcher(launcher, [*AGENT, "agent"], portable=portable)
    agent = subprocess.Popen([again], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    alive.wait_for(WHOLE_TREE)
    agent.communicate(timeout=5)
    assert agent.returncode == 7
    wait_until(alive.all_dead, "the whole tree to be dead")


def test_the_launcher_works_for_an_interpreter_whose_path_no_shebang_can_hold(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = run_dir / f"it's a {'long ' * 25}folder" / "python"
    odd.parent.mkdir()
    odd.symlink_to(os.path.realpath(sys.executable))
    monkeypatch.setattr(sys, "executable", str(odd))
    launcher = write_shim_launcher(run_dir / "agent", ["/bin/echo", "hello"])
    assert subprocess.run([launcher, "you"], capture_output=True, check=True).stdout == b"hello you\n"
