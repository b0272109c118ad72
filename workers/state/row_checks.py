"""What a stored session row must be: readable text that says the same as its columns. Opens and changes nothing.

Values come as bytes with their SQLite type: a text that is no UTF-8 would otherwise fail the whole read it is part of.
"""

from collections.abc import Container
from typing import Any

import msgspec
from msgspec import UNSET

from termal.model.session import Session
from termal.model.stored import StoredSession
from termal.rules.settings import check_stored, checked_model
from termal.rules.verdicts import Bad

UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError, Bad)
"""What reading a damaged row raises: wrong JSON, no UTF-8, nested without end, or refused by a check."""

decode_session = msgspec.json.Decoder(StoredSession).decode


class _Embedded(msgspec.Struct):
    session: "_EmbeddedSession"


class _EmbeddedSession(msgspec.Struct):
    messages: list[msgspec.Raw] = []


_decode_embedded = msgspec.json.Decoder(_Embedded).decode


def text_of(kind: Any, value: Any) -> bytes:
    """Raises `Bad` for what is no text."""
    if kind != "text":
        raise Bad("it is no text")
    return bytes(value)


def id_of(kind: Any, value: Any) -> str:
    """The id of a row. Raises `Bad`, or `ValueError` for a text that is no UTF-8."""
    return text_of(kind, value).decode()


def name_of(value: Any, rowid: Any) -> str:
    """What to call a row in logs and lists whatever its id holds."""
    return f"row {rowid}" if value is None else bytes(value).decode(errors="backslashreplace")


def why(error: BaseException) -> str:
    return error.text if isinstance(error, Bad) else str(error)


def read_session(session_id: str, text: bytes) -> StoredSession:
    """The wrapper of one row whose identity and settings are whole. Raises one of `UNREADABLE`."""
    stored = decode_session(text)
    session = stored.session
    if session.id != session_id:
        raise Bad(f"the row calls itself {session.id}")
    check_stored(session)
    if session.agent == "OpenCode" and session.model:
        checked_model(session.agent, session.model)
    _check_remote(stored)
    return stored


def check_loadable(stored: StoredSession, text: bytes, projects: Container[str]) -> None:
    """What else must hold before a row of the current schema version is used. Raises one of `UNREADABLE`."""
    session = stored.session
    if stored.external_session_id != _plain(session.external_session_id):
        raise Bad("externalSessionId differs between the row and its session")
    if session.project_id is not UNSET and session.project_id not in projects:
        raise Bad(f"its project {session.project_id} is not there")
    if embeds_transcript(text):
        raise Bad("its transcript was never moved out of its row")


def embeds_transcript(text: bytes) -> bool:
    """Whether the row still carries messages, as the first schema version had it."""
    return bool(_decode_embedded(text).session.messages)


def is_remote(stored: StoredSession) -> bool:
    """A proxy of a session that lives on another daemon."""
    return stored.remote_id is not UNSET


def _check_remote(stored: StoredSession) -> None:
    host, theirs, session = stored.remote_id, stored.remote_session_id, stored.session
    if (host is UNSET) != (theirs is UNSET) or any(half is not UNSET and not half.strip() for half in (host, theirs)):
        raise Bad("it has half of a remote identity")
    if _differs(session, stored):
        raise Bad("remoteId differs between the row and its session")


def _differs(session: Session, stored: StoredSession) -> bool:
    return session.remote_id is not UNSET and session.remote_id != stored.remote_id


def _plain(value: object) -> object:
    return None if value is UNSET else value
