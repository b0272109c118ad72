"""Runs git, bounded in time and output: no hook, no pager, no external diff, no prompt, no needless lock."""

import os
import select
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from termal.procs.signals import KILL, send_group
from termal.wire.launch import MARK_VARIABLE

_QUIET = (
    "--no-pager",
    "--no-optional-locks",
    "--literal-pathspecs",
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.quotePath=false"),
    *("-c", "diff.external="),
    *("-c", "gc.auto=0"),
    *("-c", "maintenance.auto=false"),
    *("-c", "advice.detachedHead=false"),
    *("-c", "core.safecrlf=false"),
)
_PASSED = ("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "XDG_CONFIG_HOME", MARK_VARIABLE)
_FIXED = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "true",
    # Nothing is fetched for a comparison: what a partial clone lacks is an error here.
    "GIT_NO_LAZY_FETCH": "1",
}
_PIECE = 1 << 16
_SAID_BYTES = 4096


class GitFailed(Exception):
    """It could not be run, said no, or took too long. The text is git's own, for a log: it may name paths."""


class TooMuch(GitFailed):
    """It said more than was asked for."""


class Git(NamedTuple):
    """Where git runs: below ``cwd``, or on a repository and a working tree that are named outright. It inherits
    ``keep_fds``, and nothing else of ours."""

    cwd: Path
    git_dir: Path | None = None
    work_tree: Path | None = None
    variables: Mapping[str, str] = {}
    keep_fds: tuple[int, ...] = ()

    def run(
        self,
        *arguments: str,
        until_s: float,
        stdin: Path | None = None,
        limit_bytes: int | None = None,
        output: Path | None = None,
    ) -> bytes:
        """Standard output, or nothing when it goes to the file ``output``. ``until_s``: CLOCK_MONOTONIC.

        Raises `GitFailed`; `TooMuch` beyond ``limit_bytes``. No process of it is left behind.
        """
        given, said = (open(stdin, "rb") if stdin else None), tempfile.TemporaryFile()  # noqa: SIM115, PTH123
        try:
            process = self._start(arguments, given, said)
            try:
                data = _read(process, until_s, limit_bytes, output)
                code = process.wait(max(0.0, until_s - time.monotonic()))
            except subprocess.TimeoutExpired as error:
                raise GitFailed("git took too long") from error
            finally:
                _end(process)
            if code != 0:
                said.seek(0)
                text = said.read(_SAID_BYTES).decode("utf-8", "replace").strip()
                raise GitFailed(text or f"git ended with {code}")
            return data
        finally:
            said.close()
            if given is not None:
                given.close()

    def line(self, *arguments: str, until_s: float) -> str:
        """One line of output, without its end. Raises `GitFailed`."""
        return self.run(*arguments, until_s=until_s).decode("utf-8", "surrogateescape").removesuffix("\n")

    def names(self, *arguments: str, until_s: float, limit_bytes: int | None = None) -> list[str]:
        """Names of an output of the form ``-z``, those that are no UTF-8 with replacement characters."""
        data = self.run(*arguments, until_s=until_s, limit_bytes=limit_bytes)
        return [name.decode("utf-8", "replace") for name in data.split(b"\0") if name]

    def _start(
        self, arguments: Sequence[str], given: BinaryIO | None, said: "BinaryIO | tempfile._TemporaryFileWrapper[bytes]"
    ) -> "subprocess.Popen[bytes]":
        where = [f"--git-dir={self.git_dir}"] if self.git_dir else []
        where += [f"--work-tree={self.work_tree}"] if self.work_tree else []
        passed = {name: value for name in _PASSED if (value := os.environ.get(name)) is not None}
        try:
            return subprocess.Popen(
                ["git", *_QUIET, *where, *arguments],  # noqa: S607 - the user's own git, as everywhere else
                cwd=self.cwd,
                env={**passed, **_FIXED, **self.variables},
                stdin=given or subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said,
                pass_fds=self.keep_fds,
                start_new_session=True,
            )
        except OSError as error:
            raise GitFailed(f"git cannot be run: {error}") from error


def _read(process: "subprocess.Popen[bytes]", until_s: float, limit_bytes: int | None, output: Path | None) -> bytes:
    assert process.stdout is not None
    descriptor, size = process.stdout.fileno(), 0
    pieces: list[bytes] = []
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    target = output.open("wb") if output else None
    try:
        while True:
            left_s = until_s - time.monotonic()
            if left_s <= 0 or not poll.poll(left_s * 1e3):
                raise GitFailed("git took too long")
            piece = os.read(descriptor, _PIECE)
            if not piece:
                return b"".join(pieces)
            size += len(piece)
            if limit_bytes is not None and size > limit_bytes:
                raise TooMuch(f"git said more than {limit_bytes} bytes")
            if target is not None:
                target.write(piece)
            else:
                pieces.append(piece)
    finally:
        if target is not None:
            target.close()


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        send_group(process.pid, KILL)
        process.wait()
    assert process.stdout is not None
    process.stdout.close()
