"""What the supervisor hands to a worker: one JSON text in the environment. It never holds a secret."""

from collections.abc import Mapping
from typing import Literal

import msgspec

VARIABLE = "TERMAL_LAUNCH"
MARK_VARIABLE = "TERMAL_RUNTIME"
"""In the environment of every process of ours: names the data directory, so that leftovers can be found and ended."""
TOKEN_VARIABLE = "TERMAL_TOKEN"  # noqa: S105 - the name of a variable
"""In the environment of clients of ours: what opens a daemon that asks for tokens."""
DEFAULT_PORT = 8787

StartKind = Literal["boot", "replacement"]
AuthKind = Literal["none", "token"]


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """``control_fd``: the worker's end of its control socket. ``running``: peers that run at this moment.

    ``wait``: import everything, then open and bind nothing before the line `Go`: at the start of the daemon the
    interpreters of all workers come up side by side, while their work still begins one after the other.
    ``portable``: use no Linux-only mechanism (parent-death signal, subreaper, pidfd, /proc). ``listen_fd``: the
    inherited TCP socket, for the gateway alone. ``mark``: the value of `MARK_VARIABLE`. ``auth``: whether requests must
    carry a token; settled when the daemon starts, for all of its processes alike.
    """

    name: str
    home: str
    run_dir: str
    control_fd: int
    start: StartKind
    mark: str
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    running: list[str] = []
    portable: bool = False
    wait: bool = False
    listen_fd: int | None = None
    auth: AuthKind = "none"

    def to_environment(self) -> dict[str, str]:
        return {VARIABLE: msgspec.json.encode(self).decode(), MARK_VARIABLE: self.mark}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Launch":
        """Raises KeyError without the variable (the program was not started by a supervisor)."""
        return msgspec.json.decode(environment[VARIABLE], type=cls)
