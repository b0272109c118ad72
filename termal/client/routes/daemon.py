"""Health, status, the whole state, search, projects and preferences."""

from typing import Any
from urllib.parse import quote

from termal.client.call import Call, read, write
from termal.client.replies import AgentRows, Health, ProjectMade, State
from termal.model.search import SearchResponse
from termal.model.status import DaemonStatus


def health() -> Call[Health]:
    """A daemon that is down says so in a reply of its own (status 503): that is an answer, no error."""
    return Call(method="GET", path="/api/health", reply=Health, accept=(200, 503))


def status() -> Call[DaemonStatus]:
    return read("/api/status", DaemonStatus)


def state() -> Call[State]:
    return read("/api/state", State)


def agents() -> Call[AgentRows]:
    return read("/api/agents", AgentRows)


def retry_agent(agent: str) -> Call[AgentRows]:
    """An agent that ended right after its last starts may be started again."""
    return write(f"/api/agents/{quote(agent, safe='')}/retry", AgentRows, repeatable=True)


def search(
    query: str, *, session_id: str | None = None, limit: int = 20, cursor: str | None = None
) -> Call[SearchResponse]:
    """Messages with all words of ``query``, newest first; ``cursor`` is the ``next_cursor`` of the page before."""
    return read("/api/search", SearchResponse, q=query, sessionId=session_id, limit=limit, cursor=cursor)


def create_project(root_path: str, *, name: str | None = None) -> Call[ProjectMade]:
    """The same root again answers with the project that is there."""
    return write("/api/projects", ProjectMade, {"rootPath": root_path, "name": name})


def delete_project(project_id: str) -> Call[State]:
    return write(f"/api/projects/{quote(project_id, safe='')}", State, method="DELETE")


def change_preferences(preferences: dict[str, Any]) -> Call[State]:
    """Under their wire names; sessions that are there keep theirs."""
    return write("/api/settings", State, preferences)
