"""gunicorn's settings for this gateway, each with its reason. Nothing is read from files, arguments or environment."""

from collections.abc import Callable
from typing import Any

from termal.wire.launch import Launch

GRACE_S = 10
"""The arbiter's patience with its worker at the end."""
WORKER_GRACE_S = 7
"""The worker gives up on open requests earlier, or the arbiter's SIGKILL would cut its own end short."""
HANG_S = 10
"""A worker whose loop has not turned for this long is killed and replaced."""
BACKLOG = 2048
CONNECTIONS = 4000
HEADER_FIELDS = 60
HEADER_BYTES = 8190


def gunicorn_settings(launch: Launch, worker_class: str, hooks: dict[str, Callable[..., Any]]) -> dict[str, Any]:
    """``worker_class`` is a dotted name: it is imported by the arbiter, the application by the worker alone."""
    return {
        "bind": [f"fd://{launch.listen_fd}"],
        "workers": 1,
        "worker_class": worker_class,
        "worker_connections": CONNECTIONS,
        "asgi_loop": "uvloop",
        "asgi_lifespan": "on",
        # The optional C parser bought nothing when it was measured.
        "http_parser": "python",
        # A request of a client that left is cancelled after this; a write that was sent goes on in its worker.
        "asgi_disconnect_grace_period": 3,
        "backlog": BACKLOG,
        "keepalive": 5,
        "graceful_timeout": GRACE_S,
        "timeout": HANG_S,
        "limit_request_fields": HEADER_FIELDS,
        "limit_request_field_size": HEADER_BYTES,
        # Nobody in front of us may rewrite scheme or address.
        "forwarded_allow_ips": "",
        "proxy_allow_ips": "",
        "control_socket_disable": True,
        "accesslog": None,
        "preload_app": False,
        # The file whose age shows a hanging worker; the default place is outside of our directories.
        "worker_tmp_dir": launch.run_dir,
        "proc_name": "termal-gateway",
        **hooks,
    }
