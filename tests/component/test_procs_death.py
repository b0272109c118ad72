"""Children of the supervisor: what they inherit, how their end is learned, and that they never outlive their parent."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from termal.procs.signals import KILL, TERMINATE
from termal.procs.spawn import Child, Exit, spawn
from tests.support.supervised import Life, life
from tests.support.waiting import wait_until

AGENT = [sys.executable, "-S", str(Path(__file__).parent.parent / "support" / "agents_tree.py")]


@pytest.fixture(params=[False, True], ids=["linux", "portable"])
def portable(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def alive(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Life]:
    with life(run_dir) as made:
        monkeypatch.setenv("TEST_LIFE", str(run_dir / "life"))
        yield made


def run(
    argv: list[str], output: Path, *, keep_fds: tuple[int, ...] = (), environment: dict[str, str] | None = None
) -> Child:
    fd = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        return spawn(argv, environment=environment or dict(os.environ), output_fd=fd, keep_fds=keep_fds)
    finally:
        os.close(fd)


def test_a_child_gets_the_named_descriptors_and_variables_and_nothing_else_of_ours(run_dir: Path) -> None:
    kept, other = socket.socketpair()
    stray = os.open(run_dir, os.O_RDONLY)
    os.set_inheritable(stray, True)
    code = (
        "import os, select\npoller = select.poll()\n[poller.register(fd, 0) for fd in range(200)]\n"
        "closed = {fd for fd, event in poller.poll(0) if event & select.POLLNVAL}\n"
        "descriptors = [fd for fd in range(200) if fd not in closed]\n"
        "print(descriptors, dict(os.environ), os.getsid(0) == os.getpid())\n"
    )
    child = run(
        [sys.executable, "-S", "-c", code],
        run_dir / "out",
        keep_fds=(kept.fileno(),),
        environment={"ONLY": "this", "LC_ALL": "C.UTF-8"},
    )
    wait_until(child.poll, "the child to end")
    assert (run_dir / "out").read_text() == f"[0, 1, 2, {kept.fileno()}] {{'ONLY': 'this', 'LC_ALL': 'C.UTF-8'}} True\n"
    os.close(stray)
    kept.close()
    other.close()


@pytest.mark.parametrize(
    ("code", "how"), [("raise SystemExit(3)", Exit(3, None)), ("import os; os.kill(os.getpid(), 9)", Exit(None, 9))]
)
def test_how_a_child_ended_is_told_as_often_as_it_is_asked(run_dir: Path, code: str, how: Exit) -> None:
    child = run([sys.executable, "-S", "-c", code], run_dir / "out")
    assert wait_until(child.poll, "the child to end") == how
    assert child.poll() == how
    assert child.signal(TERMINATE) is False
    assert child.signal_group(KILL) is False


def test_the_rest_of_its_group_dies_with_a_child(run_dir: Path, alive: Life) -> None:
    code = f"import subprocess; subprocess.Popen({[*AGENT, 'lonely']!r}); input()"
    child = run([sys.executable, "-c", code], run_dir / "out")
    wait_until(child.poll, "the child to end")
    wait_until(alive.all_dead, "its own child to be killed")


def test_a_program_that_does_not_exist_is_an_error_here_and_no_child(run_dir: Path) -> None:
    with pytest.raises(FileNotFoundError):
        run(["/no/such/program"], run_dir / "out")


TIED = """
import os, socket, sys, time
from termal.procs.death import tie_to_parent, worker_signals
worker_signals()
tie_to_parent(int(sys.argv[1]), sys.argv[2] == "portable")
os.write(os.open(os.environ["TEST_LIFE"], os.O_WRONLY), b"w")
time.sleep(600)
"""
PARENT = """
import os, socket, subprocess, sys, time
ours, theirs = socket.socketpair()
fd = theirs.fileno()
subprocess.Popen([sys.executable, "-c", sys.argv[1], str(fd), sys.argv[2]], pass_fds=[fd], start_new_session=True)
theirs.close()
sys.stdin.read(1)
ours.close()
time.sleep(600)
"""


@pytest.fixture
def parent(alive: Life, portable: bool) -> Iterator["subprocess.Popen[bytes]"]:
    """Has a child that is tied to it and blocked: its main loop will never look at anything again."""
    way = "portable" if portable else "linux"
    started = subprocess.Popen([sys.executable, "-c", PARENT, TIED, way], stdin=subprocess.PIPE)
    alive.wait_for("w")
    yield started
    started.kill()
    started.communicate()


def test_a_blocked_worker_dies_with_its_parent(parent: "subprocess.Popen[bytes]", alive: Life) -> None:
    parent.kill()
    wait_until(alive.all_dead, "the worker to be dead")


def test_portably_the_end_of_the_control_socket_is_the_death_of_the_parent(alive: Life) -> None:
    started = subprocess.Popen([sys.executable, "-c", PARENT, TIED, "portable"], stdin=subprocess.PIPE)
    alive.wait_for("w")
    assert started.stdin is not None
    started.stdin.write(b"x")
    started.stdin.flush()
    wait_until(alive.all_dead, "the worker to be dead")
    started.kill()
    started.communicate()


def test_a_worker_whose_parent_died_before_it_was_tied_ends_at_once(portable: bool) -> None:
    ours, theirs = socket.socketpair()
    fd = theirs.fileno()
    os.set_inheritable(fd, True)
    ours.close()
    code = f"from termal.procs.death import tie_to_parent; tie_to_parent({fd}, {portable}); print('lives')"
    ended = subprocess.run([sys.executable, "-c", code], pass_fds=[fd], capture_output=True, check=False)
    theirs.close()
    assert (ended.returncode, ended.stdout) == (1, b"")


def test_ctrl_c_and_hang_up_in_a_terminal_do_not_reach_a_worker_but_sigterm_does(run_dir: Path) -> None:
    code = (
        "import time\nfrom termal.procs.death import worker_signals\n"
        "worker_signals()\nprint('up', flush=True)\ntime.sleep(600)\n"
    )
    child = run([sys.executable, "-c", code], run_dir / "out")
    wait_until((run_dir / "out").read_text, "the worker to be up")
    for number in (signal.SIGINT, signal.SIGHUP):
        child.signal(number)
    assert child.poll() is None
    child.signal(TERMINATE)
    assert wait_until(child.poll, "the worker to end") == Exit(None, signal.SIGTERM)
