"""What the commands print and how they end. Text of agents and sessions is data: it reaches no terminal unfiltered."""

import re
import sys
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import msgspec
import typer

from termal.model.session import BUILT_IN_AGENTS

if TYPE_CHECKING:
    from rich.table import Table

EXIT_FAILED = 1
"""The daemon answered with an error, or a check failed."""
EXIT_NOT_THERE = 3
"""Of commands that a script branches on: what is asked for is not there."""
EXIT_CONFLICT = 4
"""Of the same: the world moved, nothing was changed."""
EXIT_AGAIN = 5
"""Of the same: not now, or nobody knows whether it happened; repeating the same is safe."""
EXIT_UNAVAILABLE = 69
"""No daemon answers."""
PIPE_COLUMNS = 160
"""Width of tables that go to no terminal: nobody there can widen a window."""

LINE_CHARS = 60
"""Of a text of any length that is shown in one line."""

Home = Annotated[
    str | None,
    typer.Option("--home", metavar="DIR", help="Data directory of the daemon (else TERMAL_HOME, ~/.termal)."),
]
BaseUrl = Annotated[
    str | None,
    typer.Option(
        "--base-url", metavar="URL", help="Address of the daemon (else TERMAL_BASE_URL, or what --home says)."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for a script instead of text.")]


def agent_name(text: str | None) -> str | None:
    """The built-in agent of that name however it is written; a name of the user's own as it is."""
    return next((name for name in BUILT_IN_AGENTS if text and name.casefold() == text.casefold()), text)


Agent = Annotated[
    str | None,
    typer.Option("--agent", callback=agent_name, help="Codex, Claude, Cursor, Gemini, OpenCode, Demo or one of yours."),
]
Session = Annotated[
    str, typer.Argument(metavar="SESSION", help="Id of the session, as `termal sessions list` shows it.")
]

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def command_app() -> typer.Typer:
    """What a command's module hangs its function on."""
    return typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=False)


def printable(text: str) -> str:
    """``text`` without what a terminal would obey: escape sequences lose their ESC, line ends and tabs stay."""
    return _CONTROL.sub("", text.replace("\r\n", "\n"))


def one_line(text: str, limit: int = LINE_CHARS) -> str:
    """``text`` for one cell or one line: printable, cut off after ``limit`` characters."""
    line = " ".join(printable(text).split())
    return line if len(line) <= limit else line[: limit - 1] + "\u2026"


def read_input() -> str:
    """All of standard input. A person at a terminal is told that it is waited for."""
    if sys.stdin.isatty():
        complain("type the text; Ctrl-D on a line of its own ends it")
    return sys.stdin.read()


def say(text: str = "", *, end: str = "\n") -> None:
    """Print text from wherever, filtered, at once."""
    sys.stdout.write(printable(text) + end)
    sys.stdout.flush()


def say_json(value: Any) -> None:
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def say_json_line(value: Any) -> None:
    """One line of JSON, at once: for streams."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


def complain(message: str, *notes: str) -> None:
    """One line on stderr."""
    sys.stderr.write(printable(f"termal: {message}" + (f" ({', '.join(notes)})" if notes else "")) + "\n")


def fail(message: str, code: int = EXIT_FAILED) -> NoReturn:
    """End the command with one line on stderr."""
    complain(message)
    raise typer.Exit(code)


def plain_table(*columns: str) -> "Table":
    """``name>`` is a column of numbers."""
    from rich.table import Table  # noqa: PLC0415 - rich costs start-up time that most commands do not need

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.removesuffix(">"), justify="right" if column.endswith(">") else "left", overflow="fold")
    return table


def table_console() -> Any:
    """A rich console for stdout that reads no markup and cuts nothing off in a pipe."""
    from rich.console import Console  # noqa: PLC0415 - as above

    terminal = sys.stdout.isatty()
    return Console(width=None if terminal else PIPE_COLUMNS, markup=False, highlight=False, emoji=False)
