"""``python -m workers.coordination.inspection DIRECTORY``: what a start would make of ``coordination.sqlite``.

Asked by `termal doctor`; changes nothing. Prints one JSON object on standard output, or the refusal on stderr.
"""

import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from termal.home import Home
from termal.store.connection import StoreError, open_reader
from termal.store.files import StoreRefused, size_bytes
from termal.wire.control import EXIT_REFUSED
from workers.coordination.bootstrap import is_ready
from workers.coordination.legacy_import import MARKER, NOTHING
from workers.coordination.schema import SCHEMA, read_meta


class Inspected(msgspec.Struct, frozen=True, rename="camel"):
    """``schema_version`` is None for a file that the next start makes. ``imported_from``: the file that older mail and
    boards came from, "" when there were none, None while the next start has still to look."""

    schema_version: str | None
    imported_from: str | None


def inspect(home: Home) -> Inspected:
    """Raises `StoreRefused` when a start would refuse the file, `StoreError` when it cannot be read."""
    path = home.coordination_db
    ready = is_ready(home)
    if not size_bytes(path):
        return Inspected(None, None)
    with closing(open_reader(path)) as reader:
        version = SCHEMA.check(reader, path)
        source = read_meta(reader, MARKER) if ready else None
    return Inspected(version, "" if source == NOTHING else source)


def main(arguments: Sequence[str]) -> int:
    try:
        found = inspect(Home(Path(arguments[0])))
    except (StoreRefused, StoreError) as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_REFUSED
    sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
