"""Which tool is for whom, and how one is called: the audience is checked here before anything else is sent."""

from collections.abc import Awaitable, Callable
from typing import Any

from termal.bridge import board_tools, delegation_tools, peer_tools
from termal.bridge.arguments import Arguments
from termal.bridge.backend import Backend
from termal.bridge.caller import Caller, Verdict
from termal.bridge.descriptor import SUBMIT_TOOL
from termal.bridge.failures import ToolFailed
from termal.bridge.schemas import DESCRIPTIONS, SCHEMAS, SUBMIT_HINTS
from termal.bridge.wait import Report, wait
from termal.client.packets import Json

Run = Callable[[Backend, Arguments], Awaitable[Json]]

WAIT_TOOL = "termal_wait_delegations"
FOR_ALL: dict[str, Run] = {
    "termal_spawn_session": delegation_tools.spawn,
    "termal_list_delegations": delegation_tools.list_all,
    "termal_get_session_status": delegation_tools.status,
    "termal_get_session_result": delegation_tools.result,
    "termal_cancel_session": delegation_tools.cancel,
    "termal_resume_after_delegations": delegation_tools.resume,
    "termal_followup_session": delegation_tools.follow_up,
}
FOR_ROOTS: dict[str, Run] = {
    "termal_send_to_session": peer_tools.send,
    "termal_list_sessions": peer_tools.list_sessions,
    "termal_list_mailboxes": peer_tools.list_mailboxes,
    "termal_read_mailbox": peer_tools.read_mailbox,
    "termal_read_mailbox_message": peer_tools.read_message,
    "termal_acknowledge_mailbox": peer_tools.acknowledge,
    "termal_board_list": board_tools.list_keys,
    "termal_board_get": board_tools.get,
    "termal_board_set": board_tools.set_key,
}


def listed(verdict: Verdict) -> list[Json]:
    """The tools that a session of this kind gets to see, in their order."""
    return [_described(name) for name in SCHEMAS if _is_for(name, verdict)]


async def call(backend: Backend, caller: Caller, name: str, arguments: Arguments, report: Report) -> Json:
    """Raises `ToolFailed`."""
    if name == WAIT_TOOL:
        return await wait(backend, arguments, report)
    run = FOR_ALL.get(name)
    if run is not None:
        return await run(backend, arguments)
    if name not in SCHEMAS:
        raise ToolFailed(f"there is no tool {name}")
    if not _is_for(name, await caller.verdict()):
        whom = "reviewer children whose structured result is required" if name == SUBMIT_TOOL else "root sessions"
        raise ToolFailed(f"{name} is for {whom} only")
    return await (delegation_tools.submit if name == SUBMIT_TOOL else FOR_ROOTS[name])(backend, arguments)


def _is_for(name: str, verdict: Verdict) -> bool:
    if name == SUBMIT_TOOL:
        return verdict.reviews
    return verdict.kind == "root" or name not in FOR_ROOTS


def _described(name: str) -> Json:
    tool: dict[str, Any] = {"name": name, "description": DESCRIPTIONS[name], "inputSchema": SCHEMAS[name]}
    return {**tool, "annotations": SUBMIT_HINTS} if name == SUBMIT_TOOL else tool
