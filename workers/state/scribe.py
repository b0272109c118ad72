"""Events of a turn to messages: text streams, commands under their item, thoughts, diffs, notices; agent facts."""

from msgspec import UNSET
from msgspec.structs import replace

from termal.model.message import Command, Diff, Message, Text, Thinking, TurnUsage
from termal.model.session import LiveActivity
from termal.rules.size import MESSAGE_BYTES, OUTPUT_CHARACTERS, shortened
from termal.rules.usage import added, counted
from termal.wire.turns import (
    AnyTurnEvent,
    CommandsKnown,
    ExternalSession,
    FileChanged,
    ModelsKnown,
    ModesKnown,
    Notice,
    TextDelta,
    TextDone,
    ThinkingDelta,
    ToolEnded,
    ToolOutput,
    ToolStarted,
    Usage,
)
from workers.state.change import Book
from workers.state.clock import now_text
from workers.state.interactions import Interaction, Interactions
from workers.state.session_record import SessionRecord
from workers.state.shown_models import model_options
from workers.state.shown_modes import with_modes
from workers.state.turn import Turn

QUIET_BYTES = 8 << 10
"""The event of a command or a thought carries all of it: beyond this size it is published when it is stored."""
_THINKING = "Thinking"


def _split(key: str) -> str:
    """Where an item remembers an earlier part of a text that grew too long for one message."""
    return f"{key}#"


class Scribe:
    """Writes what an agent says. Every event here leaves the status as it is; requests are `Interactions`' part."""

    def __init__(self, book: Book, interactions: Interactions) -> None:
        self._book = book
        self._interactions = interactions

    def write(self, record: SessionRecord, turn: Turn, event: AnyTurnEvent) -> None:
        if isinstance(event, TextDelta | TextDone):
            self._text(record, turn, event)
        elif isinstance(event, ToolStarted | ToolOutput | ToolEnded):
            self._tool(record, turn, event)
        elif isinstance(event, ExternalSession | ModelsKnown | ModesKnown):
            self._facts(record, event)
        elif isinstance(event, CommandsKnown):
            self._commands(record, event)
        elif isinstance(event, Usage):
            self._usage(record, event)
        else:
            turn.open_texts.clear()
            self._card(record, turn, event)

    def _card(self, record: SessionRecord, turn: Turn, event: AnyTurnEvent) -> None:
        """What closes the open text streams."""
        if isinstance(event, ThinkingDelta):
            self._thinking(record, turn, event)
        elif isinstance(event, FileChanged):
            self._diff(record, turn, event)
        elif isinstance(event, Notice):
            self._notice(record, event)
        elif isinstance(event, Interaction):
            self._interactions.take(record, turn, event)

    # ----------------------------------------------------------------------- text

    def _text(self, record: SessionRecord, turn: Turn, event: TextDelta | TextDone) -> None:
        key = f"text:{event.item}"
        position = self._found(record, turn, key)
        if isinstance(event, TextDone):
            turn.open_texts.discard(key)
            self._final_text(record, turn, key, event.text, position)
            return
        if not event.text:
            return
        if position is not None and record.size_bytes(position) >= MESSAGE_BYTES:
            turn.items[_split(key)] = turn.items[key]
            position = None
        if position is None or key not in turn.open_texts:
            position = self._append(record, turn, key, self._assistant_text(""))
            turn.open_texts.add(key)
        self._book.extend_text(record, position, event.text)

    def _final_text(self, record: SessionRecord, turn: Turn, key: str, text: str, position: int | None) -> None:
        if position is None:
            if text.strip():
                self._append(record, turn, key, self._assistant_text(text))
            return
        if _split(key) in turn.items:
            # Its parts together are that text; none of them can take its place.
            return
        message = record.at(position)
        if isinstance(message, Text) and message.text != text:
            self._book.replace_text(record, position, replace(message, text=text), text)

    def _notice(self, record: SessionRecord, event: Notice) -> None:
        last = next((m for m in reversed(record.messages) if isinstance(m, Text) and m.author == "assistant"), None)
        if not event.text.strip():
            return
        if last is not None:
            shown = record.at(record.positions[last.id])
            if isinstance(shown, Text) and shown.text == event.text:
                return
        change = self._book.change()
        change.append(record, self._assistant_text(event.text))
        change.commit()

    def _thinking(self, record: SessionRecord, turn: Turn, event: ThinkingDelta) -> None:
        key = f"think:{event.item}"
        position = self._found(record, turn, key)
        if position is None or record.size_bytes(position) >= MESSAGE_BYTES:
            if event.text.strip() or event.title:
                lines = event.text.split("\n")
                identity = self._book.registry.new_message_id()
                message = Thinking(
                    id=identity,
                    timestamp=now_text(),
                    author="assistant",
                    title=event.title or _THINKING,
                    lines=lines,
                )
                self._append(record, turn, key, message)
        elif event.text:
            self._book.extend_quietly(record, position, event.text)

    # -------------------------------------------------------------------- commands

    def _tool(self, record: SessionRecord, turn: Turn, event: ToolStarted | ToolOutput | ToolEnded) -> None:
        key = f"tool:{event.item}"
        position = self._found(record, turn, key)
        if position is None:
            command = event.command if isinstance(event, ToolStarted) else event.item
            message = Command(
                id=self._book.registry.new_message_id(),
                timestamp=now_text(),
                author="assistant",
                command=command,
                output="",
                status="running",
            )
            self._live(record, command, "running")
            position = self._append(record, turn, key, message)
        if isinstance(event, ToolOutput) and event.append:
            self._more_output(record, position, event.output)
        else:
            self._tool_update(record, position, event)

    def _more_output(self, record: SessionRecord, position: int, output: str) -> None:
        if QUIET_BYTES < record.size_bytes(position) < OUTPUT_CHARACTERS:
            self._book.extend_quietly(record, position, output)
            return
        command = record.at(position)
        if isinstance(command, Command):
            self._book.stream_update(record, position, replace(command, output=shortened(command.output + output)))

    def _tool_update(self, record: SessionRecord, position: int, event: ToolStarted | ToolOutput | ToolEnded) -> None:
        command = record.at(position)
        if not isinstance(command, Command):
            return
        if isinstance(event, ToolStarted):
            self._live(record, event.command, "running")
            self._book.stream_update(record, position, replace(command, command=event.command))
        elif isinstance(event, ToolEnded):
            output = command.output if event.output is None else event.output
            self._live(record, command.command, event.status)
            self._book.stream_update(record, position, replace(command, status=event.status, output=output))
        else:
            self._book.stream_update(record, position, replace(command, output=shortened(event.output)))

    def _diff(self, record: SessionRecord, turn: Turn, event: FileChanged) -> None:
        if not event.diff.strip():
            return
        key = f"diff:{event.item}"
        position = self._found(record, turn, key)
        old = record.at(position) if position is not None else None
        if position is not None and isinstance(old, Diff):
            change = self._book.change()
            change.update(
                record,
                position,
                replace(old, file_path=event.path, summary=event.summary, diff=event.diff, change_type=event.change),
            )
            change.commit()
            return
        identity = self._book.registry.new_message_id()
        message = Diff(
            id=identity,
            timestamp=now_text(),
            author="assistant",
            file_path=event.path,
            summary=event.summary,
            diff=event.diff,
            change_type=event.change,
            change_set_id=f"change-{identity}",
        )
        self._append(record, turn, key, message)

    # ----------------------------------------------------------------------- facts

    def _commands(self, record: SessionRecord, event: CommandsKnown) -> None:
        """What the agent knows is kept in memory alone; clients learn that there is something new to ask for."""
        if event.commands in ([], record.native_commands):
            return
        record.native_commands = event.commands
        revision = record.session.agent_commands_revision + 1
        record.session = replace(record.session, agent_commands_revision=revision)
        change = self._book.change()
        change.summary(record)
        change.commit()

    def _facts(self, record: SessionRecord, event: ExternalSession | ModelsKnown | ModesKnown) -> None:
        session = record.session
        if isinstance(event, ExternalSession):
            state = "active" if record.agent == "Codex" else session.codex_thread_state
            known = replace(session, external_session_id=event.external_session_id, codex_thread_state=state)
        elif isinstance(event, ModesKnown):
            known = with_modes(session, event)
        else:
            options = model_options(event.options, event.details)
            known = replace(session, model_options=options or UNSET)
        if known == session:
            return
        record.session = known
        change = self._book.change()
        change.summary(record)
        change.commit()

    def _usage(self, record: SessionRecord, event: Usage) -> None:
        """To the newest message, which is always in memory, and into the sum of the session."""
        cost = UNSET if event.cost_usd is None else event.cost_usd
        turn = TurnUsage(input_tokens=event.input_tokens, output_tokens=event.output_tokens, cost_usd=cost)
        position = record.count - 1
        message = record.at(position)
        first = message.usage is UNSET
        record.session = replace(record.session, usage=counted(record.session.usage, turn, first=first))
        change = self._book.change()
        change.update(record, position, replace(message, usage=added(message.usage, turn)), preview=False)
        change.summary(record)
        change.commit()

    # -------------------------------------------------------------------- messages

    @staticmethod
    def _found(record: SessionRecord, turn: Turn, key: str) -> int | None:
        """The position of an item's message, None when it has none in memory."""
        return record.positions.get(turn.items.get(key, ""))

    def _append(self, record: SessionRecord, turn: Turn, key: str, message: Message) -> int:
        turn.items.pop(key, None)
        turn.items[key] = message.id
        change = self._book.change()
        position = change.append(record, message)
        change.commit()
        return position

    def _assistant_text(self, text: str) -> Text:
        return Text(id=self._book.registry.new_message_id(), timestamp=now_text(), author="assistant", text=text)

    @staticmethod
    def _live(record: SessionRecord, command: str, status: str) -> None:
        prompt = record.live.prompt if record.live is not None else ""
        record.live = LiveActivity(prompt=prompt, command=command, command_status=status)
