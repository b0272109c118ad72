"""What ``termal doctor`` looks at, a function per subject. Looks only; a finding that is no praise says what to do."""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from termal.cli.daemon import is_alive, read_running
from termal.cli.figures import as_count, as_size
from termal.cli.mail_file import FileRefused, inspect_mail_file
from termal.cli.quarantine import InspectionFailed, NotUpgraded, rows_aside
from termal.cli.waiting_mail import NOT_TOLD, waiting_mail
from termal.config import Config, ConfigRefused, read_config
from termal.home import Home, HomeRefused, socket_folder
from termal.procs.agents import agent_names, readiness
from termal.procs.lock import is_held, read_owner
from termal.procs.port import PortInUse, PortRefused, bind
from termal.procs.tree import find_marked
from termal.procs.worktree import Shelf
from termal.procs.worktree_list import worktrees
from termal.store.connection import StoreError, StoreRefused, check_version, open_reader, sqlite_version
from termal.wire.launch import DEFAULT_PORT

_OTHERS = 0o077
_NAMED = 5
"""Ids of rows in one finding; all of them are a command of their own."""

Level = Literal["ok", "hint", "problem"]


class Finding(msgspec.Struct, frozen=True):
    """``advice`` is empty when there is nothing to do. Only a ``problem`` keeps the daemon from its work."""

    level: Level
    subject: str
    text: str
    advice: str = ""


Findings = Iterator[Finding]


def examine(home: Home) -> Findings:
    """All findings, in the order in which a start of the daemon would come upon them."""
    checks: list[Callable[[Home], Findings]] = [
        check_directory,
        check_configuration,
        check_daemon,
        check_leftovers,
        check_port,
        check_sqlite,
        check_databases,
        check_rows,
        check_mail_file,
        check_waiting_mail,
        check_restore,
        check_worktrees,
        check_agents,
    ]
    for check in checks:
        yield from check(home)


def check_directory(home: Home) -> Findings:
    """The data directory and all in it belong to this user alone; nothing in it is a link."""
    subject = "directory"
    if not home.root.exists():
        yield Finding("ok", subject, f"{home.root} is not there yet: the first start makes it")
        return
    wrong = [file for file in (home.root, *_entries(home)) if _is_open(file)]
    for file in wrong:
        yield Finding("problem", subject, f"{file} is a link, or open to others", f"look at it, then: chmod go= {file}")
    if not os.access(home.root, os.W_OK):
        yield Finding("problem", subject, f"{home.root} cannot be written", "give it back to your user, or use --home")
    elif not wrong:
        yield Finding("ok", subject, f"{home.root} is owner-only")
    try:
        folder = socket_folder(home)
    except HomeRefused as error:
        yield Finding("problem", subject, str(error), "set XDG_RUNTIME_DIR to a short path that is yours")
    else:
        if folder != home.run:
            yield Finding("ok", subject, f"its path is too long for sockets: they are in {folder}")


def check_configuration(home: Home) -> Findings:
    try:
        read_config(home.config)
    except ConfigRefused as error:
        yield Finding("problem", "configuration", str(error), f"correct it in {home.config}, or move the file away")
    else:
        yield Finding("ok", "configuration", "read" if home.config.exists() else "none: the defaults hold")


def check_daemon(home: Home) -> Findings:
    running, held = read_running(home), is_held(home)
    alive = running is not None and is_alive(running.pid, running.start_time)
    if alive and held and running is not None:
        yield Finding("ok", "daemon", f"process {running.pid} runs at {running.url}")
    elif held:
        owner = read_owner(home)
        who = f"process {owner.pid}" if owner else "a process"
        yield Finding("hint", "daemon", f"{who} holds the lock and has no address yet", "wait, then: termal status")
    else:
        yield Finding("ok", "daemon", "none runs on this directory")


def check_leftovers(home: Home) -> Findings:
    """Processes of an earlier life. The next start ends them by itself."""
    if is_held(home):
        return
    left = [process.pid for process in find_marked(home.mark)]
    if left:
        pids = ", ".join(map(str, left))
        yield Finding("hint", "processes", f"left behind without a daemon: {pids}", "the next `termal serve` ends them")
    else:
        yield Finding("ok", "processes", "none left behind")


def check_port(home: Home) -> Findings:
    config = _configuration(home)
    port = _port(config)
    if port is None:
        text = f"TERMAL_PORT is {os.environ['TERMAL_PORT']!r}"
        yield Finding("problem", "port", text, "set it to a number from 0 to 65535, or unset it")
        return
    running = read_running(home)
    if running is not None and is_held(home) and running.url.endswith(f":{port}"):
        yield Finding("ok", "port", f"{port} is served by this daemon")
        return
    try:
        bind(config.host, port, token=config.auth == "token").close()
    except (PortInUse, PortRefused) as error:
        yield Finding("hint" if is_held(home) else "problem", "port", str(error), "stop that program, or use --port")
    else:
        yield Finding("ok", "port", f"{port} on {config.host} is free")


def check_sqlite(_home: Home) -> Findings:
    try:
        check_version()
    except StoreRefused as error:
        yield Finding("problem", "SQLite", str(error), "install the project again: it brings its own SQLite")
    else:
        yield Finding("ok", "SQLite", f"{sqlite_version()}")


def check_databases(home: Home) -> Findings:
    """Both files by SQLite's own check, read-only. It reads every page: seconds for each gigabyte."""
    for path in (home.termal_db, home.coordination_db):
        if not path.exists():
            yield Finding("ok", path.name, "is not there yet")
            continue
        fault = _fault(path)
        if fault:
            yield Finding("problem", path.name, fault, "stop the daemon and put back a copy of both files; keep these")
        else:
            yield Finding("ok", path.name, "is whole")


def check_rows(home: Home) -> Findings:
    """Whether a start takes `termal.sqlite` as it is, and which rows of it cannot be used."""
    if not home.termal_db.exists():
        return
    try:
        rows = rows_aside(home)
    except NotUpgraded as error:
        yield Finding("ok", "rows", str(error))
        return
    except InspectionFailed as error:
        yield Finding("problem", "rows", str(error), "use a build that knows this file, or put back a backup of it")
        return
    if rows:
        ids = ", ".join(row.id for row in rows[:_NAMED]) + (" …" if len(rows) > _NAMED else "")
        text = f"{as_count(len(rows), 'row')} cannot be used and {'is' if len(rows) == 1 else 'are'} set aside: {ids}"
        yield Finding("hint", "rows", text, "see why: termal doctor --quarantine")
    else:
        yield Finding("ok", "rows", "all sessions and delegations can be used")


def check_mail_file(home: Home) -> Findings:
    """Whether a start takes `coordination.sqlite` as it is, and whether older mail has been taken over."""
    if not home.coordination_db.exists():
        return
    subject = "mail and boards"
    try:
        found = inspect_mail_file(home)
    except FileRefused as error:
        advice = 'stop the daemon, keep both files, and see "Mail and boards of older builds" in docs/operations.md'
        yield Finding("problem", subject, str(error), advice)
        return
    if found.imported_from is None:
        yield Finding("ok", subject, "the next start looks for older mail and boards in termal.sqlite")
    else:
        taken = f"imported from {found.imported_from}" if found.imported_from else "there was nothing to import"
        yield Finding("ok", subject, f"schema version {found.schema_version}; {taken}")


def check_waiting_mail(home: Home) -> Findings:
    """Sessions where nothing runs although mail waits for them."""
    for waiting in waiting_mail(home):
        text = f"{waiting.session_id} has {waiting.unread} unread since {waiting.since}: {waiting.why}"
        advice = f'start it: termal send {waiting.session_id} "look at your mail"'
        if waiting.why == NOT_TOLD:
            advice = f"see whether `wake` runs: termal status; or {advice}"
        yield Finding("hint", "waiting mail", text, advice)


def check_restore(home: Home) -> Findings:
    """A restore that was cut off keeps the daemon from starting."""
    if home.restoring.exists():
        text = "the databases were being replaced by a backup and that was cut off"
        yield Finding("problem", "restore", text, "finish it: termal restore DIR")


def check_worktrees(home: Home) -> Findings:
    """What delegations left: it is never removed by itself."""
    found = worktrees(Shelf(home.worktrees)) if home.worktrees.is_dir() else []
    if not found:
        yield Finding("ok", "worktrees", "none")
        return
    size = as_size(sum(one.size_bytes for one in found))
    kept = sum(one.state not in ("clean", "gone") for one in found)
    text = f"{as_count(len(found), 'worktree')}, {size}; {kept} with work in {'it' if kept == 1 else 'them'}"
    yield Finding("hint", "worktrees", text, "look and remove: termal worktrees list")


def check_agents(home: Home) -> Findings:
    """At least one agent besides the bundled one; what each of the others wants."""
    config = _configuration(home)
    found = [readiness(name, config, os.environ) for name in agent_names(config)]
    usable = [row.agent for row in found if row.status == "ready"]
    yield Finding("ok", "agents", f"usable: {', '.join(usable)}")
    for row in found:
        if row.status == "needsSetup":
            yield Finding("hint", "agents", row.detail, "or leave it: the other agents are not concerned")
        if row.warning_detail:
            yield Finding("hint", "agents", row.warning_detail, "or leave it: the other agents are not concerned")
    if usable == ["Demo"]:
        yield Finding("hint", "agents", "no real agent is installed", "see how to install one: termal agents")


def _fault(path: Path) -> str:
    try:
        connection = open_reader(path)
    except (StoreRefused, StoreError) as error:
        return str(error)
    try:
        rows = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(5)")]
    except StoreError as error:
        return str(error)
    finally:
        connection.close()
    return "" if rows == ["ok"] else "; ".join(rows)


def _configuration(home: Home) -> Config:
    try:
        return read_config(home.config)
    except ConfigRefused:
        # Told by its own check; the other checks go on with the defaults.
        return Config()


def _port(config: Config) -> int | None:
    named = os.environ.get("TERMAL_PORT")
    if not named:
        return config.port if config.port is not None else DEFAULT_PORT
    return int(named) if named.isdecimal() and int(named) <= 65535 else None


def _entries(home: Home) -> Iterator[Path]:
    for folder in (home.run, home.logs, home.worktrees, home.backups):
        if folder.is_symlink() or folder.exists():
            yield folder
    yield from home.root.glob("*.sqlite*")
    yield from home.root.glob("*.token")
    yield from home.logs.glob("*.log") if home.logs.is_dir() else ()


def _is_open(file: Path) -> bool:
    mode = file.lstat().st_mode
    return stat.S_ISLNK(mode) or bool(mode & _OTHERS)
