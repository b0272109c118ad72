"""What lies in a backup: its files with their sizes and digests. Written last, so a folder without one is no backup."""

import os
from pathlib import Path

import msgspec

from termal.store.files import StoreRefused

NAME = "manifest.json"
FORMAT = 1
_PIECE_BYTES = 1 << 20


class BackedUp(msgspec.Struct, frozen=True, rename="camel"):
    """``schema_version`` is None for a file that no start has completed yet."""

    name: str
    bytes: int
    sha256: str
    schema_version: str | None = None


class Manifest(msgspec.Struct, frozen=True, rename="camel"):
    """``same_instant``: no file is older or newer than another. ``created_at`` is RFC 3339 UTC."""

    created_at: str
    version: str
    files: list[BackedUp]
    same_instant: bool = True
    format: int = FORMAT


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """The file appears complete and on the disk, owner-only."""
    partial = folder / f"{NAME}.partial"
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(folder / NAME)


def read_manifest(folder: Path) -> Manifest:
    """Raises `StoreRefused` when ``folder`` is no complete backup of a kind that is known."""
    try:
        manifest = msgspec.json.decode((folder / NAME).read_bytes(), type=Manifest)
    except OSError as error:
        raise StoreRefused(f"{folder} is no backup: {NAME} cannot be read ({error.strerror})") from error
    except msgspec.MsgspecError as error:
        raise StoreRefused(f"{folder / NAME} is no list of a backup ({error})") from error
    if manifest.format != FORMAT:
        raise StoreRefused(f"{folder} is a backup of another kind (format {manifest.format}): use a newer build")
    return manifest


def verify(folder: Path, manifest: Manifest) -> None:
    """Raises `StoreRefused` when a file is not what was written then."""
    for entry in manifest.files:
        file = folder / entry.name
        try:
            if file.is_symlink() or file.stat().st_size != entry.bytes or digest(file) != entry.sha256:
                raise StoreRefused(f"{file} is not what was backed up: take another backup")
        except OSError as error:
            raise StoreRefused(f"{file} cannot be read ({error.strerror})") from error


def digest(file: Path) -> str:
    """SHA-256 of the content, hex. Never of a database that is open: closing it here would drop its locks."""
    import hashlib  # noqa: PLC0415 - loads OpenSSL, and nobody else here needs it

    found = hashlib.sha256()
    with file.open("rb") as content:
        while piece := content.read(_PIECE_BYTES):
            found.update(piece)
    return found.hexdigest()
