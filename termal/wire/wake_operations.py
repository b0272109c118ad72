"""What `coordination` and `state` ask of `wake`: it words wakes and hands them on, and stores nothing."""

import msgspec

from termal.wire.mail_operations import Mark, Outcome, Unread
from termal.wire.operation import read, write
from termal.wire.queue_operations import Wake
from termal.wire.turns import Anything


class Notify(msgspec.Struct, frozen=True):
    """Committed mail that its receiver (``mail.session_id``) has not been told of."""

    mail: Unread


class Notified(msgspec.Struct, frozen=True):
    outcome: Outcome


class Retract(msgspec.Struct, frozen=True):
    """The receiver acknowledged ``mailbox_id`` up to ``through``."""

    session_id: str
    mailbox_id: str
    through: int


class Prepare(msgspec.Struct, frozen=True):
    """A session is about to start a turn. ``head``: mailbox and sequence of the wake at the head of its queue."""

    session_id: str
    head: tuple[str, int] | None = None


class Prepared(msgspec.Struct, frozen=True):
    """``wakes``: never-woken mail, newest first. ``head``: the head's wake worded anew, None when its mail is
    acknowledged; ``asked`` is False when storage could not be asked, and then nothing may be concluded. ``settled``:
    these are all, and nothing is being sent to the session at this moment."""

    wakes: list[Wake]
    head: Wake | None = None
    asked: bool = True
    settled: bool = False


class Rebuild(msgspec.Struct, frozen=True):
    session_id: str
    mailbox_id: str


class Rebuilt(msgspec.Struct, frozen=True):
    """The wake for the newest unread message, None when nothing is unread."""

    wake: Wake | None = None


class Report(msgspec.Struct, frozen=True):
    """What became of wakes, in the order in which it was committed."""

    marks: list[Mark]


WAKE_NOTIFY = write("wake.notify", Notify, Notified, repeatable=True)
WAKE_RETRACT = write("wake.retract", Retract, Anything, repeatable=True)
WAKE_PREPARE = read("wake.prepare", Prepare, Prepared)
WAKE_REBUILD = read("wake.rebuild", Rebuild, Rebuilt)
WAKE_REPORT = write("wake.report", Report, Anything, repeatable=True, timeout_s=None)
