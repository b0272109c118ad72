"""``termal worktrees``: the worktrees that delegations left, and their removal."""

from typing import Annotated

import typer

from termal.cli.console import (
    EXIT_CONFLICT,
    EXIT_NOT_THERE,
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
from termal.cli.daemon import NotRunning, connect
from termal.cli.figures import as_size
from termal.home import find_home
from termal.model.delegation import ACTIVE
from termal.procs.worktree import Shelf
from termal.procs.worktree_list import remove as remove_one
from termal.procs.worktree_list import worktrees
from termal.rules.verdicts import Missing, Stale

app = command_app()


@app.callback()
def _worktrees() -> None:
    """List and remove the worktrees that delegations left."""


@app.command("list")
def list_worktrees(home: Home = None, as_json: Json = False) -> None:
    """List the worktrees of the data directory, their size and state."""
    found = worktrees(Shelf(find_home(home).worktrees))
    if as_json:
        say_json(found)
    elif not found:
        say("no worktrees")
    else:
        table = plain_table("delegation", "state", "changed>", "size>", "of", "path")
        for one in found:
            table.add_row(
                printable(one.delegation_id),
                one.state,
                str(one.changed_files),
                as_size(one.size_bytes),
                printable(one.source_root),
                printable(one.path),
            )
        table_console().print(table)


@app.command()
def remove(
    worktree: Annotated[str, typer.Argument(metavar="WORKTREE", help="Id of its delegation, or its path.")],
    *,
    force: Annotated[bool, typer.Option("--force", help="Also with changes or commits in it: they are lost.")] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Remove a worktree. Refused (exit 4) while its delegation works, and without --force where work would be lost."""
    shelf = Shelf(find_home(home).worktrees)
    named = {worktree, *(one.path for one in worktrees(shelf) if worktree in (one.delegation_id, one.path))}
    if named & _in_use(home):
        fail(f"{worktree}: its delegation is at work; cancel it first", EXIT_CONFLICT)
    try:
        removed = remove_one(shelf, worktree, force=force)
    except Missing as error:
        fail(error.text, EXIT_NOT_THERE)
    except Stale as error:
        fail(f"{error.text} (remove it all the same with --force)", EXIT_CONFLICT)
    if as_json:
        say_json(removed)
    else:
        say(f"{removed.path} removed")


def _in_use(home: str | None) -> set[str]:
    """Ids and worktrees of the delegations that are at work; none without a daemon. Raises `Unreachable`."""
    try:
        with connect(home, None) as http:
            delegations = http.state().delegations
    except NotRunning:
        return set()
    active = [record for record in delegations if record["status"] in ACTIVE]
    return {record["id"] for record in active} | {
        path for record in active if (path := record["writePolicy"].get("worktreePath"))
    }
