"""``termal agents``: which coding agents can be used on this machine, and what to do about the others."""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated

import msgspec
import typer
from msgspec import UNSET, UnsetType
from rich.text import Text

from termal.cli.console import Home, Json, command_app, plain_table, printable, say_json, table_console
from termal.cli.daemon import connect
from termal.client.errors import Unreachable
from termal.client.routes import daemon
from termal.config import Config, read_config
from termal.home import find_home
from termal.procs.agents import Readiness, agent_names, readiness, version
from termal.wire.errors import TermalError

_COLOURS = {"ready": "green", "missing": "dim", "needsSetup": "yellow"}

app = command_app()


class Row(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """``version`` is what the program says of itself, left out when it says nothing."""

    agent: str
    status: str
    blocking: bool
    detail: str
    warning_detail: str | UnsetType = UNSET
    command_path: str | UnsetType = UNSET
    version: str | UnsetType = UNSET


@app.command()
def agents(
    home: Home = None,
    as_json: Json = False,
    retry: Annotated[
        str | None,
        typer.Option("--retry", metavar="AGENT", help="Let it be started again; its last starts ended at once."),
    ] = None,
) -> None:
    """Show which agents are usable here: those of config.toml, on PATH, and the bundled Demo."""
    config = read_config(find_home(home).config)
    told = _told(home) if retry is None else _retried(home, retry)
    rows = [_with(row, told.get(row.agent)) for row in find_agents(config)]
    if as_json:
        say_json(rows)
        return
    table = plain_table("agent", "state", "version", "what to know")
    for row in rows:
        known = f"{row.detail} {row.warning_detail or ''}".strip()
        table.add_row(
            printable(row.agent), Text(row.status, _COLOURS.get(row.status, "")), printable(row.version or "-"), known
        )
    table_console().print(table)


def _retried(home: str | None, agent: str) -> dict[str, Readiness]:
    """What the daemon knows of each agent then. Raises `Unreachable`, `NotFound`."""
    with connect(home, None) as http:
        return {row.agent: row for row in http.run(daemon.retry_agent(agent)).agents}


def _told(home: str | None) -> dict[str, Readiness]:
    """What the daemon knows of each agent; nothing where none runs, or none that can say."""
    try:
        with connect(home, None) as http:
            return {row.agent: row for row in http.run(daemon.agents()).agents}
    except (Unreachable, TermalError):
        return {}


def _with(row: Row, told: Readiness | None) -> Row:
    """``row`` with what only the daemon knows: that the agent is there and ends right after its start."""
    if told is None or row.status != "ready" or told.status != "needsSetup":
        return row
    return msgspec.structs.replace(row, status=told.status, detail=told.detail)


def find_agents(config: Config) -> list[Row]:
    """One row for each agent, in the order of the configuration after the built-in ones. Starts each once to ask."""
    names = agent_names(config)
    with ThreadPoolExecutor(len(names)) as pool:
        versions = list(pool.map(lambda name: version(name, config, os.environ), names))
    return [_row(readiness(name, config, os.environ), said) for name, said in zip(names, versions, strict=True)]


def _row(found: Readiness, said: str | None) -> Row:
    return Row(**msgspec.structs.asdict(found), version=said or UNSET)
