"""Gives every session its MCP bridge: the descriptor goes to the agent with the session, and so does its token."""

from pathlib import Path

from msgspec import structs

from termal.bridge.descriptor import SERVER, base_url, bridge_server
from termal.home import Home
from termal.tokens import read_owner_token, session_token
from termal.wire.launch import Launch
from termal.wire.turns import SessionSpec

NO_BRIDGE = "The tools of this session did not start, so that its review cannot be submitted."


class Bridge:
    """``owner_token`` None: this daemon asks for no tokens, and none is handed out."""

    def __init__(self, launch: Launch, owner_token: str | None) -> None:
        self._url = base_url(launch.host, launch.port)
        self._mark = launch.mark
        self._owner_token = owner_token

    def added_to(self, spec: SessionSpec) -> SessionSpec:
        """``spec`` with the bridge of its session among its servers."""
        if any(server.name == SERVER for server in spec.mcp_servers):
            return spec
        token = None if self._owner_token is None else session_token(self._owner_token, spec.session_id)
        server = bridge_server(spec.session_id, self._url, mark=self._mark, token=token)
        return structs.replace(spec, mcp_servers=[*spec.mcp_servers, server])


def bridge_of(launch: Launch) -> Bridge:
    """Raises OSError when tokens are asked for and the owner's cannot be read."""
    if launch.auth == "none":
        return Bridge(launch, None)
    file = Home(Path(launch.home)).owner_token
    token = read_owner_token(file)
    if token is None:
        raise FileNotFoundError(f"{file.name} is gone: the next start of the daemon makes another")
    return Bridge(launch, token)
