"""The permission requests of an ACP agent that wait for a person. Knows ids and options, answers nothing by itself."""

from typing import Any, Literal

import msgspec

from termal.rules.delegation_commands import names_git
from termal.wire.turns import PermissionOption
from workers.runtime.acp_tools import ToolCall
from workers.runtime.adapter import AgentFailed

_DECISIONS: dict[str, Literal["accepted", "acceptedForSession", "rejected"]] = {
    "allow_once": "accepted",
    "allow_always": "acceptedForSession",
    "reject_once": "rejected",
    "reject_always": "rejected",
}


_LEAVING = "exit_plan_mode"


class OpenRequest(msgspec.Struct, frozen=True):
    """``wire_id`` is the agent's own number of the request."""

    request: str
    wire_id: Any
    options: list[PermissionOption]
    tool: ToolCall


class Permissions:
    """Open requests in the order in which they came."""

    def __init__(self, *, in_order: bool) -> None:
        self._in_order = in_order
        self._open: dict[str, OpenRequest] = {}
        self._number = 0

    def open(self, wire_id: object, options: list[PermissionOption], tool: ToolCall) -> OpenRequest:
        self._number += 1
        request = OpenRequest(f"approval-{self._number}", wire_id, options, tool)
        self._open[request.request] = request
        return request

    def take(self, request: str, option: str) -> tuple[OpenRequest, PermissionOption]:
        """The request, closed now, and the chosen option. Raises `AgentFailed`, leaving it open, when that is wrong."""
        found = self._open.get(request)
        if found is None:
            raise AgentFailed("the request is not open any more")
        chosen = next((known for known in found.options if known.id == option), None)
        if chosen is None:
            raise AgentFailed("the agent does not offer this answer")
        if self._in_order and next(iter(self._open)) != request:
            raise AgentFailed("this agent takes answers in the order of its requests: answer the earlier one first")
        del self._open[request]
        return found, chosen

    def withdraw_all(self) -> list[OpenRequest]:
        withdrawn = list(self._open.values())
        self._open.clear()
        return withdrawn


def leaves_mode(tool: ToolCall, fields: dict[str, Any]) -> bool:
    """Whether the agent wants to leave the mode that it is in. Gemini tells that by the name of its tool alone."""
    return tool.wire_kind == "switch_mode" or str(fields.get("toolCallId")).startswith(_LEAVING)


def may_commit(tool: ToolCall) -> bool:
    """Whether it can commit or push, or a lasting yes to it can let another one do so unasked."""
    return tool.kind == "execute" or names_git(f"{tool.title}\n{tool.command}")


def once_only(options: list[PermissionOption]) -> list[PermissionOption]:
    """``options`` with a lasting yes that the agent gets as a yes for once: it would remember the other, and for what
    else, nobody knows."""
    once = next((option for option in options if option.decision == "accepted"), None)
    kept = [option for option in options if option.decision != "acceptedForSession"]
    return kept if once is None else [*kept, PermissionOption(once.id, "acceptedForSession", once.name)]


def offered_options(offered: object) -> list[PermissionOption]:
    """One option for each decision, under the agent's own ids.

    Kinds are not unique: of two lasting permissions the first may cover all tools of a server, so the last one stands;
    a refusal for once comes before one for ever.
    """
    chosen: dict[str, tuple[str, PermissionOption]] = {}
    for record in offered if isinstance(offered, list) else ():
        if not isinstance(record, dict):
            continue
        kind, number = str(record.get("kind")), record.get("optionId")
        decision = _DECISIONS.get(kind)
        if decision is None or not isinstance(number, str):
            continue
        known = chosen.get(decision)
        if known is None or kind == "allow_always" or (kind, known[0]) == ("reject_once", "reject_always"):
            chosen[decision] = (kind, PermissionOption(number, decision, str(record.get("name") or decision)))
    return [option for _, option in chosen.values()]
