"""What a person does with a Codex thread besides talking: fork, put away, shorten, take back. One call each.

Raises `Refused` where Codex says no, `NoAnswer` where it says nothing in time.
"""

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from termal.wire.thread_operations import CALL_S, PastItem, ThreadCommand, ThreadDone
from workers.runtime import codex_items
from workers.runtime.codex_server import AppServer
from workers.runtime.codex_settings import thread_params
from workers.runtime.json_values import records, valid_text
from workers.runtime.lines import NoAnswer, Refused

PAGE = 100
PAGES = 50
HISTORY_CHARACTERS = 8 << 20
"""A longer history does not travel; the transcript then only says what was done."""
_NAME_CHARACTERS = 512
_TEXT_CHARACTERS = 4096

Json = dict[str, Any]
Ask = Callable[[str, Json, float], Awaitable[Any]]


class Unusable(Exception):
    """Codex answered with something that means nothing; the text is for people."""


async def carry_out(process: AppServer, thread_id: str, command: ThreadCommand) -> ThreadDone:
    """A fork, a rollback or the list of MCP servers of an attached thread."""
    ask = process.lines.request
    if command.action == "rollback":
        return ThreadDone(items=await roll_back(ask, thread_id, command.turns, command.spec.workdir))
    if command.action == "servers":
        return ThreadDone(servers=await servers(ask, thread_id))
    return await _fork(process, command, thread_id)


async def put_away(process: AppServer, thread_id: str, *, away: bool) -> None:
    """Archive the thread, or take it back; one that is there already is where it should be."""
    ask, params = process.lines.request, {"threadId": thread_id}
    try:
        await ask("thread/archive" if away else "thread/unarchive", params, CALL_S)
    except Refused:
        # Done before by a command whose answer was lost: Codex then refuses what the other step undoes.
        if not away:
            await ask("thread/archive", params, CALL_S)
            await ask("thread/unarchive", params, CALL_S)
            return
        await ask("thread/unarchive", params, CALL_S)
        await ask("thread/archive", params, CALL_S)


async def _fork(process: AppServer, command: ThreadCommand, thread_id: str) -> ThreadDone:
    spec = command.spec
    params = {"threadId": thread_id, **thread_params(spec, process.own)}
    answer = await process.lines.request("thread/fork", params, CALL_S)
    thread = answer.get("thread") if isinstance(answer, dict) else None
    number = thread.get("id") if isinstance(thread, dict) else None
    if not isinstance(thread, dict) or not isinstance(number, str) or not number:
        raise Unusable("Codex forked the thread without telling the new one's id")
    items = past_items(records(thread.get("turns")), spec.workdir)
    if not items:
        with contextlib.suppress(Refused, NoAnswer, Unusable):
            items = await history(process.lines.request, number, spec.workdir)
    # The new session attaches it anew, with a bridge of its own.
    await process.unload(number)
    return ThreadDone(number, items)


async def roll_back(ask: Ask, thread_id: str, turns: int, folder: str) -> list[PastItem] | None:
    """Take the newest ``turns`` turns away; what is left of the history."""
    left, cursor, last = turns, None, ""
    while left > 0:
        params = {"threadId": thread_id, "limit": min(left, PAGE), "sortDirection": "desc", "itemsView": "notLoaded"}
        answer = _answer(await ask("thread/turns/list", _with_cursor(params, cursor), CALL_S))
        found = records(answer.get("data"))
        if found:
            last = str(found[-1].get("id"))
        left -= len(found)
        cursor = answer.get("nextCursor")
        if not found or not cursor:
            break
    if not last:
        raise Unusable("the thread has no turn that could be taken back")
    await ask("thread/revert", {"threadId": thread_id, "beforeTurnId": last}, CALL_S)
    return await history(ask, thread_id, folder)


async def history(ask: Ask, thread_id: str, folder: str) -> list[PastItem] | None:
    """All of it, None when it is too large to carry."""
    turns: list[Json] = []
    cursor: str | None = None
    for _ in range(PAGES):
        params = {"threadId": thread_id, "limit": PAGE, "sortDirection": "asc", "itemsView": "full"}
        answer = _answer(await ask("thread/turns/list", _with_cursor(params, cursor), CALL_S))
        turns += records(answer.get("data"))
        following = answer.get("nextCursor")
        if not isinstance(following, str) or not following or following == cursor:
            return past_items(turns, folder)
        cursor = following
    return None


def past_items(turns: list[Json], folder: str) -> list[PastItem] | None:
    """The items of ``turns`` in their order, None when they are too large to carry."""
    found = [
        past
        for turn in turns
        for item in records(turn.get("items"))
        for past in _MAKERS.get(str(item.get("type")), _nothing)(item, folder)
    ]
    size = sum(len(item.text) + len(item.output) for item in found)
    return found if size <= HISTORY_CHARACTERS else None


async def servers(ask: Ask, thread_id: str) -> bytes:
    """JSON of the MCP servers of a thread, by name: what they are called and what their tools are called."""
    found: dict[str, Json] = {}
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(PAGES):
        params = {"threadId": thread_id, "limit": PAGE, "detail": "toolsAndAuthOnly"}
        answer = _answer(await ask("mcpServerStatus/list", _with_cursor(params, cursor), CALL_S))
        for record in records(answer.get("data")):
            found[_short(record.get("name"))] = _server(record)
        cursor = answer.get("nextCursor")
        if not isinstance(cursor, str) or not cursor:
            return msgspec.json.encode([found[name] for name in sorted(found)])
        if cursor in seen:
            raise Unusable("Codex goes in circles in the list of its MCP servers")
        seen.add(cursor)
    raise Unusable("Codex does not come to the end of the list of its MCP servers")


def _server(record: Json) -> Json:
    tools = record.get("tools")
    rows = [tool for tool in tools.values() if isinstance(tool, dict)] if isinstance(tools, dict) else []
    return {
        "name": _short(record.get("name")),
        "authStatus": _short(record.get("authStatus") or "unknown"),
        "tools": sorted((_tool(tool) for tool in rows), key=lambda tool: str(tool["name"])),
    }


def _tool(tool: Json) -> Json:
    shown: Json = {"name": _short(tool.get("name"))}
    for key, limit in (("title", _NAME_CHARACTERS), ("description", _TEXT_CHARACTERS)):
        if isinstance(tool.get(key), str) and tool[key]:
            shown[key] = _short(tool[key], limit)
    return shown


def _nothing(_: Json, __: str) -> list[PastItem]:
    return []


def _prompt(item: Json, _: str) -> list[PastItem]:
    texts = [part["text"] for part in records(item.get("content")) if isinstance(part.get("text"), str)]
    return [PastItem("prompt", valid_text("\n".join(texts)))] if texts else []


def _text(item: Json, _: str) -> list[PastItem]:
    text = item.get("text")
    return [PastItem("text", valid_text(text))] if isinstance(text, str) and text.strip() else []


def _thought(item: Json, _: str) -> list[PastItem]:
    text = codex_items.summary_text(item)
    return [PastItem("thinking", valid_text(text))] if text.strip() else []


def _command(item: Json, _: str) -> list[PastItem]:
    line, failed = valid_text(codex_items.shown_command(item.get("command"))), item.get("status") != "completed"
    return [PastItem("command", line, output=valid_text(codex_items.command_output(item) or ""), failed=failed)]


def _call(item: Json, _: str) -> list[PastItem]:
    failed = item.get("status") != "completed"
    return [
        PastItem(
            "command",
            valid_text(codex_items.call_line(item)),
            output=valid_text(codex_items.call_output(item)),
            failed=failed,
        )
    ]


def _files(item: Json, folder: str) -> list[PastItem]:
    if item.get("status") != "completed":
        return []
    changes = codex_items.file_changes(item, folder)
    return [
        PastItem("diff", valid_text(c.diff), title=valid_text(c.path), change=c.change)
        for c in changes
        if c.diff.strip()
    ]


_MAKERS: dict[str, Callable[[Json, str], list[PastItem]]] = {
    "userMessage": _prompt,
    "agentMessage": _text,
    "plan": _text,
    "reasoning": _thought,
    "commandExecution": _command,
    "mcpToolCall": _call,
    "fileChange": _files,
}


def _with_cursor(params: Json, cursor: object) -> Json:
    return {**params, "cursor": cursor} if cursor else params


def _answer(value: object) -> Json:
    if not isinstance(value, dict) or not isinstance(value.get("data"), list):
        raise Unusable("Codex answered without a list")
    return value


def _short(value: object, limit: int = _NAME_CHARACTERS) -> str:
    return valid_text(str(value))[:limit]
