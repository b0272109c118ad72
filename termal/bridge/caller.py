"""What kind of session the bridge serves: decided by the daemon's state, kept once known, else taken for a child."""

from typing import Any, Literal, NamedTuple

from termal.bridge.backend import Backend
from termal.client.call import Call, read
from termal.client.failure import ApiFailed

Kind = Literal["root", "child", "unknown"]


class Verdict(NamedTuple):
    """``reviews``: a child whose delegation needs a structured result from it."""

    kind: Kind
    reviews: bool = False


UNKNOWN = Verdict("unknown")


def classify(session_id: str, state: dict[str, Any]) -> Verdict:
    """By one snapshot. A marker on the session or a delegation that names it: either makes it a child."""
    if not isinstance(state.get("sessions"), list):
        return UNKNOWN
    own = next((row for row in rows(state, "sessions") if row.get("id") == session_id), None)
    if own is None:
        return UNKNOWN
    links = [row for row in rows(state, "delegations") if row.get("childSessionId") == session_id]
    if own.get("parentDelegationId") is None and not links:
        return Verdict("root")
    return Verdict(
        "child", any(row.get("mode") == "reviewer" and row.get("reviewResultRequired") is True for row in links)
    )


def roots(state: dict[str, Any]) -> list[dict[str, Any]]:
    """The sessions that nobody delegated, in the state's order."""
    children = {row["childSessionId"] for row in rows(state, "delegations") if row.get("childSessionId")}
    return [
        row
        for row in rows(state, "sessions")
        if row.get("parentDelegationId") is None and row.get("id") not in children
    ]


def rows(state: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = state.get(name)
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


class Caller:
    """A verdict of root or child holds for the life of this process: nothing makes a child of a root or gives its id
    away. Whoever adds such a way must make this look each time."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._known: Verdict | None = None

    @property
    def known(self) -> bool:
        return self._known is not None

    async def verdict(self, *, limit_s: float | None = None) -> Verdict:
        if self._known is not None:
            return self._known
        try:
            state = await self._backend.ask(state_call(), limit_s=limit_s)
        except ApiFailed:
            return UNKNOWN
        found = classify(self._backend.session_id, state)
        if found.kind != "unknown":
            self._known = found
        return found


def state_call() -> Call[dict[str, Any]]:
    return read("/api/state", dict[str, Any])
