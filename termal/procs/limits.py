"""Limits of this process that its children inherit."""

import contextlib
import resource

DESCRIPTORS = 8192
"""An event stream, an agent and a peer each need a few; the usual soft limit of 1024 is a desktop's."""


def raise_descriptor_limit(wanted: int = DESCRIPTORS) -> int:
    """Raise the soft limit of open files towards ``wanted``, never beyond the hard limit; the limit that holds now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    goal = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft == resource.RLIM_INFINITY or soft >= goal:
        return soft
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (goal, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
