"""The first steps of every program of the daemon but the supervisor: its launch, and what it does when others end."""

import faulthandler
import sys
from collections.abc import Callable, Mapping

import msgspec

from termal.procs.death import tie_to_parent
from termal.wire.launch import Launch


def launched(environ: Mapping[str, str], signals: Callable[[], None] | None = None) -> Launch | None:
    """What the supervisor says, with this process bound to its life; None, and a line on stderr, for a person.

    ``signals`` sets up what the process does at a signal, before anything that takes time.
    SIGABRT is how the supervisor ends a process that hangs: the stacks of all threads go to stderr first.
    """
    try:
        launch = Launch.from_environment(environ)
    except (KeyError, msgspec.MsgspecError):
        sys.stderr.write("this program is a part of TermAl and is started by it: run `termal serve`\n")
        return None
    faulthandler.enable()
    if signals is not None:
        signals()
    tie_to_parent(launch.control_fd, launch.portable)
    return launch
