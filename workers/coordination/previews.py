"""Previews of stored bodies, from their beginnings: a long body leaves the database only where that does not do."""

from termal.rules.mail import PREVIEW_CHARS, mail_preview
from termal.store.connection import Cursorlike

HEAD = "substr(body, 1, 4096), octet_length(body)"
"""The columns that a preview is made of: the text may end earlier than that, as SQLite's functions do at a zero."""


def preview_of(connection: Cursorlike, row: int, head: str, size_bytes: int) -> str:
    """The preview of the message in ``row`` (its rowid), as `mail_preview` makes it of the whole body."""
    preview = mail_preview(head)
    if len(preview) > PREVIEW_CHARS or len(head.encode()) == size_bytes:
        return preview
    # What there is so far is mostly white space.
    body: str = connection.execute("SELECT body FROM mailbox_messages WHERE rowid = ?", (row,)).get
    return mail_preview(body)
