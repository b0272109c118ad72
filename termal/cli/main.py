"""The entry point: the table of commands, and the one place where an expected failure becomes a line and a code."""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
import typer.core
import typer.main

from termal import __version__
from termal.cli.console import EXIT_FAILED, EXIT_UNAVAILABLE, complain
from termal.client.errors import Unreachable
from termal.config import ConfigRefused
from termal.home import HomeRefused
from termal.wire.control import EXIT_HOME, EXIT_USAGE
from termal.wire.errors import TermalError


class Entry(NamedTuple):
    """One command: the module that holds it as ``app``, and its line in ``termal --help``."""

    module: str
    summary: str


COMMANDS = {
    "serve": Entry("serve", "Run the daemon in the foreground."),
    "service": Entry("service", "Keep the daemon running: a service of yours, its logs."),
    "status": Entry("status", "Show processes, databases, sessions, agents, mail and waits."),
    "health": Entry("health", "Print one line; exit 0 healthy, 1 degraded, 2 down."),
    "doctor": Entry("doctor", "Check this machine and the data directory; say what to do."),
    "backup": Entry("backup", "Copy both databases, as they are at one instant, into a folder."),
    "restore": Entry("restore", "Put the databases of a backup in place."),
    "demo": Entry("demo.command", "See it work: a throw-away daemon, processes killed."),
    "agents": Entry("agents", "Show which coding agents are usable here, and why not."),
    "sessions": Entry("sessions", "List, create, show, change, export and import sessions."),
    "projects": Entry("projects", "List, add and remove projects."),
    "board": Entry("board", "Read, write and watch the board of a session's project."),
    "mail": Entry("mail", "Send, list, read, follow and acknowledge mail between sessions."),
    "delegate": Entry("delegate", "Spawn, look at, wait for and end delegated work."),
    "worktrees": Entry("worktrees", "List and remove the worktrees that delegations left."),
    "send": Entry("send", "Send a prompt to a session."),
    "tail": Entry("tail", "Show the newest messages of a session."),
    "search": Entry("search", "Find messages by their words."),
    "approve": Entry("approve", "Answer the permission question that a session waits for."),
    "answer": Entry("answer", "Answer the questions that a session waits for."),
    "stop": Entry("stop", "Interrupt the running turn of a session."),
    "kill": Entry("kill", "Remove a session with its transcript and its agent process."),
}


class _Lazy(typer.core.TyperGroup):
    """Shows the table above and imports a command's module only to run it: ``serve`` must not wait for ``httpx``."""

    def list_commands(self, _ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _ctx: Any, cmd_name: str) -> typer.core.TyperCommand | None:
        entry = COMMANDS.get(cmd_name)
        return typer.core.TyperCommand(cmd_name, help=entry.summary) if entry else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, load(name) if name and command else command, rest


def load(name: str) -> Any:
    """The command of that name as the command-line library's object. Raises KeyError for an unknown one."""
    module = import_module(f"termal.cli.{COMMANDS[name].module}")
    command = typer.main.get_command(module.app)
    command.name = name
    return command


app = typer.Typer(
    cls=_Lazy,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"termal {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """TermAl: a local daemon for people who work with coding agents."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit. Exit codes are those of docs/operations.md."""
    try:
        app(args=list(arguments) if arguments is not None else None, prog_name="termal")
    except Unreachable as error:
        complain(str(error))
        sys.exit(EXIT_UNAVAILABLE)
    except TermalError as error:
        complain(error.message, *getattr(error, "__notes__", ()))
        sys.exit(EXIT_FAILED)
    except ConfigRefused as error:
        complain(str(error))
        sys.exit(EXIT_USAGE)
    except HomeRefused as error:
        complain(str(error))
        sys.exit(EXIT_HOME)
