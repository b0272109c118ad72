"""The daemon's TCP port: bound first of all, so that a port in use ends the start; it listens later, when told to."""

import contextlib
import errno
import socket
from typing import Any

_Address = tuple[Any, ...]
"""Host, port and what the family adds."""


class PortRefused(Exception):
    """This address may not be used as it is configured."""


class PortInUse(Exception):
    """The port cannot be bound. The text names its owner where that can be found out."""


def bind(host: str, port: int, *, token: bool) -> socket.socket:
    """A bound TCP socket that does not listen yet; port 0 takes any free one.

    Raises `PortRefused` for an unknown host, and for one beyond this machine without ``token`` (every request must then
    carry a token); `PortInUse` when the port is taken.
    """
    family, address = _resolve(host, port)
    if not token and not is_loopback(str(address[0])):
        raise PortRefused(
            f'{host} can be reached from other machines: set auth = "token" in config.toml, or use --host 127.0.0.1'
        )
    try:
        return _bind(family, address)
    except OSError as error:
        raise PortInUse(_sentence(host, port, error)) from error


def listen(bound: socket.socket, backlog: int) -> None:
    """Begin to accept connections. Raises `PortInUse` when another program did so on this port in the meantime."""
    # The connections inherit it, and only then may the next start bind while they wind down.
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.listen(backlog)
    except OSError as error:
        host, port = bound.getsockname()[:2]
        raise PortInUse(_sentence(host, port, error)) from error


def is_loopback(address: str) -> bool:
    return address.startswith("127.") or address in {"::1", "::ffff:127.0.0.1"}


def address_url(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def port_owner(port: int) -> str | None:
    """Who listens there, as ``process 123 (name)``; None when it is nobody, or somebody whom we may not see."""
    import psutil  # noqa: PLC0415 - costs 25 ms, needed when the start fails

    with contextlib.suppress(psutil.Error, OSError):
        for link in psutil.net_connections(kind="tcp"):
            if link.status == psutil.CONN_LISTEN and link.laddr and link.laddr.port == port and link.pid:
                with contextlib.suppress(psutil.Error):
                    return f"process {link.pid} ({psutil.Process(link.pid).name()})"
                return f"process {link.pid}"
    return None


def _resolve(host: str, port: int) -> tuple[socket.AddressFamily, _Address]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise PortRefused(f"{host} is no address of this machine: {error}") from error
    family, _, _, _, address = found[0]
    return family, address


def _bind(family: socket.AddressFamily, address: _Address) -> socket.socket:
    # Without the option first: with it, Linux lets two programs bind one port as long as neither listens, and a second
    # daemon would find out after its migrations. With it only where connections of an earlier run still wind down.
    try:
        return _bound(family, address, reuse=False)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
    return _bound(family, address, reuse=True)


def _bound(family: socket.AddressFamily, address: _Address, *, reuse: bool) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        if reuse:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
    except OSError:
        made.close()
        raise
    return made


def _sentence(host: str, port: int, error: OSError) -> str:
    if error.errno != errno.EADDRINUSE:
        return f"{host}:{port} cannot be bound: {error.strerror}"
    owner = port_owner(port) or "another process"
    return f"port {port} on {host} is in use by {owner}: stop it, or give another --port"
