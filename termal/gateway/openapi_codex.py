"""Rows of the interface description for what can be done with a Codex thread."""

from termal.gateway.codex_threads import RollbackBody, ToolServersResponse
from termal.gateway.openapi_doc import SESSION, Doc
from termal.model.reply import CreateSessionResponse, StateResponse

_THREAD = f"{SESSION}/codex/thread"


def _step(operation: str, summary: str, description: str = "") -> Doc:
    return Doc(
        operation=operation,
        tag="codex",
        summary=summary,
        description=description,
        reply=StateResponse,
        refusals=(409, 501),
    )


CODEX_DOCS: dict[tuple[str, str], Doc] = {
    ("POST", f"{_THREAD}/fork"): Doc(
        operation="forkThread",
        tag="codex",
        summary="Begin a session on a copy of this one's thread",
        description="It inherits settings and model list; its transcript is what Codex returns of the thread.",
        reply=CreateSessionResponse,
        status=201,
        keyed=True,
        refusals=(409, 501),
        gives={"session_id": "/sessionId"},
    ),
    ("POST", f"{_THREAD}/archive"): _step(
        "archiveThread", "Put the thread away", "It refuses prompts until it is back."
    ),
    ("POST", f"{_THREAD}/unarchive"): _step("unarchiveThread", "Take the thread back"),
    ("POST", f"{_THREAD}/compact"): _step(
        "compactThread", "Ask Codex to make the conversation shorter", "The transcript stays as it is."
    ),
    ("POST", f"{_THREAD}/rollback"): Doc(
        operation="rollBackThread",
        tag="codex",
        summary="Take the newest turns back",
        description="The transcript is replaced by what Codex returns of the thread.",
        body=RollbackBody,
        body_required=False,
        reply=StateResponse,
        refusals=(409, 501),
        example={"numTurns": 1},
    ),
    ("GET", f"{SESSION}/codex/mcp-servers"): Doc(
        operation="listMcpServers",
        tag="codex",
        summary="The MCP servers of the thread and what they offer",
        description="By name, without schemas and secrets.",
        reply=ToolServersResponse,
        refusals=(409, 501),
    ),
}
