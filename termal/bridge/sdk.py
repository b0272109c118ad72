"""The only module that imports the official MCP SDK: its serving loop, and a stand-in for its server class."""

from typing import TYPE_CHECKING, Any, NamedTuple

from mcp.server.models import InitializationOptions
from mcp.server.runner import serve_dual_era_loop
from mcp.shared._context_streams import create_context_streams
from mcp.shared.message import SessionMessage
from mcp_types import (
    PROTOCOL_VERSION_META_KEY,
    CallToolRequestParams,
    JSONRPCNotification,
    JSONRPCRequest,
    PaginatedRequestParams,
    RequestParams,
    ServerCapabilities,
    ToolsCapability,
)

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

__all__ = [
    "VERSION_KEY",
    "CallToolRequestParams",
    "Entry",
    "JSONRPCNotification",
    "JSONRPCRequest",
    "PaginatedRequestParams",
    "Registry",
    "RequestParams",
    "SessionMessage",
    "create_context_streams",
    "serve",
]

VERSION_KEY = PROTOCOL_VERSION_META_KEY
"""Under which a request of the newer way of speaking names its version, in ``_meta``."""


class Entry(NamedTuple):
    """A handler as the serving loop looks it up: what its parameters are read into, and the coroutine function."""

    params_type: Any
    handler: Any


class Registry:
    """What the serving loop asks a server for. It stands in for the SDK's class, whose module needs a web framework."""

    def __init__(self, name: str, version: str, handlers: dict[str, Entry]) -> None:
        self.name = name
        self.version = version
        self.middleware: list[Any] = []
        self.cache_hints: dict[str, Any] = {}
        self._handlers = handlers

    @property
    def server_info_stamp(self) -> dict[str, Any]:
        return {"name": self.name, "version": self.version}

    def get_request_handler(self, method: str) -> Entry | None:
        return self._handlers.get(method)

    def get_notification_handler(self, _method: str) -> Entry | None:
        return None

    def create_initialization_options(self) -> InitializationOptions:
        return InitializationOptions(
            server_name=self.name,
            server_version=self.version,
            capabilities=ServerCapabilities(tools=ToolsCapability(list_changed=True)),
        )


async def serve(registry: Registry, read_stream: Any, write_stream: Any) -> None:
    """Serve one connection until its reading end is closed."""
    server: Server[Any] = registry  # type: ignore[assignment]
    options = registry.create_initialization_options()
    await serve_dual_era_loop(server, read_stream, write_stream, lifespan_state={}, init_options=options)
