"""``termal sessions``: list, create and show sessions."""

from pathlib import Path
from typing import Annotated

import typer

from termal.cli.console import BaseUrl, Home, Json, Session, command_app, fail, printable, say, say_json, table_console
from termal.cli.daemon import connect
from termal.cli.figures import as_count
from termal.cli.tables import plain_table
from termal.model import session as model

app = command_app()


@app.callback()
def _sessions() -> None:
    """List, create and show sessions."""


@app.command("list")
def list_sessions(home: Home = None, base_url: BaseUrl = None, as_json: Json = False) -> None:
    """List all sessions."""
    with connect(home, base_url) as http:
        sessions = http.state().sessions
    if as_json:
        say_json(sessions)
    elif not sessions:
        say("no sessions yet: make one with `termal sessions create --agent Demo`")
    else:
        _print_table(sessions)


@app.command()
def create(
    *,
    agent: Annotated[
        str | None, typer.Option(help="Codex, Claude, Cursor, Gemini, OpenCode, Demo or one of yours.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name to show; the daemon makes one up.")] = None,
    workdir: Annotated[Path | None, typer.Option(help="Directory of the agent (else the current one).")] = None,
    model: Annotated[str | None, typer.Option(help="Model of the agent.")] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A setting of that agent; may be given several times."),
    ] = None,
    home: Home = None,
    base_url: BaseUrl = None,
    as_json: Json = False,
) -> None:
    """Create a session and print its id."""
    settings = {}
    for pair in setting or []:
        key, found, value = pair.partition("=")
        if not found or not key:
            fail(f"--setting {pair!r}: write it as NAME=VALUE", 2)
        settings[key] = value
    folder = str((workdir or Path.cwd()).absolute())
    with connect(home, base_url) as http:
        made = http.create_session(agent=agent, name=name, workdir=folder, model=model, settings=settings)
    if as_json:
        say_json(made)
    else:
        say(made.session_id)


@app.command()
def show(session: Session, home: Home = None, base_url: BaseUrl = None, as_json: Json = False) -> None:
    """Show one session: its settings, its queue, its state."""
    with connect(home, base_url) as http:
        reply = http.read_session(session, tail=1)
    if as_json:
        say_json(reply)
        return
    found = reply.session
    rows = {
        "id": found.id,
        "name": found.name,
        "agent": found.agent,
        "model": found.model,
        "status": found.status,
        "directory": found.workdir,
        "messages": str(found.message_count),
        "agent's own id": found.external_session_id or "",
        "preview": found.preview,
    }
    for key, value in rows.items():
        if value:
            say(f"{key:<15} {value}")
    for prompt in found.pending_prompts or []:
        say(f"{'queued':<15} {prompt.id}  {_one_line(prompt.text)}")


def _print_table(sessions: list[model.Session]) -> None:
    table = plain_table("id", "name", "agent", "status", "messages>", "directory", "preview")
    for one in sessions:
        table.add_row(
            one.id,
            printable(one.name),
            one.agent,
            one.status,
            str(one.message_count),
            printable(one.workdir),
            _one_line(one.preview),
        )
    console = table_console()
    console.print(table)
    waiting = [one.id for one in sessions if one.status == "approval"]
    if waiting:
        say(f"{as_count(len(waiting), 'session waits', 'sessions wait')} for an answer: termal approve {waiting[0]}")


def _one_line(text: str, limit: int = 60) -> str:
    line = " ".join(printable(text).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
