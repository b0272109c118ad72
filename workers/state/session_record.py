"""One session in memory: its settings, its resident window of the transcript, its queue, and what of it is not on disk.

`put` is the one place where a message enters or changes; `extend` is the same for streamed pieces.
"""

from collections.abc import Callable

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from termal.model.message import Command, Message, Text, Thinking
from termal.model.session import LiveActivity, Session
from termal.model.stored import PromptKey, QueueEntry, StoredSession, StoredTurn, WakeKey
from termal.rules.history_page import RESIDENT_MESSAGES
from termal.rules.preview import preview_of, settled
from termal.rules.prompt_history import bounded, prompt_in
from termal.rules.turn_end import is_busy
from workers.state.turn import Turn


class Queued:
    """A queue entry with its JSON, made once: an image in it is not encoded again with every write of the row."""

    __slots__ = ("entry", "raw")

    def __init__(self, entry: QueueEntry, raw: msgspec.Raw) -> None:
        self.entry = entry
        self.raw = raw


class Stream:
    """A message that grows by pieces. They are joined when somebody looks, not when one arrives."""

    __slots__ = ("joined", "pieces", "settled", "size_bytes")

    def __init__(self, text: str) -> None:
        self.pieces = [text] if text else []
        self.joined = True
        self.size_bytes = len(text.encode())
        self.settled = settled(text)

    def text(self) -> str:
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""


class SessionRecord:
    """``session`` holds what changes rarely; ``status``, ``preview`` and the transcript live beside it.

    ``start`` is the global position of the first resident message. Everything here belongs to the loop's thread.
    ``asking``: what waits until mail was asked of, None while nobody asks. ``mail_due``: there may be mail that nobody
    was told of; ``mail_at_s`` is when somebody last asked for this session to send it some. ``started_in``: the start
    of the daemon in which its last turn began.
    """

    __slots__ = (
        "asking",
        "blocked",
        "committed",
        "confirms",
        "creation_key",
        "dirty_history",
        "dirty_positions",
        "distant",
        "history",
        "last_turn",
        "late_updates",
        "live",
        "mail_at_s",
        "mail_due",
        "messages",
        "native_commands",
        "open_deltas",
        "peer_messages",
        "positions",
        "preview",
        "prompt_keys",
        "queue",
        "removed",
        "replaced",
        "session",
        "stamp",
        "start",
        "started_in",
        "status",
        "stored",
        "stored_bytes",
        "streams",
        "summary",
        "thread_busy",
        "turn",
        "wake_keys",
    )

    def __init__(self, session: Session, stored: StoredSession) -> None:
        self.session = session
        self.stored = stored
        self.status = session.status
        self.preview = session.preview
        self.messages: list[Message] = []
        self.start = 0
        self.positions: dict[str, int] = {}
        self.history: list[str] = []
        self.queue: list[Queued] = []
        self.peer_messages = {} if stored.queued_peer_messages is UNSET else dict(stored.queued_peer_messages)
        self.blocked = stored.orchestrator_auto_dispatch_blocked is True
        self.prompt_keys: list[PromptKey] = [] if stored.prompt_keys is UNSET else list(stored.prompt_keys)
        self.wake_keys: list[WakeKey] = [] if stored.wake_keys is UNSET else list(stored.wake_keys)
        self.started_in = 0 if stored.started_in is UNSET else stored.started_in
        self.asking: list[Callable[[], None]] | None = None
        self.mail_due = True
        self.mail_at_s = 0.0
        self.creation_key = None if stored.creation_key is UNSET else stored.creation_key
        self.live: LiveActivity | None = None
        self.native_commands: list[tuple[str, str, str]] = []
        self.turn: Turn | None = None
        self.last_turn: StoredTurn | None = None if stored.last_turn is UNSET else stored.last_turn
        self.stamp = 0
        self.summary: tuple[int, msgspec.Raw] | None = None
        self.committed = True
        self.removed = False
        self.replaced = False
        self.thread_busy = False
        self.streams: dict[int, Stream] = {}
        self.dirty_positions: set[int] = set()
        self.distant: dict[int, Message] = {}
        self.stored_bytes: dict[int, int] = {}
        self.dirty_history = False
        self.late_updates: set[int] = set()
        self.open_deltas = 0
        self.confirms: list[Callable[[], None]] = []

    @property
    def id(self) -> str:
        return self.session.id

    @property
    def agent(self) -> str:
        return self.session.agent

    @property
    def count(self) -> int:
        """The size of the whole transcript."""
        return self.start + len(self.messages)

    @property
    def busy(self) -> bool:
        return is_busy(self.status)

    @property
    def remote(self) -> bool:
        """A proxy of a session that lives on another daemon."""
        return self.session.remote_id is not UNSET

    # ------------------------------------------------------------------ transcript

    def put(self, message: Message, position: int | None = None, *, preview: bool = True) -> int:
        """Append ``message``, or put it in place of the one at ``position``; returns its global position."""
        if position is None:
            position = self.count
            self.messages.append(message)
            self.positions[message.id] = position
            if prompt_in(message) is not None:
                self.history = bounded([*self.history, prompt_in(message) or ""])
                self.dirty_history = True
        elif position < self.start:
            # Not in memory: kept until it is written.
            self.distant[position] = message
        else:
            self.messages[position - self.start] = message
            self.streams.pop(position, None)
            self.late_updates.discard(position)
        line = preview_of(message) if preview else None
        if line is not None:
            self.preview = line
        self.dirty_positions.add(position)
        return position

    def start_over(self, messages: list[Message]) -> None:
        """Put ``messages`` in place of the whole transcript; its rows are deleted with the next commit."""
        self.messages, self.positions, self.start = [], {}, 0
        self.streams.clear()
        self.late_updates.clear()
        self.dirty_positions.clear()
        self.stored_bytes.clear()
        self.history, self.dirty_history = [], True
        self.replaced = True
        for message in messages:
            self.put(message)

    def extend(self, position: int, piece: str) -> tuple[int, str | None]:
        """Append ``piece`` to the streamed message at ``position``: its length in bytes before, and a new preview."""
        before = self.size_bytes(position)
        stream = self.streams[position]
        stream.pieces.append(piece)
        stream.joined = False
        stream.size_bytes += len(piece.encode())
        self.dirty_positions.add(position)
        if stream.settled:
            return before, None
        text = stream.text()
        stream.settled = settled(text)
        line = preview_of(self.at(position))
        if line is None or line == self.preview:
            return before, None
        self.preview = line
        return before, line

    def at(self, position: int) -> Message:
        """The resident message at ``position``, streamed pieces included; an earlier one until it is written."""
        if position < self.start:
            return self.distant[position]
        index = position - self.start
        stream = self.streams.get(position)
        if stream is not None and not stream.joined:
            stream.joined = True
            self.messages[index] = _with_text(self.messages[index], stream.text())
        return self.messages[index]

    def size_bytes(self, position: int) -> int:
        """The UTF-8 length of the text that pieces are appended to."""
        stream = self.streams.get(position)
        if stream is None:
            stream = self.streams[position] = Stream(_streamed(self.messages[position - self.start]))
        return stream.size_bytes

    def resident(self, position: int) -> bool:
        return self.start <= position < self.count

    def newest(self, limit: int) -> list[Message]:
        """The newest ``limit`` resident messages, ascending."""
        for position in self.streams:
            self.at(position)
        return self.messages[-limit:]

    def trim(self) -> None:
        """Let go of everything but the newest messages; what is not on disk stays."""
        surplus = len(self.messages) - RESIDENT_MESSAGES
        if surplus <= 0 or self.busy or self.dirty_positions:
            return
        for message in self.messages[:surplus]:
            del self.positions[message.id]
        del self.messages[:surplus]
        self.start += surplus
        self.streams.clear()
        self.stored_bytes = {at: byte for at, byte in self.stored_bytes.items() if at >= self.start}


def _streamed(message: Message) -> str:
    if isinstance(message, Text):
        return message.text
    if isinstance(message, Command):
        return message.output
    assert isinstance(message, Thinking)
    return "\n".join(message.lines)


def _with_text(message: Message, text: str) -> Message:
    if isinstance(message, Text):
        return replace(message, text=text)
    if isinstance(message, Command):
        return replace(message, output=text)
    assert isinstance(message, Thinking)
    return replace(message, lines=text.split("\n"))
