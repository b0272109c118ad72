"""``termal agents``: which coding agents can be used on this machine, and what to do about the others."""

import os
from concurrent.futures import ThreadPoolExecutor

import msgspec
from msgspec import UNSET, UnsetType
from rich.text import Text

from termal.cli.console import Home, Json, command_app, plain_table, printable, say_json, table_console
from termal.config import Config, read_config
from termal.home import find_home
from termal.procs.agents import Readiness, agent_names, readiness, version

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
def agents(home: Home = None, as_json: Json = False) -> None:
    """Show which agents are usable here: those of config.toml, on PATH, and the bundled Demo. Asks no daemon."""
    rows = find_agents(read_config(find_home(home).config))
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


def find_agents(config: Config) -> list[Row]:
    """One row for each agent, in the order of the configuration after the built-in ones. Starts each once to ask."""
    names = agent_names(config)
    with ThreadPoolExecutor(len(names)) as pool:
        versions = list(pool.map(lambda name: version(name, config, os.environ), names))
    return [_row(readiness(name, config, os.environ), said) for name, said in zip(names, versions, strict=True)]


def _row(found: Readiness, said: str | None) -> Row:
    return Row(**msgspec.structs.asdict(found), version=said or UNSET)
