"""``termal delegate``: spawn, list, look at, read, cancel, continue and wait for delegated work."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
import typer

from termal.cli.console import (
    EXIT_AGAIN,
    BaseUrl,
    Home,
    Json,
    Session,
    agent_name,
    command_app,
    fail,
    read_input,
    say,
    say_json,
    table_console,
)
from termal.cli.daemon import connect
from termal.cli.delegate_show import WaitShow, list_table, result_lines, status_lines
from termal.cli.delegate_wait import Waited, wait_for
from termal.cli.outcome import told
from termal.client.call import new_key
from termal.client.http import Http
from termal.client.packets import TERMINAL
from termal.client.routes import delegations

PAGE_BYTES = 8192

Delegation = Annotated[
    str, typer.Argument(metavar="DELEGATION", help="Id of the delegation, as `termal delegate list` shows it.")
]

app = command_app()


@app.callback()
def _delegate() -> None:
    """Spawn, look at, wait for and end delegated work."""


@app.command()
def spawn(
    session: Session,
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="The task; '-' or nothing: standard input.")] = "-",
    *,
    title: Annotated[str | None, typer.Option(help="Name of the work and of the child session.")] = None,
    agent: Annotated[
        str | None, typer.Option(callback=agent_name, help="Who does it (else the agent of SESSION).")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Model of the child (else the default of its agent).")] = None,
    mode: Annotated[str | None, typer.Option(help="reviewer (the default) or explorer.")] = None,
    cwd: Annotated[str | None, typer.Option(metavar="DIR", help="Where the child works (else as SESSION).")] = None,
    isolated: Annotated[
        bool, typer.Option("--isolated", help="Let it write, in a worktree of its own (else it may only read).")
    ] = False,
    own: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="With --isolated: what it is meant to change; may be given several times."),
    ] = None,
    key: Annotated[str | None, typer.Option(help="A repeat with the same key is the same delegation.")] = None,
    home: Home = None,
    base_url: BaseUrl = None,
    as_json: Json = False,
) -> None:
    """Give a task to a child session; print the delegation's id. Exit 1 if the child could not start."""
    if own and not isolated:
        fail("--own needs --isolated: a child that may only read changes nothing", 2)
    wanted: dict[str, Any] = {
        "prompt": read_input() if prompt == "-" else prompt,
        "title": title,
        "agent": agent,
        "model": model,
        "mode": mode,
        "cwd": cwd,
        "writePolicy": {"kind": "isolatedWorktree", "ownedPaths": own or []} if isolated else None,
    }
    used = key or new_key()
    call = delegations.create(session, wanted)
    with told(as_json, key=used), connect(home, base_url) as http:
        made = http.run(msgspec.structs.replace(call, key=used, repeatable=True))
    if as_json:
        say_json(made)
    else:
        say(made.delegation["id"])
    if made.delegation["status"] == "failed":
        result = made.delegation.get("result", {})
        fail(result.get("summary", "the child session could not be started"))


@app.command("list")
def list_delegations(session: Session, home: Home = None, base_url: BaseUrl = None, as_json: Json = False) -> None:
    """List what a session has delegated, the oldest first."""
    with told(as_json), connect(home, base_url) as http:
        found = http.run(delegations.delegations(session)).delegations
    if as_json:
        say_json(found)
    elif not found:
        say("nothing delegated yet: try `termal delegate spawn`")
    else:
        table_console().print(list_table(found))


@app.command()
def status(
    session: Session, delegation: Delegation, home: Home = None, base_url: BaseUrl = None, as_json: Json = False
) -> None:
    """Show one delegation: its child, its policy, how far it is."""
    with told(as_json), connect(home, base_url) as http:
        found = http.run(delegations.status(session, delegation)).delegation
    if as_json:
        say_json(found)
        return
    for line in status_lines(found):
        say(line)


@app.command()
def result(
    session: Session,
    delegation: Delegation,
    *,
    output: Annotated[
        bool, typer.Option("--output", help="The child's whole last text instead of the result packet.")
    ] = False,
    home: Home = None,
    base_url: BaseUrl = None,
    as_json: Json = False,
) -> None:
    """Print the result of work that has ended. Exit 4 while it goes on."""
    with told(as_json), connect(home, base_url) as http:
        if output:
            _print_output(http, session, delegation, as_json)
            return
        reply = http.run(delegations.result(session, delegation))
    if as_json:
        say_json(reply)
        return
    for line in result_lines(reply):
        say(line)


@app.command()
def cancel(
    session: Session, delegation: Delegation, home: Home = None, base_url: BaseUrl = None, as_json: Json = False
) -> None:
    """Stop the child and end the delegation. Once it has ended, this changes nothing; exit 1 if it had failed."""
    with told(as_json), connect(home, base_url) as http:
        found = http.run(delegations.cancel(session, delegation)).delegation
    _tell(found, as_json, f"{delegation} is {found['status']}")
    if found["status"] == "failed":
        fail(f"{delegation} had failed already: nothing was canceled")


@app.command()
def followup(
    session: Session,
    delegation: Delegation,
    message: Annotated[str, typer.Argument(metavar="MESSAGE", help="'-' or nothing reads standard input.")] = "-",
    *,
    key: Annotated[str | None, typer.Option(help="A repeat with the same key is the same message.")] = None,
    home: Home = None,
    base_url: BaseUrl = None,
    as_json: Json = False,
) -> None:
    """Give the child of ended work another turn. Exit 4 while it works, and for work that was canceled."""
    text = read_input() if message == "-" else message
    used = key or new_key()
    call = delegations.follow_up(session, delegation, text)
    with told(as_json, key=used), connect(home, base_url) as http:
        found = http.run(msgspec.structs.replace(call, key=used, repeatable=True)).delegation
    _tell(found, as_json, f"{delegation} is {found['status']} again")


@app.command()
def wait(
    session: Session,
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="[DELEGATION]...", help="Without any: all that are not over.")
    ] = None,
    *,
    any_of: Annotated[bool, typer.Option("--any", help="Until the first of them is over (else all).")] = False,
    timeout_s: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", min=0, help="Wait at most this long.")
    ] = None,
    home: Home = None,
    base_url: BaseUrl = None,
    as_json: Json = False,
) -> None:
    """Wait for delegated work and show how it goes. Exit 1 if some of it did not complete, 5 when the time is up.

    It only looks: the session is not resumed by this.
    """
    with told(as_json), connect(home, base_url) as http, WaitShow(quiet=as_json) as show:
        wanted = list(dict.fromkeys(ids or _active(http, session)))
        waited = wait_for(http, session, wanted, any_of=any_of, timeout_s=timeout_s, seen=show.seen)
    if as_json:
        say_json({"outcome": "timeout" if waited.timed_out else "completed", "delegations": waited.records})
    elif not wanted:
        say("nothing is at work")
    _end(waited)


def _end(waited: Waited) -> None:
    if waited.timed_out:
        open_ones = [record["id"] for record in waited.records if record["status"] not in TERMINAL]
        fail(f"the time is up: {', '.join(open_ones)} not over; nothing was canceled", EXIT_AGAIN)
    bad = [f"{record['id']} {record['status']}" for record in waited.ended if record["status"] != "completed"]
    if bad:
        fail(", ".join(bad))


def _active(http: Http, session: str) -> list[str]:
    found = http.run(delegations.delegations(session)).delegations
    return [record["id"] for record in found if record["status"] not in TERMINAL]


def _print_output(http: Http, session: str, delegation: str, as_json: bool) -> None:
    """Page by page, as it comes; with --json all pages in one list."""
    pages = []
    offset: int | None = 0
    while offset is not None:
        page = http.run(delegations.output(session, delegation, offset_bytes=offset, limit_bytes=PAGE_BYTES))
        pages.append(page)
        offset = page.next_offset_bytes
        if not as_json:
            say(page.output, end="" if offset is not None else "\n")
    if as_json:
        say_json({"output": "".join(page.output for page in pages), "summaryFallback": pages[0].summary_fallback})


def _tell(found: Mapping[str, Any], as_json: bool, text: str) -> None:
    if as_json:
        say_json(found)
    else:
        say(text)
