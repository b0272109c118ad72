"""What a start would make of ``coordination.sqlite``: asked of the code that decides it, in a process of its own."""

import msgspec

from termal.cli.inspection import inspect
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
    found = inspect(_MODULE, str(home.root))
    if found.code:
        raise FileRefused(found.words)
    return msgspec.json.decode(found.output, type=MailFile)
