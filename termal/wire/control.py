"""Lines between the supervisor and one worker: JSON objects, one a line, on a socket pair inherited by the worker.

The end of file on it means that the other side is gone; a worker then ends at once.
"""

import msgspec

from termal.wire.launch import StartKind

LINE_BYTES = 64 << 10
"""Longest line; a reader drops a longer one and treats the other side as broken."""


class Line(msgspec.Struct, frozen=True, tag_field="t", rename="camel", omit_defaults=True):
    """Base of the lines. The tag is the class name in lower case."""


# worker -> supervisor


class Ready(Line, frozen=True, tag="ready"):
    """The worker serves. For a worker started as ``boot`` this does not say that its part of the boot is done."""


class Beat(Line, frozen=True, tag="beat"):
    """Once a second from the main loop. ``facts`` are a few numbers for status (database sizes, counts)."""

    queue_depth: int = 0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    facts: dict[str, int | float | str | None] = {}


class Extend(Line, frozen=True, tag="extend"):
    """A long step (a migration) begins or goes on: no heartbeat is due for ``seconds`` from now."""

    seconds: float
    why: str = ""


class Need(Line, frozen=True, tag="need"):
    """Start this transient worker (``runtime-acp``) unless it is there."""

    worker: str


class BootDone(Line, frozen=True, tag="bootDone"):
    """This worker's part of the start of the daemon is done: from now on it is restarted as ``replacement``."""


class Refused(Line, frozen=True, tag="refused"):
    """The worker refuses its file or configuration and exits next; ``message`` is for the operator."""

    message: str


# supervisor -> worker


class Stop(Line, frozen=True, tag="stop"):
    """Drain and exit 0 before ``deadline`` (CLOCK_MONOTONIC seconds)."""

    deadline: float


class Go(Line, frozen=True, tag="go"):
    """To a worker that was launched to wait: begin, with these in place of what the launch said of them."""

    start: StartKind
    running: list[str]


class Peers(Line, frozen=True, tag="peers"):
    """Names of the workers that are running now (ready or starting); sent to each worker on every change."""

    running: list[str]


class Reload(Line, frozen=True, tag="reload"):
    """Read the configuration again."""


class Serving(Line, frozen=True, tag="serving"):
    """The start of the daemon is over: its port listens. Sent once, to the workers that run then."""


ToSupervisor = Ready | Beat | Extend | Need | BootDone | Refused
ToWorker = Stop | Go | Peers | Reload | Serving

EXIT_OK = 0
EXIT_USAGE = 64
"""Bad configuration or command line; never restarted."""
EXIT_REFUSED = 65
"""The worker refuses its database (foreign schema, insecure or linked file, failed import); never restarted."""
EXIT_INTERNAL = 70
EXIT_PORT = 74
"""The TCP port is in use or cannot be bound."""
EXIT_LOCKED = 75
"""Another daemon owns the data directory."""
EXIT_HOME = 73
"""The data directory cannot be created or written."""

encode_line = msgspec.json.Encoder().encode
decode_to_supervisor = msgspec.json.Decoder(ToSupervisor).decode
decode_to_worker = msgspec.json.Decoder(ToWorker).decode
