"""Stands between a worker and one agent and owns the agent's whole process tree for one purpose: nothing survives.

A program of its own, standard library only: ``python -S -E -I shim.py [--grace S] [--parent PID] [--portable] --
PROGRAM ARGUMENTS`` (`termal.procs.agent.shim_argv` builds that line). The agent's stdin, stdout and stderr are the
shim's, which closes its own copies. Exit status: the agent's, 128 + n after signal n, 126 or 127 when it cannot be run.
SIGTERM: the agent gets SIGTERM, after the grace its tree is killed. The death of the parent kills the tree at once.
Linux: the shim is subreaper, so whatever an agent forks off stays below it. Portable: the tree is what ``ps`` shows by
descent, group and environment, and a guardian process outlives a killed shim.
"""

# pathlib would add a third to the time that the shim takes to start.
# ruff: noqa: PTH123, PTH208

import contextlib
import os
import select
import signal
import sys
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PARENT_DIED = signal.SIGUSR1
_MARK = "TERMAL_SHIM"
_DEFAULT_GRACE_S = 2.0
_PARENT_POLL_S = 0.2
_SWEEP_PAUSE_S = 0.01
_DEAD: tuple[list[str], ...] = ([], ["Z"], ["X"])
_UNENDABLE_PASSES = 100
"""So many passes without anything that may be killed: the rest belongs to other users, and waiting is in vain."""


class LinuxTree:
    """Everything below this process, which is a subreaper: whatever loses its parent comes here."""

    def __init__(self) -> None:
        import ctypes  # noqa: PLC0415 - not wanted in the portable way

        self._prctl = ctypes.CDLL(None).prctl
        self._prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._prctl(_PR_SET_PDEATHSIG, int(_PARENT_DIED), 0, 0, 0)
        self.parent_poll_s: float | None = None

    def before_exec(self, shim: int) -> None:
        self._prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != shim:
            os._exit(1)

    def started(self, agent: int) -> None:
        """All that descends from this process is the tree."""

    def members(self) -> list[int]:
        found: list[int] = []
        level = [os.getpid()]
        while level:
            level = [child for parent in level for child in _children(parent) if child not in found]
            found += level
        return [pid for pid in found if _stat(pid)[:1] not in _DEAD]

    def done(self) -> None:
        """Nothing to dismiss."""


class PortableTree:
    """What ``ps`` shows: descendants and groups of what is known already, and whoever carries this shim's mark."""

    def __init__(self) -> None:
        self.parent_poll_s: float | None = _PARENT_POLL_S
        self._mark = f"{os.getpid()}-{time.time_ns()}"
        self._known: set[int] = set()
        self._spared = {os.getpid(), os.getppid()}
        self._guardian_write = -1

    def before_exec(self, shim: int) -> None:
        os.environ[_MARK] = self._mark

    def started(self, agent: int) -> None:
        self._known.add(agent)
        read, self._guardian_write = os.pipe()
        if os.fork() == 0:
            os.close(self._guardian_write)
            self._guard(read)
        os.close(read)

    def members(self) -> list[int]:
        rows = _ps_rows()
        found = self._known & {pid for pid, _, _ in rows}
        found |= _marked(f"{_MARK}={self._mark}")
        found -= self._spared
        before = -1
        while len(found) != before:
            before = len(found)
            found |= {pid for pid, parent, group in rows if parent in found or group in found} - self._spared
        self._known |= found
        return sorted(found)

    def done(self) -> None:
        # A word, not the end of file: the guardian has nothing to do, or was killed itself.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._guardian_write, b"done")

    def _guard(self, read: int) -> None:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        self._spared.add(os.getpid())
        if not os.read(read, 8):
            kill_all(self)
        os._exit(0)


Tree = LinuxTree | PortableTree


def kill_all(tree: Tree) -> None:
    """SIGKILL until nothing is left, or only what may not be killed."""
    vain = 0
    while vain < _UNENDABLE_PASSES:
        members = tree.members()
        _reap()
        if not members:
            return
        killed = [pid for pid in members if _signal(pid, signal.SIGKILL)]
        vain = 0 if killed else vain + 1
        time.sleep(_SWEEP_PAUSE_S)


def _reap() -> dict[int, int]:
    """Statuses of the children that ended, as the exit status they are reported with."""
    found: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        code = os.waitstatus_to_exitcode(status)
        found[pid] = code if code >= 0 else 128 - code


def _signal(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _children(pid: int) -> list[int]:
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    found: list[int] = []
    for task in tasks:
        try:
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                found += [int(child) for child in file.read().split()]
        except FileNotFoundError:
            return _children_by_scan(pid)
        except OSError:
            continue
    return found


def _children_by_scan(parent: int) -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal() and _stat(int(name))[1:2] == [str(parent)]]


def _stat(pid: int) -> list[str]:
    """State, parent and so on; empty when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return []
    return text[text.rindex(b")") + 2 :].decode().split()


def _ps(*arguments: str) -> list[str]:
    import subprocess  # noqa: PLC0415 - 10 ms at the start of every agent otherwise

    command = ["ps", *arguments]
    try:
        answer = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError:
        # Without a ps the agent's group was killed all the same.
        return []
    return os.fsdecode(answer.stdout).splitlines()


def _ps_rows() -> list[tuple[int, int, int]]:
    """Pid, parent and group of everything alive."""
    rows = [line.split() for line in _ps("-axo", "pid=,ppid=,pgid=,stat=")]
    return [(int(row[0]), int(row[1]), int(row[2])) for row in rows if len(row) > 3 and not row[3].startswith("Z")]


def _marked(entry: str) -> set[int]:
    # The environment comes after the command, words divided by blanks; the mark itself has none.
    lines = (line.split() for line in _ps("axeww", "-o", "pid=,command="))
    return {int(words[0]) for words in lines if entry in words[1:]}


def run(program: list[str], grace_s: float, parent: int, tree: Tree) -> int:
    """Start the agent, wait for its end, for SIGTERM or for the parent's death, and end its tree; the exit status."""
    wake = _watch_signals()
    if os.getppid() != parent:
        return 128 + signal.SIGKILL
    agent = _start(program, tree)
    _let_go_of_the_pipes()
    tree.started(agent)
    status = _wait_for_the_end(agent, grace_s, parent, (wake, tree.parent_poll_s))
    if status is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(agent, signal.SIGKILL)
    kill_all(tree)
    tree.done()
    return 128 + signal.SIGKILL if status is None else status


def _wait_for_the_end(agent: int, grace_s: float, parent: int, watch: tuple[int, float | None]) -> int | None:
    """The agent's exit status, None when it is to be killed."""
    wake, poll_s = watch
    kill_at: float | None = None
    while os.getppid() == parent:
        pauses = [pause for pause in (poll_s, kill_at and max(0.0, kill_at - time.monotonic())) if pause is not None]
        numbers = _read_signals(wake, min(pauses, default=None))
        status = _reap().get(agent)
        if status is not None:
            return status
        if signal.SIGTERM in numbers:
            if kill_at is not None:
                return None
            kill_at = time.monotonic() + grace_s
            _signal(agent, signal.SIGTERM)
        if kill_at is not None and time.monotonic() >= kill_at:
            return None
    return None


def _watch_signals() -> int:
    """A descriptor that has a byte for each signal of interest."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    for number in (signal.SIGTERM, signal.SIGCHLD, _PARENT_DIED):
        signal.signal(number, _note)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    return read


def _note(number: int, frame: object) -> None:
    """The byte on the descriptor is all that is wanted of a signal."""


def _read_signals(wake: int, wait_s: float | None) -> bytes:
    select.select([wake], [], [], wait_s)
    try:
        return os.read(wake, 4096)
    except BlockingIOError:
        return b""


def _start(program: list[str], tree: Tree) -> int:
    shim = os.getpid()
    agent = os.fork()
    if agent:
        return agent
    os.setsid()
    tree.before_exec(shim)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(program[0], program)  # noqa: S606 - no shell is wanted
    except OSError as error:
        os.write(2, f"termal: {program[0]} cannot be run: {error.strerror}\n".encode())
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def _let_go_of_the_pipes() -> None:
    # The end of file must reach the other side when the agent closes its end, not when the shim ends.
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)


def main(arguments: list[str]) -> int:
    divider = arguments.index("--")
    options, program = arguments[:divider], arguments[divider + 1 :]
    grace_s = float(options[options.index("--grace") + 1]) if "--grace" in options else _DEFAULT_GRACE_S
    parent = int(options[options.index("--parent") + 1]) if "--parent" in options else os.getppid()
    if os.getpid() != os.getsid(0):
        # Nobody who kills the worker's group may kill the shim before the agent.
        with contextlib.suppress(PermissionError):
            os.setsid()
    portable = "--portable" in options or sys.platform != "linux"
    return run(program, grace_s, parent, PortableTree() if portable else LinuxTree())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
