"""``termal projects``: list, add and remove projects."""

from pathlib import Path
from typing import Annotated

import typer

from termal.cli.console import BaseUrl, Home, Json, command_app, plain_table, printable, say, say_json, table_console
from termal.cli.daemon import connect

app = command_app()


@app.callback()
def _projects() -> None:
    """List, add and remove projects."""


@app.command("list")
def list_projects(home: Home = None, base_url: BaseUrl = None, as_json: Json = False) -> None:
    """List all projects."""
    with connect(home, base_url) as http:
        projects = http.state().projects
    if as_json:
        say_json(projects)
    elif not projects:
        say("no projects yet: make one with `termal projects add DIRECTORY`")
    else:
        table = plain_table("id", "name", "root")
        for project in projects:
            table.add_row(*(printable(str(project.get(key, ""))) for key in ("id", "name", "rootPath")))
        table_console().print(table)


@app.command()
def add(
    root: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="Its sessions work in it or below.")],
    *,
    name: Annotated[str | None, typer.Option(help="Name to show (else the directory's).")] = None,
    home: Home = None,
    base_url: BaseUrl = None,
    as_json: Json = False,
) -> None:
    """Make a project and print its id. The same directory again is the same project."""
    with connect(home, base_url) as http:
        project_id = http.create_project(str(root.absolute()), name=name).project_id
    if as_json:
        say_json({"projectId": project_id})
    else:
        say(project_id)


@app.command()
def remove(
    project: Annotated[str, typer.Argument(metavar="PROJECT", help="Id of the project.")],
    *,
    home: Home = None,
    base_url: BaseUrl = None,
    as_json: Json = False,
) -> None:
    """Remove a project. Its sessions stay."""
    with connect(home, base_url) as http:
        http.delete_project(project)
    if as_json:
        say_json({"projectId": project})
    else:
        say(f"{project} removed")
