"""What one start of the daemon has settled on, and what each worker of it is told."""

import socket
from pathlib import Path
from typing import NamedTuple

from termal import __version__
from termal.home import Home
from termal.procs.notify import VARIABLES
from termal.wire.launch import AuthKind, Launch, StartKind

VERSION = __version__
_NOT_PASSED = frozenset({*VARIABLES, "PYTHONDONTWRITEBYTECODE"})
"""A worker that compiles its modules anew at every start takes twice as long to be back after a crash."""


class Setting(NamedTuple):
    """``bound``: the TCP socket, not yet listening. ``environment``: the daemon's own. ``started_at``: RFC 3339."""

    home: Home
    run_dir: Path
    bound: socket.socket
    url: str
    portable: bool
    environment: dict[str, str]
    started_at: str
    start_time_s: float | None
    auth: AuthKind = "none"

    def launch(
        self, name: str, start: StartKind, control_fd: int, running: list[str], *, listens: bool, wait: bool
    ) -> Launch:
        host, port = self.bound.getsockname()[:2]
        return Launch(
            name=name,
            home=str(self.home.root),
            run_dir=str(self.run_dir),
            control_fd=control_fd,
            start=start,
            mark=self.home.mark,
            host=host,
            port=port,
            running=running,
            portable=self.portable,
            wait=wait,
            listen_fd=self.bound.fileno() if listens else None,
            auth=self.auth,
        )

    def worker_environment(self, launch: Launch) -> dict[str, str]:
        """The daemon's environment without what was meant for the daemon, and with the launch."""
        passed = {name: value for name, value in self.environment.items() if name not in _NOT_PASSED}
        # The stacks of a worker that had to be aborted go to its stderr file.
        return {**passed, "PYTHONFAULTHANDLER": "1", **launch.to_environment()}
