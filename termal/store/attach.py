"""A second database beside the open one, for reading alone: nothing that is done through it can change its file."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath

import apsw

from termal.store.connection import BROKEN, Cursorlike, broken
from termal.store.files import StoreRefused, secure

_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/:-_.~")


def read_only_uri(path: PurePath) -> str:
    """The URI under which SQLite opens the absolute ``path`` without the right to write.

    The authority is always empty: a drive gets a slash before it, and of a network share (``//server/share``) the
    server stays part of the path.
    """
    text = path.as_posix()
    quoted = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in os.fsencode(text))
    return f"file://{'' if text.startswith('/') else '/'}{quoted}?mode=ro"


@contextmanager
def attached(connection: Cursorlike, path: Path, name: str) -> Iterator[None]:
    """``path`` as the schema ``name`` of ``connection``, which must allow URIs; begin transactions inside the block.

    Raises `StoreRefused` for a link, a damaged file, one that cannot be read.
    """
    secure(path)
    try:
        connection.execute(f"ATTACH ? AS {name}", (read_only_uri(path),))
    except BROKEN as error:
        raise broken(path, error) from error
    except apsw.CantOpenError as error:
        raise StoreRefused(f"{path} cannot be opened ({error})") from error
    yield
    # Not after a failure: the connection is closed then, and a second error would hide the first.
    connection.execute(f"DETACH {name}")
