"""``termal service``: have the daemon kept running by what this machine has for that (systemd, launchd)."""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from termal.cli.console import (
    EXIT_FAILED,
    EXIT_NOT_THERE,
    Home,
    Json,
    command_app,
    complain,
    fail,
    say,
    say_json,
    say_json_line,
)
from termal.cli.daemon import Running, is_alive, read_running
from termal.cli.log_lines import LogLine, LogStream
from termal.cli.service_file import CannotBeWritten, Job, home_of, is_text
from termal.cli.service_keeper import Keeper, KeeperFailed, StillStarting
from termal.cli.service_launchd import Launchd
from termal.cli.service_systemd import Systemd
from termal.config import read_config
from termal.home import Home as Directory
from termal.home import find_home, prepare

_LOOK_S = 0.25
_FILE_MODE = 0o600

app = command_app()


@app.callback()
def _service() -> None:
    """Keep the daemon running: a user service of systemd or launchd."""


@app.command()
def install(
    home: Home = None,
    no_start: Annotated[bool, typer.Option("--no-start", help="Not now: with the next login only.")] = False,
    print_only: Annotated[bool, typer.Option("--print", help="Print the service's file and do nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Have the daemon started with every login, and after a crash."""
    keeper, place, start = _keeper(), find_home(home), not no_start
    try:
        text = keeper.text(_job(place))
    except CannotBeWritten as error:
        fail(str(error))
    if print_only:
        sys.stdout.write(text)
        return
    # A wrong file is told before anything is written.
    read_config(place.config)
    _refuse_foreign(keeper, place)
    if why := keeper.why_absent():
        fail(why)
    if start:
        _refuse_second(keeper, place)
    prepare(place)
    _write(keeper.file, text)
    if os.environ.get("TERMAL_PORT"):
        complain(f"TERMAL_PORT does not reach the service: to choose its port write it into {place.config}")
    with _told():
        if not start:
            keeper.enroll()
        serves = start and _starts(keeper)
    running = _running(place) if serves else None
    if as_json:
        url = running.url if running else None
        say_json({"file": str(keeper.file), "home": str(place.root), "started": start, "url": url})
        return
    say(f"{keeper.file} written: {keeper.name} keeps the daemon of {place.root}")
    at = f"started{f' at {running.url}' if running else ''}" if serves else "it starts with the next login"
    if start and not serves:
        at = "still starting: `termal service status` says when it runs"
    say(f"{at}; remove it with `termal service uninstall`")
    if hint := keeper.hint():
        say(hint)


@app.command()
def uninstall(as_json: Json = False) -> None:
    """Stop the service and remove what `install` has made. The data directory stays as it is."""
    keeper = _keeper()
    home = _installed(keeper)
    if home is None:
        if keeper.file.exists():
            fail(f"{keeper.file} was not made by `termal service install`: remove it yourself")
        _say_removed(keeper, None, "no service is installed", as_json)
        return
    why = keeper.why_absent()
    with _told():
        if not why:
            keeper.withdraw()
        keeper.forget_unasked()
        keeper.file.unlink()
        if not why:
            keeper.forget()
    text = f"{keeper.file} removed{'' if why else ' and the service stopped'}; the data in {home} is untouched"
    _say_removed(keeper, home, text, as_json)


@app.command()
def status(as_json: Json = False) -> None:
    """Say whether the service is installed and runs. Exit 0: it runs, 1: it does not, 3: none is installed."""
    keeper = _keeper()
    home = _installed(keeper)
    if home is None:
        if as_json:
            say_json({"installed": False, "keeper": keeper.name, "file": str(keeper.file)})
        else:
            say("no service is installed: termal service install")
        raise typer.Exit(EXIT_NOT_THERE)
    why = keeper.why_absent()
    kept = None if why else keeper.kept()
    fields = {
        "installed": True,
        "keeper": keeper.name,
        "file": str(keeper.file),
        "home": str(home),
        "state": kept.state if kept else "unknown",
        "pid": kept.pid if kept else None,
        "atLogin": kept.at_login if kept else None,
        "detail": kept.detail if kept else why,
    }
    if as_json:
        say_json(fields)
    else:
        for name in ("keeper", "file", "home", "state", "pid", "detail"):
            if fields[name]:
                say(f"{name:<7} {fields[name]}")
    raise typer.Exit(0 if kept and kept.state == "active" else EXIT_FAILED)


@app.command()
def logs(
    home: Home = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the newest lines.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes; end with Ctrl-C.")] = False,
    as_json: Json = False,
) -> None:
    """Show the logs of all processes as one, in order. Works for every daemon, service or not."""
    chosen = home or os.environ.get("TERMAL_HOME")
    installed = None if chosen else _installed(_keeper())
    place = find_home(chosen) if installed is None else Directory(installed)
    if not place.logs.is_dir():
        fail(f"{place.logs} is not there: no daemon has run on {place.root}", EXIT_NOT_THERE)
    with contextlib.closing(LogStream(place.logs)) as stream:
        _show(stream.begin(lines), as_json)
        while follow:
            time.sleep(_LOOK_S)
            _show(stream.more(), as_json)


def _keeper() -> Keeper:
    return Launchd() if sys.platform == "darwin" else Systemd()


def _job(place: Directory) -> Job:
    program = Path(sys.executable).with_name("termal")
    installed = os.access(program, os.X_OK)
    # What the file cannot hold is left out, as a folder that is not there would be.
    searched = os.environ.get("PATH", os.defpath).split(os.pathsep)
    folders = [name for name in searched if Path(name).is_absolute() and is_text(name)]
    return Job(
        program=[str(program)] if installed else [sys.executable, "-P", "-m", "termal"],
        home=place.root,
        path=os.pathsep.join(dict.fromkeys(folders)),
    )


def _installed(keeper: Keeper) -> Path | None:
    """The data directory of the service that is installed, None without one, or when the file is somebody else's."""
    try:
        return home_of(keeper.file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError):
        return None


def _refuse_foreign(keeper: Keeper, place: Directory) -> None:
    if not os.path.lexists(keeper.file):
        return
    home = None if keeper.file.is_symlink() else _installed(keeper)
    if home is None:
        fail(f"{keeper.file} was not made by `termal service install`: move it away first")
    if home != place.root:
        fail(f"the service is installed for {home}: `termal service uninstall` first")


def _refuse_second(keeper: Keeper, place: Directory) -> None:
    running = _running(place)
    if running is None:
        return
    if keeper.file.exists() and keeper.kept().pid == running.pid:
        return
    fail(f"a daemon runs on {place.root} as process {running.pid}: stop it first, or give --no-start")


def _running(place: Directory) -> Running | None:
    found = read_running(place)
    return found if found is not None and is_alive(found.pid, found.start_time) else None


def _write(file: Path, text: str) -> None:
    """The whole file, or the old one."""
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _FILE_MODE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as target:
            target.write(text)
        partial.replace(file)
    except BaseException as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        if isinstance(error, OSError):
            fail(f"{file} cannot be written: {error.strerror}")
        raise


def _starts(keeper: Keeper) -> bool:
    """Whether it serves already; an upgrade of the data can take long."""
    try:
        keeper.start()
    except StillStarting:
        return False
    return True


@contextlib.contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except KeeperFailed as error:
        fail(f"{error}; see `termal service logs` and `termal doctor`")


def _say_removed(keeper: Keeper, home: Path | None, text: str, as_json: bool) -> None:
    if as_json:
        say_json({"file": str(keeper.file), "home": str(home) if home else None, "removed": home is not None})
    else:
        say(text)


def _show(lines: list[LogLine], as_json: bool) -> None:
    for line in lines:
        if as_json:
            say_json_line(line.fields or {"ts": line.ts, "process": line.process, "text": line.text})
        else:
            say(line.worded())
