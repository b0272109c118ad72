"""``termal sessions``: list, create, show, change, export and import sessions."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from termal.cli.console import (
    Agent,
    BaseUrl,
    Home,
    Json,
    Session,
    command_app,
    fail,
    one_line,
    plain_table,
    printable,
    say,
    say_json,
    table_console,
)
from termal.cli.daemon import connect
from termal.cli.figures import as_count
from termal.cli.ndjson import copy_lines, pieces_of, save_lines
from termal.model import session as model
from termal.rules.settings import setting_names

app = command_app()


@app.callback()
def _sessions() -> None:
    """List, create, show, change, export and import sessions."""


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
    agent: Agent = None,
    name: Annotated[str | None, typer.Option(help="Name to show; the daemon makes one up.")] = None,
    workdir: Annotated[Path | None, typer.Option(help="Directory of the agent (else the current one).")] = None,
    project: Annotated[
        str | None, typer.Option(metavar="ID", help="Project that it belongs to; see `termal projects list`.")
    ] = None,
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
    settings = _settings(setting or [], "--setting ", setting_names(new=True))
    folder = str((workdir or Path.cwd()).absolute())
    with connect(home, base_url) as http:
        made = http.create_session(
            agent=agent, name=name, workdir=folder, model=model, project_id=project, settings=settings
        )
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
        say(f"{'queued':<15} {prompt.id}  {one_line(prompt.text)}")


@app.command("set")
def set_settings(
    session: Session,
    pairs: Annotated[
        list[str], typer.Argument(metavar="NAME=VALUE...", help="name, model, or a setting of its agent.")
    ],
    *,
    home: Home = None,
    base_url: BaseUrl = None,
    as_json: Json = False,
) -> None:
    """Change settings of a session from its next turn on. All that is given is changed, or nothing."""
    values: dict[str, str | bool] = {**_settings(pairs, "", setting_names(new=False) | {"name", "model"})}
    name, model = values.pop("name", None), values.pop("model", None)
    fast = values.get("codexFastMode")
    if fast in ("true", "false"):
        values["codexFastMode"] = fast == "true"
    with connect(home, base_url) as http:
        changed = http.change_settings(
            session,
            name=None if name is None else str(name),
            model=None if model is None else str(model),
            settings=values,
        ).session(session)
    if as_json:
        say_json(changed)
    else:
        say(f"{session} changed")


def _settings(pairs: list[str], option: str, known: frozenset[str]) -> dict[str, str]:
    """``NAME=VALUE`` of each; ends the command for anything else: the daemon passes over what it does not know."""
    settings = {}
    for pair in pairs:
        key, found, value = pair.partition("=")
        if not found or not key:
            fail(f"{option}{pair!r}: write it as NAME=VALUE", 2)
        if key not in known:
            fail(f"{option}{pair!r}: there is no such setting; there are {', '.join(sorted(known))}", 2)
        settings[key] = value
    return settings


@app.command("export")
def export_session(
    session: Session,
    file: Annotated[str, typer.Argument(metavar="[FILE]", help="Where to; '-' or nothing: standard output.")] = "-",
    *,
    home: Home = None,
    base_url: BaseUrl = None,
) -> None:
    """Write a session with its whole transcript, as lines of JSON. A file appears when it is complete."""
    with connect(home, base_url) as http, http.export_session(session) as chunks:
        if file == "-":
            copy_lines(chunks, sys.stdout.buffer)
            sys.stdout.flush()
        else:
            save_lines(chunks, Path(file))


@app.command("import")
def import_session(
    file: Annotated[str, typer.Argument(metavar="FILE", help="What an export has written; '-': standard input.")],
    *,
    home: Home = None,
    base_url: BaseUrl = None,
    as_json: Json = False,
) -> None:
    """Make a new session of an exported one and print its id. All of it, or nothing."""
    try:
        source = sys.stdin.buffer if file == "-" else Path(file).open("rb")  # noqa: SIM115 - closed below
    except OSError as error:
        fail(f"{file} cannot be read: {error.strerror}")
    with source, connect(home, base_url) as http:
        made = http.import_session(pieces_of(source))
    if as_json:
        say_json(made)
    else:
        say(made.session_id)


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
            one_line(one.preview),
        )
    console = table_console()
    console.print(table)
    waiting = [one.id for one in sessions if one.status == "approval"]
    if waiting:
        say(f"{as_count(len(waiting), 'session waits', 'sessions wait')} for an answer: termal approve {waiting[0]}")
