"""``termal serve``: becomes the supervisor by exec, so that the daemon carries no command line around."""

import os
import sys
from typing import Annotated

import typer

from termal.cli.console import Home, command_app
from termal.config import read_config
from termal.home import find_home

app = command_app()


@app.command()
def serve(
    home: Home = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on (else config.toml, 127.0.0.1).")] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port, 0 for any free one (else TERMAL_PORT, config.toml, 8787)."),
    ] = None,
) -> None:
    """Run the daemon in the foreground until Ctrl-C or SIGTERM."""
    place = find_home(home)
    # A wrong file is told before anything starts.
    read_config(place.config)
    options = {"--home": str(place.root), "--host": host, "--port": port}
    arguments = [text for name, value in options.items() if value is not None for text in (name, str(value))]
    sys.stdout.flush()
    # -P: a folder named `workers` or `supervisor` where the user happens to be must not be taken for ours.
    os.execv(sys.executable, [sys.executable, "-P", "-m", "supervisor", *arguments])  # noqa: S606 - a list of our own, no shell wanted
