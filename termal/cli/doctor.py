"""``termal doctor``: every check with its finding and its advice; and the rows that were set aside, to look at."""

from pathlib import Path
from typing import Annotated

import typer

from termal.cli.checks import Finding, examine
from termal.cli.console import (
    EXIT_FAILED,
    Home,
    Json,
    command_app,
    fail,
    plain_table,
    printable,
    say,
    say_json,
    table_console,
)
from termal.cli.figures import as_count, as_size
from termal.cli.quarantine import InspectionFailed, export_row, rows_aside
from termal.home import Home as Directory
from termal.home import find_home

_SIGNS = {"ok": "ok     ", "hint": "hint   ", "problem": "PROBLEM"}

app = command_app()


@app.command()
def doctor(
    home: Home = None,
    quarantine: Annotated[
        bool, typer.Option("--quarantine", help="List the rows that were set aside because they cannot be used.")
    ] = False,
    export: Annotated[
        tuple[str, Path] | None,
        typer.Option("--export", metavar="ID FILE", help="Write one of those rows to a new file, as JSON lines."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check the data directory, the daemon, the port, SQLite, both databases and the agents. Exit 1 with a problem."""
    place = find_home(home)
    try:
        if export is not None:
            _export(place, *export, as_json)
        elif quarantine:
            _list(place, as_json)
        else:
            _examine(place, as_json)
    except InspectionFailed as error:
        fail(str(error))


def _examine(home: Directory, as_json: bool) -> None:
    findings: list[Finding] = []
    for finding in examine(home):
        findings.append(finding)
        if not as_json:
            say(f"{_SIGNS[finding.level]} {finding.subject}: {finding.text}")
            if finding.advice:
                say(f"        -> {finding.advice}")
    problems = sum(finding.level == "problem" for finding in findings)
    if as_json:
        say_json({"ok": not problems, "findings": findings})
    else:
        say(as_count(problems, "problem") if problems else "nothing is wrong")
    if problems:
        raise typer.Exit(EXIT_FAILED)


def _list(home: Directory, as_json: bool) -> None:
    rows = rows_aside(home)
    if as_json:
        say_json({"quarantined": rows})
        return
    if not rows:
        say("no row is set aside")
        return
    table = plain_table("table", "id", "size>", "messages>", "reason")
    for row in rows:
        table.add_row(row.table, printable(row.id), as_size(row.size_bytes), str(row.messages), printable(row.reason))
    table_console().print(table)


def _export(home: Directory, row_id: str, target: Path, as_json: bool) -> None:
    size_bytes = export_row(home, row_id, target)
    if as_json:
        say_json({"id": row_id, "file": str(target), "bytes": size_bytes})
    else:
        say(f"{row_id} is in {target} ({as_size(size_bytes)}); the database was not changed")
