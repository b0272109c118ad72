"""Tools of root sessions for talking to each other: send, discover, list, read, acknowledge."""

from termal.bridge.arguments import Arguments, optional, path_id, path_problem, required, unsigned
from termal.bridge.backend import Backend, record
from termal.bridge.caller import roots, state_call
from termal.bridge.failures import ACKNOWLEDGE, SEND, ToolFailed
from termal.client.packets import Json
from termal.client.routes import mailboxes

EXACT = "session-"
KEY_BYTES = 256
PAGE = 50
LONGEST_PAGE = 200
_SHOWN = ("name", "agent", "status", "workdir", "preview")


async def send(backend: Backend, arguments: Arguments) -> Json:
    reference, message = required(arguments, "sessionId"), required(arguments, "message")
    key = required(arguments, "idempotencyKey")
    if len(key.encode(errors="replace")) > KEY_BYTES:
        raise ToolFailed(f"idempotencyKey must have at most {KEY_BYTES} bytes")
    problem = path_problem(reference)
    if problem:
        raise ToolFailed(f"sessionId {problem}; such a name can only be reached by the session's id")
    target = await _resolve(backend, reference)
    call = mailboxes.send(
        backend.session_id,
        target,
        message,
        idempotency_key=key,
        topic=optional(arguments, "topic"),
        state_stamp=optional(arguments, "stateStamp"),
        kind=optional(arguments, "class"),
    )
    return {"sessionId": target, "resolvedFrom": reference, **await backend.safely(call, SEND)}


async def list_sessions(backend: Backend, _arguments: Arguments) -> Json:
    state = await backend.once(state_call())
    return {
        "sessions": [{"sessionId": row.get("id"), **{name: row.get(name) for name in _SHOWN}} for row in roots(state)]
    }


async def list_mailboxes(backend: Backend, _arguments: Arguments) -> Json:
    return {"mailboxes": await backend.safely(mailboxes.mailboxes(backend.session_id))}


async def read_mailbox(backend: Backend, arguments: Arguments) -> Json:
    mailbox_id = path_id(arguments, "mailboxId")
    limit = unsigned(arguments, "limit", PAGE, most=LONGEST_PAGE)
    if limit < 1:
        raise ToolFailed("limit must be at least 1")
    call = mailboxes.messages(
        backend.session_id, mailbox_id, after_sequence=unsigned(arguments, "afterSequence", 0), limit=limit
    )
    return {"mailboxId": mailbox_id, "messages": await backend.safely(call)}


async def read_message(backend: Backend, arguments: Arguments) -> Json:
    return record(await backend.safely(mailboxes.message(backend.session_id, path_id(arguments, "messageId"))))


async def acknowledge(backend: Backend, arguments: Arguments) -> Json:
    call = mailboxes.acknowledge(
        backend.session_id,
        path_id(arguments, "mailboxId"),
        expected_processed_through=unsigned(arguments, "expectedProcessedThrough"),
        processed_through=unsigned(arguments, "processedThrough"),
    )
    return record(await backend.safely(call, ACKNOWLEDGE))


async def _resolve(backend: Backend, reference: str) -> str:
    """The id of the session that is meant: an exact id goes to the daemon as it is, which decides on it."""
    if reference.startswith(EXACT):
        if reference == backend.session_id:
            raise ToolFailed(f"{reference} is this session itself")
        return reference
    folded = reference.casefold()
    named = [row for row in roots(await backend.once(state_call())) if str(row.get("name", "")).casefold() == folded]
    if not named:
        raise ToolFailed(f"no root session is named {reference}: termal_list_sessions shows names and ids")
    if len(named) > 1:
        listed = ", ".join(f"{row.get('id')} (project {row.get('projectId') or 'none'})" for row in named)
        raise ToolFailed(f"several sessions are named {reference}; use the exact id: {listed}")
    target = str(named[0].get("id"))
    if target == backend.session_id:
        raise ToolFailed(f"{reference} is this session itself")
    return target
