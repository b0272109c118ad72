"""``python -m termal.gateway``: started by the supervisor with its launch, a control socket and a listening socket."""

import os
import sys
from pathlib import Path

from termal.config import ConfigRefused, read_config
from termal.home import Home
from termal.log import Log
from termal.tokens import read_owner_token
from termal.wire.control import EXIT_OK, EXIT_USAGE, Go, Refused, Stop, decode_to_worker, encode_line
from termal.wire.launch import Launch
from termal.worker.launched import launched

_MEANT_FOR_OTHERS = (
    "GUNICORN_CMD_ARGS",
    "GUNICORN_FD",
    "GUNICORN_PID",
    "LISTEN_FDS",
    "LISTEN_PID",
    "NOTIFY_SOCKET",
    "WEB_CONCURRENCY",
)
"""gunicorn would take its settings, its sockets or its service manager from these."""


def main() -> int:
    """The exit code: 0 after a stop, 64 for a configuration that cannot be used, else what ended the arbiter."""
    launch = launched(os.environ)
    if launch is None:
        return EXIT_USAGE
    home = Home(Path(launch.home))
    log = Log("gateway-arbiter", home.log("gateway-arbiter"))
    if launch.listen_fd is None:
        return _refuse(launch, log, "the gateway was started without its listening socket")
    obstacle = _obstacle(launch, home)
    if obstacle:
        return _refuse(launch, log, obstacle)
    for name in _MEANT_FOR_OTHERS:
        os.environ.pop(name, None)
    # gunicorn looks at its working directory as soon as it is imported; ours may have been removed.
    os.chdir(home.root)
    from termal.gateway.arbiter import GatewayApplication  # noqa: PLC0415

    if launch.wait and not _wait_for_go(launch.control_fd):
        return EXIT_OK
    log.info("gateway.started", start=launch.start)
    GatewayApplication(launch, log).run()
    return EXIT_OK


def _obstacle(launch: Launch, home: Home) -> str:
    """Why nothing can be served, empty when it can."""
    try:
        read_config(home.config)
        if launch.auth == "token" and read_owner_token(home.owner_token) is None:
            # Serving without the check that was asked for would open the daemon to whoever reaches its port.
            return f"{home.owner_token.name} is gone: the next start of the daemon makes another"
    except ConfigRefused as error:
        return str(error)
    except (OSError, UnicodeDecodeError) as error:
        return f"{home.owner_token.name} cannot be read: {error}"
    return ""


def _wait_for_go(control_fd: int) -> bool:
    """False: a stop was ordered, or the supervisor is gone. Byte by byte: what follows belongs to the worker."""
    line = b""
    while byte := os.read(control_fd, 1):
        line += byte
        if byte != b"\n":
            continue
        order = decode_to_worker(line)
        if isinstance(order, Go | Stop):
            return isinstance(order, Go)
        line = b""
    return False


def _refuse(launch: Launch, log: Log, message: str) -> int:
    log.error("gateway.refused", error=message)
    os.write(launch.control_fd, encode_line(Refused(message)) + b"\n")
    return EXIT_USAGE


if __name__ == "__main__":
    sys.exit(main())
