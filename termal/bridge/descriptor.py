"""How an agent is told to start the MCP bridge of its session: one record, and the shape that each agent takes it in.

Imports nothing heavy. A record's ``env`` may hold the session's token: it goes into files of mode 0600, into pipes to
the agent and into the bridge's environment, never on a command line and never into a log.
"""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from termal.wire.launch import MARK_VARIABLE, TOKEN_VARIABLE
from termal.wire.turns import McpServer

SERVER = "termal-delegation"
"""The name under which every agent gets the bridge; the agents build their tools' full names from it."""
COMMAND = "delegation-mcp"
SESSION_OPTION = "--parent-session-id"
ADDRESS_OPTION = "--base-url"
SUBMIT_TOOL = "termal_submit_review_result"
CLAUDE_TOOLS = f"mcp__{SERVER}__"
CLAUDE_SUBMIT_TOOL = f"{CLAUDE_TOOLS}{SUBMIT_TOOL}"
"""The one tool that is allowed without a person, to a running required review. Claude builds the name from the key that
the daemon gave the server, so that no other server can take it."""
SUBMIT_DESCRIPTION = (
    "Submit the structured result of this required review, once, as the last thing you do. All eight fields are "
    "required; use empty lists where there is nothing. severity is one of Critical, High, Medium, Low, Note. "
    "The result goes to the session that asked for the review; nothing in your final message replaces it. "
    "After a lost answer repeat the identical payload: it is answered with the first receipt."
)
"""A constant: an approval request that shows another text is not about this tool."""
CODEX_CALL_S = 1830
"""Codex gives up on a tool call after a minute otherwise; the longest wait for delegations is half an hour."""
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - told apart, not bound


def bridge_server(session_id: str, base_url: str, *, mark: str, token: str | None = None) -> McpServer:
    """The bridge for one session. ``mark`` is the environment mark of this daemon's processes.

    ``token``: the session's own, with token authentication on; None leaves the mark alone in the environment.
    """
    command = _command()
    env = {MARK_VARIABLE: mark}
    if token is not None:
        env[TOKEN_VARIABLE] = token
    args = [COMMAND, SESSION_OPTION, session_id, ADDRESS_OPTION, base_url.rstrip("/")]
    return McpServer(SERVER, command[0], [*command[1:], *args], env)


def base_url(host: str, port: int) -> str:
    """Where a process of this machine reaches a daemon that is bound to ``host`` and ``port``."""
    host = _WILDCARDS.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def claude_config(servers: Iterable[McpServer]) -> dict[str, Any]:
    """What the file behind ``--mcp-config`` holds."""
    return {
        "mcpServers": {
            server.name: {"type": "stdio", "command": server.command, "args": server.args, "env": dict(server.env)}
            for server in servers
        }
    }


def codex_config(servers: Iterable[McpServer]) -> dict[str, Any]:
    """What belongs into ``config`` of ``thread/start`` and again of ``thread/resume``."""
    return {
        "mcp_servers": {
            server.name: {
                "command": server.command,
                "args": server.args,
                "env": dict(server.env),
                "tool_timeout_sec": CODEX_CALL_S,
            }
            for server in servers
        }
    }


def acp_servers(servers: Iterable[McpServer]) -> list[dict[str, Any]]:
    """``mcpServers`` of an ACP session: exactly these keys, ``env`` as an array of the two; some agents refuse more."""
    return [
        {
            "name": server.name,
            "command": server.command,
            "args": server.args,
            "env": [{"name": name, "value": value} for name, value in server.env.items()],
        }
        for server in servers
    ]


def _command() -> list[str]:
    program = Path(sys.executable).with_name("termal")
    return [str(program)] if os.access(program, os.X_OK) else [sys.executable, "-m", "termal"]
