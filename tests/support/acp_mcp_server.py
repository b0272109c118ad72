"""A small MCP server over stdio, in the place of the bridge."""

import os
from typing import Any

from mcp.server import MCPServer

server = MCPServer("termal-delegation")


@server.tool()
def make_item(name: str) -> dict[str, Any]:
    return {"item": {"id": f"item-{name}", "parts": [1, 2]}, "pid": os.getpid()}


@server.tool()
def echo(text: str, count: int = 1) -> str:
    return " ".join([text] * count)


@server.tool()
def token() -> str:
    return os.environ["TOKEN"]


@server.tool()
def broken() -> str:
    raise ValueError("out of order")


if __name__ == "__main__":
    server.run("stdio")
