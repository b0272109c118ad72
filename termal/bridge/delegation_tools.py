"""Tools on delegations: spawn, look, read results, cancel, resume, follow up, submit. All for the caller alone."""

from collections.abc import Callable
from typing import Any

from termal.bridge.arguments import Arguments, one_of, optional, path_id, path_ids, required, unsigned
from termal.bridge.backend import Backend, record, unusable
from termal.bridge.failures import NOTHING, RESUME, SPAWN, SUBMIT, ToolFailed, Unknown, pretty, sentence
from termal.bridge.slash import BadCommand, expand
from termal.client.call import Call
from termal.client.failure import ApiFailed
from termal.client.packets import Json, api_packet, result_of, spawn_error, spawned, status_of
from termal.client.routes import delegations

AGENTS = ("Codex", "Claude", "Cursor", "Gemini", "OpenCode", "Demo")
MODES = ("reviewer", "explorer", "worker")
POLICIES = ("readOnly", "isolatedWorktree", "sharedWorktree")
WAIT_MODES = ("all", "any")
PAGE_BYTES = 4096


async def spawn(backend: Backend, arguments: Arguments) -> Json:
    try:
        required(arguments, "prompt")
        body = _spawn_body(arguments)
        # As it was given: a blank in front of a slash makes text of it.
        expanded = await expand(backend, arguments["prompt"], body["cwd"])
    except (ToolFailed, BadCommand) as error:
        raise _refused(str(error)) from error
    except ApiFailed as error:
        raise _spawn_failed(error, NOTHING) from error
    body["prompt"] = expanded.prompt
    body["title"] = body["title"] or expanded.title
    body["mode"] = body["mode"] or expanded.mode or "reviewer"
    body["writePolicy"] = body["writePolicy"] or _policy(expanded.write_policy) or {"kind": "readOnly"}
    call = delegations.create(backend.session_id, body)
    try:
        return packed(call, spawned, await backend.ask(call), SPAWN)
    except ApiFailed as error:
        raise _spawn_failed(error, SPAWN) from error


async def list_all(backend: Backend, _arguments: Arguments) -> Json:
    return record(await backend.once(delegations.delegations(backend.session_id)))


async def status(backend: Backend, arguments: Arguments) -> Json:
    call = delegations.status(backend.session_id, path_id(arguments, "delegationId"))
    return packed(call, status_of, await backend.once(call))


async def result(backend: Backend, arguments: Arguments) -> Json:
    delegation_id = path_id(arguments, "delegationId")
    if "outputOffset" not in arguments and "outputLimit" not in arguments:
        whole = delegations.result(backend.session_id, delegation_id)
        return packed(whole, result_of, await backend.once(whole))
    page = delegations.output(
        backend.session_id,
        delegation_id,
        offset_bytes=unsigned(arguments, "outputOffset", 0),
        limit_bytes=unsigned(arguments, "outputLimit", PAGE_BYTES),
    )
    return record(await backend.once(page))


async def cancel(backend: Backend, arguments: Arguments) -> Json:
    call = delegations.cancel(backend.session_id, path_id(arguments, "delegationId"))
    return packed(call, status_of, await backend.once(call))


async def resume(backend: Backend, arguments: Arguments) -> Json:
    call = delegations.create_wait(
        backend.session_id,
        path_ids(arguments, "delegationIds"),
        mode=one_of(arguments, "mode", WAIT_MODES),
        title=optional(arguments, "title"),
    )
    return record(await backend.once(call, RESUME))


async def follow_up(backend: Backend, arguments: Arguments) -> Json:
    delegation_id, message = path_id(arguments, "delegationId"), required(arguments, "message")
    return record(await backend.once(delegations.follow_up(backend.session_id, delegation_id, message)))


async def submit(backend: Backend, arguments: Arguments) -> Json:
    """The arguments are the payload, unchanged; where it goes is the daemon's to know."""
    return record(await backend.safely(delegations.submit_review(backend.session_id, arguments), SUBMIT))


def packed(call: Call[Any], pack: Callable[[Any], Json], answer: Any, unknown: Unknown = NOTHING) -> Json:
    """The packet of an answer. Raises `ToolFailed` when something is missing in it."""
    try:
        return pack(answer)
    except (KeyError, TypeError, AttributeError) as error:
        raise unusable(call, unknown) from error


def _spawn_body(arguments: Arguments) -> dict[str, Any]:
    policy = arguments.get("writePolicy")
    if policy is not None and not isinstance(policy, str | dict):
        raise ToolFailed("writePolicy must be a string or an object")
    return {
        "prompt": None,
        "title": optional(arguments, "title"),
        "cwd": optional(arguments, "cwd"),
        # Not only those of the schema: a configuration may name agents of its own.
        "agent": optional(arguments, "agent"),
        "model": optional(arguments, "model"),
        "mode": one_of(arguments, "mode", MODES),
        "writePolicy": _policy(policy),
    }


def _policy(value: Any) -> Any:
    return {"kind": value.strip()} if isinstance(value, str) and value.strip() else value or None


def _refused(message: str) -> ToolFailed:
    packet = spawn_error({"kind": "validation-failed", "name": "RangeError", "message": message})
    return ToolFailed(pretty(packet), packet=packet)


def _spawn_failed(error: ApiFailed, unknown: Unknown) -> ToolFailed:
    packet = spawn_error(api_packet("spawn-failed", error, sentence(error, unknown)))
    return ToolFailed(pretty(packet), packet=packet)
