"""Tokens of the API: the owner's, which opens everything, and one for each session, derived from it and stored nowhere.

A token is a secret: files of ours that hold one have mode 0600, and no token is logged or put on a command line.
"""

import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path
from typing import NamedTuple

_OWNER = "to1"
_SESSION = "ts1"
_SECRET_BYTES = 32
_LONGEST = 2048
"""Characters of a token that are looked at: session ids are short."""


class Holder(NamedTuple):
    """Whose token it was: the owner's (None), or that of one session."""

    session_id: str | None


def read_owner_token(file: Path) -> str | None:
    """The owner's token, None when there is none yet. Raises OSError when the file cannot be read."""
    try:
        return file.read_text("ascii").strip() or None
    except FileNotFoundError:
        return None


def make_owner_token(file: Path) -> str:
    """The owner's token, made now if there is none. Of two processes that make it at once both get the same."""
    found = read_owner_token(file)
    if found is not None:
        return found
    made = f"{_OWNER}.{_text(os.urandom(_SECRET_BYTES))}"
    partial = file.with_name(f".{file.name}-{os.urandom(8).hex()}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as target:
            target.write(made + "\n")
            target.flush()
            os.fsync(target.fileno())
        # A link, not a rename: it fails when another process was first, whose token then holds.
        os.link(partial, file)
    except FileExistsError:
        return read_owner_token(file) or made
    finally:
        partial.unlink(missing_ok=True)
    return made


def session_token(owner_token: str, session_id: str) -> str:
    """The token of one session: it opens that session's part of the API and dies with the owner's token."""
    return f"{_SESSION}.{_text(session_id.encode())}.{_text(_digest(owner_token, session_id))}"


def holder_of(owner_token: str, presented: str) -> Holder | None:
    """Who may have got ``presented`` from this daemon; None for a token that is none of its own."""
    import hmac  # noqa: PLC0415 - loads OpenSSL, which only token authentication needs

    if len(presented) > _LONGEST or not presented.isascii():
        return None
    if hmac.compare_digest(presented, owner_token):
        return Holder(None)
    kind, _, rest = presented.partition(".")
    name, _, _ = rest.partition(".")
    if kind != _SESSION:
        return None
    try:
        session_id = urlsafe_b64decode(name + "=" * (-len(name) % 4)).decode()
    except ValueError:
        return None
    return Holder(session_id) if hmac.compare_digest(presented, session_token(owner_token, session_id)) else None


def _digest(owner_token: str, session_id: str) -> bytes:
    import hmac  # noqa: PLC0415 - see above

    return hmac.digest(owner_token.encode(), b"session\0" + session_id.encode(), "sha256")


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
