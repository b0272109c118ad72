"""``termal status``: the daemon's own account of itself, or what can be seen of it from outside."""

import time
from typing import Annotated

import typer
from rich.live import Live

from termal.cli.census import take_census
from termal.cli.console import BaseUrl, Home, Json, command_app, complain, printable, say_json, table_console
from termal.cli.daemon import ANSWER_S, NotRunning, address, answer_limit_s, is_of, token_for
from termal.cli.tables import show_status
from termal.client.errors import Unreachable
from termal.client.http import Http
from termal.home import find_home
from termal.model.status import DaemonStatus
from termal.wire.errors import TermalError

_REFRESH_S = 1.0

app = command_app()


@app.command()
def status(
    home: Home = None,
    base_url: BaseUrl = None,
    as_json: Json = False,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh in place each second; end with Ctrl-C.")] = False,
) -> None:
    """Show the whole daemon. When it does not answer, show what its files and the process table say."""
    if watch and not as_json:
        _watch(home, base_url)
        return
    found = read_status(home, base_url, answer_limit_s())
    if as_json:
        if found.source != "daemon":
            complain(f"the daemon does not answer: {found.reason}")
        say_json(found)
    else:
        table_console().print(show_status(found))


def read_status(home: str | None, base_url: str | None, limit_s: float) -> DaemonStatus:
    """The daemon's answer, or the census of its data directory when none came in ``limit_s`` seconds.

    Raises `Unreachable` or `TermalError` for an address of which no file here knows anything.
    """
    try:
        url = address(home, base_url)
    except NotRunning:
        return take_census(find_home(home))
    try:
        with Http(url, reply_s=limit_s, repeat_s=0.0, token=token_for(home, url)) as http:
            return http.status()
    except (Unreachable, TermalError) as error:
        if not is_of(home, url):
            raise
        return take_census(find_home(home), str(error))


def _watch(home: str | None, base_url: str | None) -> None:
    with Live(console=table_console(), auto_refresh=False, screen=False) as live:
        while True:
            try:
                live.update(show_status(read_status(home, base_url, ANSWER_S)), refresh=True)
            except (Unreachable, TermalError) as error:
                live.update(printable(str(error)), refresh=True)
            time.sleep(_REFRESH_S)
