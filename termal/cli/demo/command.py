"""``termal demo``: the main job in a throw-away home, with processes killed on the way. Each claim in it is checked."""

import sys
import time

import typer
from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from termal.cli.console import EXIT_FAILED, Json, command_app, complain, printable, say_json, table_console
from termal.cli.demo.play import Play
from termal.cli.demo.stage import Stage, StageFailed
from termal.cli.figures import as_duration
from termal.client.errors import Unreachable
from termal.wire.errors import TermalError

_FIGURES = {
    "readyMs": "ready after, ms",
    "restartMs": "killed worker replaced after, ms",
    "stopMs": "stopped within, ms",
    "messages": "messages stored",
    "lost": "lost",
}

app = command_app()


@app.command()
def demo(as_json: Json = False) -> None:
    """Start a daemon in a temporary directory, use it, kill parts of it, check that nothing was lost, remove it all."""
    console = Console(stderr=True, markup=False, highlight=False) if as_json else table_console()
    begun = time.monotonic()
    with console.status("") as spinner:
        play, fault = _perform(Narrator(console, spinner, begun))
    failed = [check for check in play.claims.checks if not check.passed]
    if as_json:
        say_json(
            {
                "ok": not failed and not fault,
                "fault": fault,
                "figures": play.claims.figures,
                "checks": play.claims.checks,
            }
        )
    else:
        console.print(_summary(play))
        took = as_duration(time.monotonic() - begun)
        console.print(f"{len(play.claims.checks) - len(failed)} of {len(play.claims.checks)} claims true, in {took}")
    if fault:
        complain(f"the demo could not go on: {fault}")
    if failed or fault:
        raise typer.Exit(EXIT_FAILED)


class Narrator:
    """Tells what happens, with the seconds since the start; on a terminal a moving line shows what streams in."""

    def __init__(self, console: Console, spinner: Status, begun: float) -> None:
        self._console = console
        self._spinner = spinner
        self._begun = begun

    def act(self, title: str) -> None:
        self._console.print(Text(f"\n{title}", "bold"))

    def tell(self, line: str) -> None:
        stamp = Text(f"{time.monotonic() - self._begun:5.1f} s  ", "dim")
        self._console.print(Text.assemble(stamp, printable(line)))

    def moving(self, line: str) -> None:
        self._spinner.update(Text(" ".join(printable(line).split())))


def _perform(narrator: Narrator) -> tuple[Play, str]:
    """The play after its end, and why it could not go on, empty when it did."""
    play, fault = Play(narrator), ""
    with Stage() as stage:
        try:
            play.perform(stage)
        except (StageFailed, TermalError, Unreachable) as error:
            fault = str(error)
            sys.stderr.write(printable(stage.output()) + "\n")
    play.claims.check("its directory is gone", not stage.folder.exists(), str(stage.folder))
    return play, fault


def _summary(play: Play) -> Table:
    table = Table(
        box=None, pad_edge=False, show_header=False, title="\nIn figures", title_justify="left", title_style="bold"
    )
    table.add_column("figure")
    table.add_column("value", justify="right")
    for name, words in _FIGURES.items():
        if name in play.claims.figures:
            table.add_row(words, str(play.claims.figures[name]))
    return table
