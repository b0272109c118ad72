"""A worker of a test tree: a small real process with at most one vice, named by its arguments.

``tiny_worker.py VICE [ARGUMENT]``. Each start is noted as one JSON line in ``HOME/starts.NAME``, what it is told in
``HOME/told.NAME``. Where there is a FIFO ``HOME/life`` it writes the first
letter of its name to it and holds it open as long as it lives.
"""

import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from termal.procs.agent import shim_argv
from termal.procs.death import tie_to_parent, worker_signals
from termal.wire.control import (
    Beat,
    BootDone,
    Extend,
    Go,
    Need,
    Peers,
    Ready,
    Refused,
    Stop,
    ToSupervisor,
    decode_to_worker,
    encode_line,
)
from termal.wire.launch import Launch

BEAT_S = 0.1
AGENT = str(Path(__file__).with_name("agents_tree.py"))


class TinyWorker:
    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.home = Path(launch.home)
        self.control = socket.socket(fileno=launch.control_fd)
        self.deaf = False

    def note(self, file: str, record: object) -> None:
        with (self.home / f"{file}.{self.launch.name}").open("ab") as notes:
            notes.write(msgspec.json.encode(record) + b"\n")

    def starts(self) -> int:
        return len((self.home / f"starts.{self.launch.name}").read_bytes().splitlines())

    def say(self, line: ToSupervisor) -> None:
        self.control.sendall(encode_line(line) + b"\n")

    def wait_for_go(self) -> None:
        line = b""
        while byte := self.control.recv(1):
            line += byte
            if byte == b"\n":
                order, line = decode_to_worker(line), b""
                if isinstance(order, Go):
                    return
                if isinstance(order, Stop):
                    os._exit(0)
        os._exit(1)

    def serve(self, *, beats: bool = True) -> None:
        """Until told to stop, or the supervisor is gone."""
        received = b""
        while True:
            if beats:
                self.say(Beat(queue_depth=3, p50_ms=0.5, p99_ms=2.5, facts={"kept": 7}))
            readable, _, _ = select.select([self.control], [], [], BEAT_S)
            if not readable:
                continue
            data = self.control.recv(65536)
            if not data:
                os._exit(1)
            *lines, received = (received + data).split(b"\n")
            for line in lines:
                self.obey(line)

    def obey(self, line: bytes) -> None:
        order = decode_to_worker(line)
        self.note("told", order.running if isinstance(order, Peers) else type(order).__name__)
        if isinstance(order, Stop) and not self.deaf:
            # Not sys.exit: a SIGTERM that comes while Python winds down would be the end that is reported.
            os._exit(0)


def run(worker: TinyWorker, vice: str, argument: str) -> None:
    if vice == "exits":
        sys.stderr.write("the last words\nAPI_TOKEN=abcdef\n")
        sys.exit(int(argument))
    if vice == "refuses" or (vice == "refuses-later" and worker.starts() > 1):
        worker.say(Refused("the file is of another program"))
        sys.exit(65)
    if vice == "never-ready":
        worker.serve(beats=False)
    if vice == "fails-first" and worker.starts() <= int(argument):
        sys.exit(1)
    if vice == "extends":
        worker.say(Extend(float(argument), "migrating"))
        time.sleep(min(float(argument) * 0.5, 1.5))
    if vice == "drains":
        # What SIGTERM means to a program that reads no control line in its main process.
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    worker.say(Ready())
    worker.say(BootDone())
    if vice == "silent":
        worker.serve(beats=False)
    if vice == "blocked":
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGABRT, signal.SIGTERM])
        time.sleep(600)
    if vice == "dies-ready":
        sys.exit(int(argument))
    if vice == "needs":
        worker.say(Need(argument))
        worker.say(Need("no-such-worker"))
    if vice == "garbage":
        worker.control.sendall(b'{"t":"beat","queueDepth":"x"}\nnot json\n\xff\xfe\n[]\n{"t":"stop","deadline":1}\n')
    if vice == "babbles":
        while True:
            worker.control.sendall(b"blah\n" * 5000)
    if vice == "long-line":
        worker.control.sendall(b"x" * (300 << 10))
    if vice == "daemonises":
        subprocess.run([sys.executable, "-S", AGENT, "daemon"], check=True)
    if vice in ("agent", "plain-agent"):
        start_agent(worker, vice)
    worker.deaf = vice == "deaf"
    worker.serve()


def start_agent(worker: TinyWorker, vice: str) -> None:
    argv = [sys.executable, "-S", AGENT, "agent"]
    command = shim_argv(argv, portable=worker.launch.portable) if vice == "agent" else argv
    agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    worker.note("agent", agent.pid)


def main() -> None:
    launch = Launch.from_environment(os.environ)
    worker_signals()
    tie_to_parent(launch.control_fd, launch.portable)
    worker = TinyWorker(launch)
    if launch.wait:
        worker.wait_for_go()
    worker.note("starts", {"pid": os.getpid(), "start": launch.start, "running": launch.running})
    worker.note("launch", launch)
    worker.note("environment", dict(os.environ))
    life = worker.home / "life"
    if life.exists():
        os.environ["TEST_LIFE"] = str(life)
        os.write(os.open(life, os.O_WRONLY), launch.name[:1].encode())
    if launch.listen_fd is not None:
        worker.note(
            "listens", socket.socket(fileno=launch.listen_fd).getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        )
    run(worker, sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "")


if __name__ == "__main__":
    main()
