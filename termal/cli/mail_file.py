"""What a start would make of ``coordination.sqlite``: asked of the code that decides it, in a process of its own."""

import subprocess
import sys

import msgspec

from termal.home import Home

_MODULE = "workers.coordination.inspection"


class FileRefused(Exception):
    """A start would refuse the file, or it cannot be read. The text is for the operator."""


class MailFile(msgspec.Struct, frozen=True, rename="camel"):
    """``schema_version`` is None for a file that the next start makes. ``imported_from``: the file that older mail and
    boards came from, "" when there were none, None while the next start has still to look."""

    schema_version: str | None
    imported_from: str | None


def inspect_mail_file(home: Home) -> MailFile:
    """Raises `FileRefused`."""
    # -P: a folder named `workers` where the user happens to be must not be taken for ours.
    ended = subprocess.run(
        [sys.executable, "-P", "-m", _MODULE, str(home.root)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if ended.returncode:
        lines = ended.stderr.decode("utf-8", "replace").strip().splitlines()
        raise FileRefused(lines[-1] if lines else f"the inspection ended with code {ended.returncode}")
    return msgspec.json.decode(ended.stdout, type=MailFile)
