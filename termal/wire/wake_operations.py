"""What `coordination` and `state` ask of `wake`: it words wakes and hands them on, and stores nothing."""

import msgspec

from termal.wire.mail_operations import Marks, Outcome, Unread, UnreadOf
from termal.wire.operation import read, write
from termal.wire.queue_operations import RetractWakes, Wake
from termal.wire.turns import Anything


class Notify(msgspec.Struct, frozen=True):
    """Committed mail that its receiver (``mail.session_id``) has not been told of."""

    mail: Unread


class Notified(msgspec.Struct, frozen=True):
    outcome: Outcome


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


class Rebuilt(msgspec.Struct, frozen=True):
    """The wake for the newest unread message, None when nothing is unread."""

    wake: Wake | None = None


WAKE_NOTIFY = write("wake.notify", Notify, Notified, repeatable=True)
WAKE_RETRACT = write("wake.retract", RetractWakes, Anything, repeatable=True)
WAKE_PREPARE = read("wake.prepare", Prepare, Prepared)
WAKE_REBUILD = read("wake.rebuild", UnreadOf, Rebuilt)
WAKE_REPORT = write("wake.report", Marks, Anything, repeatable=True, timeout_s=None)
