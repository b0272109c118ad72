"""A worker in its own process that can be killed or frozen: ``python -m tests.support.bus_server RUN_DIR ROLE MODE``.

It notes each request that it starts in ``ROLE.seen`` (operation and key, one a line), and answers it
(mode ``answer``) or never does (mode ``hold``). Prints ``ready`` when it serves, ``taken`` when the role is.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from termal.bus.loop import PollLoop
from termal.bus.server import Request, Server
from termal.bus.sockets import RoleTaken
from termal.log import Log
from termal.wire.operations import OPERATIONS
from termal.wire.turns import Held, JsonReply, TurnConfirmed

ROOT = Path(__file__).parents[2]
_REPLIES: dict[type, Any] = {
    JsonReply: JsonReply(b"{}"),
    Held: Held("runtime", []),
    TurnConfirmed: TurnConfirmed("turn", 1),
}


class WorkerProcess:
    """One life of the worker. ``said`` is its first line."""

    def __init__(self, run_dir: Path, role: str, mode: str) -> None:
        argv = [sys.executable, "-m", "tests.support.bus_server", str(run_dir), role, mode]
        self._process = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.said = self._process.stdout.readline().strip()

    def kill(self) -> None:
        """SIGKILL; returns when the process is gone."""
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self.kill()
        if self._process.stdout is not None:
            self._process.stdout.close()


def seen(run_dir: Path, role: str) -> list[str]:
    """The requests that any life of the role has started, in order."""
    try:
        return (run_dir / f"{role}.seen").read_text("utf-8").splitlines()
    except FileNotFoundError:
        return []


def main() -> None:
    run_dir, role, mode = sys.argv[1:]
    notes = os.open(Path(run_dir) / f"{role}.seen", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def handle(request: Request, record: msgspec.Struct) -> None:
        key = getattr(record, "key", getattr(record, "session_id", ""))
        os.write(notes, f"{request.op.name} {key}\n".encode())
        if mode != "hold":
            reply = _REPLIES.get(request.op.reply)
            request.reply(request.op.reply() if reply is None else reply)

    loop = PollLoop()
    try:
        Server(loop, run_dir, role, dict.fromkeys(OPERATIONS, handle), log=Log(role))
    except RoleTaken:
        print("taken", flush=True)  # noqa: T201
        loop.close()
        return
    print("ready", flush=True)  # noqa: T201
    loop.run()


if __name__ == "__main__":
    main()
