"""The first steps of a start, before any worker exists: directory, lock, leftovers, configuration, port."""

import os
import sys
from collections.abc import Mapping
from typing import NamedTuple

from supervisor.setting import Setting
from supervisor.worker import now_rfc3339
from termal.config import Config, ConfigRefused, read_config
from termal.home import Home, HomeRefused, find_home, prepare, socket_folder
from termal.log import Log
from termal.procs.limits import DESCRIPTORS, raise_descriptor_limit
from termal.procs.lock import DirectoryLock, Locked, Owner
from termal.procs.port import PortInUse, PortRefused, address_url, bind
from termal.procs.tree import start_time, sweep
from termal.tokens import make_owner_token
from termal.wire.control import EXIT_HOME, EXIT_LOCKED, EXIT_PORT, EXIT_REFUSED, EXIT_USAGE
from termal.wire.launch import DEFAULT_PORT


class BootRefused(Exception):
    """The daemon cannot start; ``code`` is its exit status, the text is for the operator."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Arguments(NamedTuple):
    """The command line: None where nothing was given."""

    home: str | None = None
    host: str | None = None
    port: int | None = None


class Ground(NamedTuple):
    """What the daemon stands on; `close` it last."""

    setting: Setting
    config: Config
    lock: DirectoryLock
    log: Log

    def close(self) -> None:
        self.setting.bound.close()
        self.lock.close()
        self.log.close()


def prepare_ground(arguments: Arguments, environ: Mapping[str, str]) -> Ground:
    """Everything up to the bound port. Raises `BootRefused` with nothing held."""
    home = _prepare_home(arguments.home)
    owner = Owner(os.getpid(), start_time(os.getpid()))
    try:
        lock = DirectoryLock(home, owner)
    except Locked as error:
        raise BootRefused(EXIT_LOCKED, str(error)) from error
    except OSError as error:
        raise BootRefused(EXIT_HOME, f"{home.lock} cannot be opened: {error.strerror}") from error
    if home.restoring.exists():
        lock.close()
        raise BootRefused(
            EXIT_REFUSED,
            f"{home.root} was being restored from a backup and that was cut off: run `termal restore` again",
        )
    log = None
    try:
        log = Log("supervisor", home.log("supervisor"))
        return _settle(arguments, environ, home, lock, log)
    except BaseException:
        lock.close()
        if log is not None:
            log.close()
        raise


def _settle(arguments: Arguments, environ: Mapping[str, str], home: Home, lock: DirectoryLock, log: Log) -> Ground:
    portable = environ.get("TERMAL_PORTABLE") == "1" or sys.platform != "linux"
    config = _read_config(home)
    swept = sweep(home.mark, portable=portable)
    if swept.ended or swept.left:
        log.warning("boot.leftovers", ended=swept.ended, left=swept.left)
    raise_descriptor_limit(_number(environ, "TERMAL_NOFILE_LIMIT") or DESCRIPTORS)
    host = arguments.host or config.host
    try:
        run_dir = socket_folder(home)
        if config.auth == "token":
            make_owner_token(home.owner_token)
        bound = bind(host, _port(arguments, environ, config), token=config.auth == "token")
    except HomeRefused as error:
        raise BootRefused(EXIT_HOME, str(error)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise BootRefused(EXIT_HOME, f"{home.owner_token} cannot be read or made: {error}") from error
    except PortRefused as error:
        raise BootRefused(EXIT_USAGE, str(error)) from error
    except PortInUse as error:
        raise BootRefused(EXIT_PORT, str(error)) from error
    url, started_s = address_url(bound), start_time(os.getpid())
    lock.tell(Owner(os.getpid(), started_s, url))
    setting = Setting(home, run_dir, bound, url, portable, dict(environ), now_rfc3339(), started_s, config.auth)
    return Ground(setting, config, lock, log)


def _prepare_home(named: str | None) -> Home:
    try:
        home = find_home(named)
        prepare(home)
    except HomeRefused as error:
        raise BootRefused(EXIT_HOME, str(error)) from error
    return home


def _read_config(home: Home) -> Config:
    try:
        return read_config(home.config)
    except ConfigRefused as error:
        raise BootRefused(EXIT_USAGE, str(error)) from error


def _port(arguments: Arguments, environ: Mapping[str, str], config: Config) -> int:
    named = arguments.port if arguments.port is not None else _number(environ, "TERMAL_PORT")
    port = named if named is not None else config.port
    if port is not None and not 0 <= port <= 65535:
        raise BootRefused(EXIT_USAGE, f"{port} is no port: give 0 (any free one) to 65535")
    return DEFAULT_PORT if port is None else port


def _number(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name, "")
    if text and not text.isdecimal():
        raise BootRefused(EXIT_USAGE, f"{name} must be a number, not {text!r}")
    return int(text) if text else None
