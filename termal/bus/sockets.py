"""Settings of every socket, each measured, and the paths and locks of the roles."""

import fcntl
import os
from pathlib import Path
from typing import Any

import zmq

from termal.wire.envelope import MAX_MESSAGE_BYTES

HIGH_WATER_REQUESTS = 1000
"""Packed messages waiting for one peer. Beyond it a send answers EAGAIN and the bus keeps what it has."""
HIGH_WATER_EVENTS = 100_000
"""A burst of 100,000 events lost 94 % with the default of 1,000 and none with this; memory instead."""
RECONNECT_MS = 10
"""7-12 ms until a restarted peer is heard again; the default of 100 costs 84-96."""
DRAIN = 256
"""Messages taken from one socket in one pass, so that the other sockets get their turn."""


class RoleTaken(Exception):
    """Another live process serves this role: a second bind on its path would succeed silently and split the callers."""


def endpoint(run_dir: str | Path, role: str) -> str:
    return f"ipc://{run_dir}/{role}.sock"


def events_endpoint(run_dir: str | Path, role: str) -> str:
    return f"ipc://{run_dir}/{role}.events"


def configure(socket: "zmq.Socket[bytes]", high_water: int = HIGH_WATER_REQUESTS) -> None:
    """LINGER=0 (the default hangs a closing context for ever), explicit high-water marks, a bound on one message."""
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.SNDHWM, high_water)
    socket.setsockopt(zmq.RCVHWM, high_water)
    socket.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)


def configure_caller(socket: "zmq.Socket[Any]") -> None:
    """IMMEDIATE: a send to an absent peer answers EAGAIN instead of being queued past its deadline."""
    socket.setsockopt(zmq.IMMEDIATE, 1)
    socket.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS)


def settle(socket: "zmq.Socket[Any]") -> None:
    """Have the socket take notice of connections that came and went. It does so by itself only every few milliseconds:
    until then a send may go into the pipe of a peer that is gone, or be refused though the new peer is there."""
    socket.getsockopt(zmq.EVENTS)


class RoleLock:
    """An flock on a role's file, taken before the bind; the kernel frees it when the process ends."""

    def __init__(self, run_dir: str | Path, role: str) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(Path(run_dir) / f"{role}.lock", flags, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._fd)
            raise RoleTaken(f"another process serves {role}") from error

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
