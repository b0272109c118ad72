"""Messages of a transcript as lines for a terminal or a pipe."""

from termal.cli.answer_words import question_lines
from termal.cli.console import say
from termal.client.transcript import Said, Shown, StatusIs, Update
from termal.model.message import (
    Approval,
    Asked,
    CodexAppRequest,
    Command,
    Diff,
    ElicitationRequest,
    FileChanges,
    Markdown,
    Message,
    Request,
    SubagentResult,
    Text,
    Thinking,
    UserInputRequest,
)
from termal.model.session import SessionStatus


class Printer:
    """Prints the updates of one session in their order; streamed text goes on where it ended."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._open = ""
        """Id of the message whose text is the last thing on the screen, without a line end."""
        self._commands: set[str] = set()
        self._answered_by = "approve"

    def show(self, update: Update) -> None:
        if isinstance(update, Said):
            self._say(update)
        elif isinstance(update, Shown):
            self._show(update.message)
        elif isinstance(update, StatusIs):
            self._turn(update.status)

    def finish(self) -> None:
        """End the line that is open, if any."""
        if self._open:
            say()
            self._open = ""

    def _say(self, update: Said) -> None:
        if self._open != update.message.id:
            self.finish()
            say(f"{_author(update.message)}: ", end="")
            # After something else came in between, a reader needs the whole text again to make sense of its rest.
            say(update.piece if update.first else update.message.text, end="")
        else:
            say(update.piece, end="")
        self._open = update.message.id

    def _show(self, message: Message) -> None:
        self.finish()
        if isinstance(message, Command):
            self._command(message)
            return
        if isinstance(message, Request):
            self._answered_by = "approve" if isinstance(message, Approval) else "answer"
        for line in lines_of(message):
            say(line)

    def _command(self, message: Command) -> None:
        if message.id not in self._commands:
            self._commands.add(message.id)
            say(f"$ {message.command}")
        if message.status != "running":
            if message.output:
                say(message.output.rstrip("\n"))
            say(f"[{message.status}]")

    def _turn(self, status: SessionStatus) -> None:
        if status == "approval":
            self.finish()
            say(f"[waits for an answer: termal {self._answered_by} {self._session_id}]")
        elif status == "error":
            self.finish()
            say("[error]")


def lines_of(message: Message) -> list[str]:
    """A whole message as lines."""
    match message:
        case Text():
            lines = [f"{_author(message)}: {message.text}"]
        case Thinking():
            lines = [f"({message.title})", *(f"  {line}" for line in message.lines)]
        case Command():
            lines = [f"$ {message.command}", message.output.rstrip("\n"), f"[{message.status}]"]
        case Diff():
            lines = [f"{message.change_type} {message.file_path}: {message.summary}", message.diff.rstrip("\n")]
        case Markdown():
            lines = [message.title, message.markdown]
        case FileChanges():
            lines = [message.title, *(f"  {changed.kind} {changed.path}" for changed in message.files)]
        case Approval():
            lines = [f"? {message.title} [{message.decision}]", f"  {message.command}"]
        case UserInputRequest() | ElicitationRequest() | CodexAppRequest():
            lines = [f"? {message.title} [{message.state}]", *_asked_lines(message)]
        case SubagentResult():
            lines = [message.title, message.summary]
        case _:
            lines = [f"[{type(message).__name__}] {getattr(message, 'title', '')}".rstrip()]
    return [line for line in lines if line.strip()]


def _asked_lines(message: Asked) -> list[str]:
    if isinstance(message, UserInputRequest):
        return [f"  {line}" for one in message.questions for line in question_lines(message.questions, one)]
    return [message.detail]


def _author(message: Text) -> str:
    if message.source:
        return message.source.name
    return message.author
