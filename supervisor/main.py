"""The command ``python -m supervisor``: arguments, the ground to stand on, the loop, the exit status."""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from supervisor.boot import Arguments, BootRefused, Ground, prepare_ground
from supervisor.daemon import Daemon
from supervisor.tree import Limits, Spec, production
from termal.procs.death import become_subreaper
from termal.procs.signals import Signals
from termal.wire.control import EXIT_INTERNAL, EXIT_USAGE


def main(
    arguments: Sequence[str] | None = None, *, specs: list[Spec] | None = None, limits: Limits | None = None
) -> int:
    """Run a daemon until it ends; its exit status. ``specs`` and ``limits``: another tree than the production one."""
    parsed = _parse(sys.argv[1:] if arguments is None else arguments)
    signals = Signals()
    try:
        ground = prepare_ground(parsed, os.environ)
    except BootRefused as error:
        sys.stderr.write(f"termal: {error}\n")
        signals.close()
        return error.code
    try:
        if not ground.setting.portable:
            become_subreaper()
        return Daemon(ground, specs if specs is not None else production(), limits or Limits(), signals).serve()
    except Exception as error:  # noqa: BLE001 - the outermost frame: the workers end with us, the next start recovers
        return _crashed(ground, error)
    finally:
        ground.close()
        signals.close()


def _crashed(ground: Ground, error: Exception) -> int:
    import traceback  # noqa: PLC0415 - for a fault of ours alone

    text = "".join(traceback.format_exception(error))
    ground.log.error("daemon.crashed", error=repr(error), stack=text)
    sys.stderr.write(text)
    return EXIT_INTERNAL


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"termal: {message}\n")
        raise SystemExit(EXIT_USAGE)


def _parse(arguments: Sequence[str]) -> Arguments:
    parser = _Parser(prog="supervisor", description="Runs the TermAl daemon in the foreground.")
    parser.add_argument("--home", help="data directory (TERMAL_HOME, else ~/.termal)")
    parser.add_argument("--host", help="address to bind (config.toml, else 127.0.0.1)")
    parser.add_argument("--port", type=int, help="TCP port, 0 for any free one (TERMAL_PORT, config.toml, else 8787)")
    parsed = parser.parse_args(list(arguments))
    return Arguments(parsed.home, parsed.host, parsed.port)
