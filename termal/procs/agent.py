"""How an agent's program is started so that nothing of it survives: the command line of the shim in front of it."""

import os
import shlex
import sys
from pathlib import Path

_SHIM = str(Path(__file__).with_name("shim.py"))
_ISOLATED = ("-S", "-E", "-I")
"""No site packages, no PYTHON variables, no user folders: 10 ms, and nothing of the agent's folder is ever imported."""
_SHEBANG_BYTES = 120
GRACE_S = 2.0


def shim_argv(argv: list[str], *, grace_s: float = GRACE_S, portable: bool = False) -> list[str]:
    """``argv`` below the shim, to be started by this very process and with the agent's environment.

    Its stdin, stdout, stderr and exit status are the agent's (128 + n after signal n). Closing stdin and SIGTERM to the
    shim are the ways to end it; ``grace_s`` is what the agent then has. SIGKILL to it is safe, and slower to clean up.
    """
    return [*_prefix(grace_s, portable), "--parent", str(os.getpid()), "--", *argv]


def write_shim_launcher(path: Path, argv_prefix: list[str], *, portable: bool = False) -> Path:
    """An executable (mode 0700) for a library that insists on starting a program by its path.

    Running it with arguments is running ``argv_prefix`` with these arguments below the shim. Returns ``path``.
    """
    command = [*_prefix(GRACE_S, portable), "--", *argv_prefix]
    text = f"{_shebang()}import os, sys\ncommand = {command!r}\nos.execv(command[0], command + sys.argv[1:])\n"
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o700), "wb") as file:
        file.write(text.encode())
    fresh.replace(path)
    return path


def _prefix(grace_s: float, portable: bool) -> list[str]:
    return [sys.executable, *_ISOLATED, _SHIM, "--grace", str(grace_s), *(["--portable"] if portable else [])]


def _shebang() -> str:
    if " " not in sys.executable and len(os.fsencode(sys.executable)) <= _SHEBANG_BYTES:
        return f"#!{sys.executable} -SEI\n"
    # Two languages in one file: a shell that runs the interpreter, and a Python that sees a string.
    return f"#!/bin/sh\n'''exec' {shlex.quote(sys.executable)} -SEI \"$0\" \"$@\"\n' '''\n"
