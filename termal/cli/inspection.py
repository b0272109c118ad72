"""Asks a worker's own code about a file of its, in a process of its own: the CLI imports no worker."""

import subprocess
import sys
from typing import NamedTuple


class Inspected(NamedTuple):
    """``code`` 0: ``output`` is the answer, empty if it went elsewhere. Else ``words`` say why there is none."""

    code: int
    output: bytes
    words: str


def inspect(module: str, *arguments: str, output: int = subprocess.PIPE) -> Inspected:
    """``output``: a descriptor that gets the answer instead of this process."""
    # -P: a folder named `workers` where the user happens to be must not be taken for ours.
    ended = subprocess.run(
        [sys.executable, "-P", "-m", module, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.PIPE,
        check=False,
    )
    lines = ended.stderr.decode("utf-8", "replace").strip().splitlines()
    words = lines[-1] if lines else f"the inspection ended with code {ended.returncode}"
    return Inspected(ended.returncode, ended.stdout or b"", words)
