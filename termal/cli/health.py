"""``termal health``: one line and an exit code for scripts."""

import typer

from termal.cli.census import take_census
from termal.cli.console import BaseUrl, Home, Json, command_app, say, say_json
from termal.cli.daemon import NotRunning, address, answer_limit_s, is_of, token_for
from termal.cli.figures import as_count
from termal.client.errors import Unreachable
from termal.client.http import Http
from termal.client.replies import Health
from termal.home import find_home
from termal.wire.errors import TermalError

_EXITS = {"ok": 0, "degraded": 1, "down": 2}

_WELL = ("ready", "stopped")
"""A worker that starts on first use and has ended well is stopped."""

app = command_app()


@app.command()
def health(home: Home = None, base_url: BaseUrl = None, as_json: Json = False) -> None:
    """Print one line. Exit 0: healthy, 1: degraded, 2: down or no daemon."""
    found, reason = _ask(home, base_url)
    if as_json:
        say_json({**_fields(found), "reason": reason})
    else:
        say(f"{found.state}: {reason}")
    raise typer.Exit(_EXITS[found.state])


def _ask(home: str | None, base_url: str | None) -> tuple[Health, str]:
    try:
        url = address(home, base_url)
        with Http(url, reply_s=answer_limit_s(), repeat_s=0.0, token=token_for(home, url)) as http:
            found = http.health()
    except NotRunning:
        return _down(home, "")
    except (Unreachable, TermalError) as error:
        if not is_of(home, url):
            return Health(ok=False, state="down", version="", workers={}), str(error)
        return _down(home, str(error))
    return found, explain(found, url)


def _down(home: str | None, why: str) -> tuple[Health, str]:
    census = take_census(find_home(home), why)
    workers = {row.name: row.state for row in census.processes}
    return Health(ok=False, state="down", version=census.version, workers=workers), census.reason or ""


def explain(found: Health, url: str) -> str:
    """Why the state is what it is: the workers that should be ready and are not, else what the daemon says, else that
    all are."""
    late = [f"{name} is {state}" for name, state in sorted(found.workers.items()) if state not in _WELL]
    ready = sum(state == "ready" for state in found.workers.values())
    well = f"{as_count(ready, 'process', 'processes')} ready at {url}, version {found.version}"
    return ", ".join(late) or found.reason or well


def _fields(found: Health) -> dict[str, object]:
    return {
        "ok": found.ok,
        "state": found.state,
        "version": found.version,
        "serverInstanceId": found.server_instance_id,
        "workers": found.workers,
    }
