"""What systemd wants to hear of a service: datagrams to the socket that it names. Silent without one."""

import os
import socket
import time
from collections.abc import Mapping

VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES")
"""Meant for the daemon alone: a child that inherits them would speak for it."""


class Notifier:
    """``watchdog_s`` is how often `watchdog` is to be called (half of the service's limit), None without a watchdog."""

    def __init__(self, environment: Mapping[str, str], pid: int | None = None) -> None:
        self._address = _address(environment.get("NOTIFY_SOCKET", ""))
        self.watchdog_s = _watchdog_s(environment, os.getpid() if pid is None else pid)

    def ready(self, status: str) -> None:
        self._send("READY=1", _status(status))

    def status(self, text: str) -> None:
        self._send(_status(text))

    def watchdog(self) -> None:
        self._send("WATCHDOG=1")

    def reloading(self) -> None:
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def _send(self, *lines: str) -> None:
        if self._address is None:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.setblocking(False)
                sender.sendto("\n".join(lines).encode(), self._address)
        except OSError:
            # Nobody listens any more: the service manager learns the rest from the exit status.
            pass


def _address(named: str) -> str | None:
    if not named.startswith(("/", "@")):
        return None
    return "\0" + named[1:] if named.startswith("@") else named


def _watchdog_s(environment: Mapping[str, str], pid: int) -> float | None:
    limit, for_pid = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", str(pid))
    if not limit.isdecimal() or int(limit) == 0 or for_pid != str(pid):
        return None
    return int(limit) / 2e6


def _status(text: str) -> str:
    return "STATUS=" + text.replace("\n", " ")
