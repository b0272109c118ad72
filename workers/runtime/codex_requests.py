"""What Codex asks in a turn: which requests wait for a person, how each is shown, what their answers become.

Answers nothing by itself (`codex_rules`). Several may be open at once, in any order.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from termal.wire.turns import (
    AnyTurnEvent,
    AppRequestAsked,
    ApprovalAsked,
    ApprovalWithdrawn,
    AskedOption,
    AskedQuestion,
    ElicitationAsked,
    InteractionWithdrawn,
    PermissionOption,
    QuestionAsked,
)
from workers.runtime import codex_items as items
from workers.runtime.adapter import AgentFailed
from workers.runtime.json_values import records, valid_text

COMMAND = "item/commandExecution/requestApproval"
FILES = "item/fileChange/requestApproval"
RIGHTS = "item/permissions/requestApproval"
QUESTIONS = "item/tool/requestUserInput"
ELICITATION = "mcpServer/elicitation/request"
APPROVALS = (COMMAND, FILES)
OPTIONS = [
    PermissionOption("accept", "accepted", "Allow"),
    PermissionOption("acceptForSession", "acceptedForSession", "Allow for this session"),
    PermissionOption("decline", "rejected", "Reject"),
]
_YES = "accept"
_ACTIONS = ("accept", "decline", "cancel")
_UNSANDBOXED = "If you allow it, it runs outside the sandbox."
_MOST_QUESTIONS = 16
_MOST_OPTIONS = 32
_CHARACTERS = 4096
_APP_TITLES = {RIGHTS: "Codex asks for more rights"}

Json = dict[str, Any]
Asked = ApprovalAsked | QuestionAsked | ElicitationAsked | AppRequestAsked
_encode = msgspec.json.Encoder().encode


class Open(msgspec.Struct, frozen=True):
    """``wire_id`` is Codex's own number of the request; ``own_tool``, ``by_mode`` as in
    `termal.wire.turns.ApprovalAsked`; ``on_withdrawn`` as in `Requests.ask`."""

    request: str
    wire_id: object
    method: str
    params: Json
    own_tool: bool = False
    by_mode: str = ""
    on_withdrawn: Callable[[], None] | None = None


class Requests:
    """The open requests of one turn; each is answered once or withdrawn."""

    def __init__(self) -> None:
        self._open: dict[str, Open] = {}
        self._number = 0

    def ask(
        self,
        wire_id: object,
        method: str,
        params: Json,
        item: Json,
        folder: str,
        *,
        own_tool: bool = False,
        by_mode: bool = False,
        on_withdrawn: Callable[[], None] | None = None,
    ) -> Asked:
        """Keep the request and return the event that shows it. ``item``: what it is about, empty when unknown.
        ``by_mode``: the session's mode allows it as soon as nothing is locked any more. ``on_withdrawn`` is called when
        it is withdrawn although Codex still waits."""
        self._number += 1
        mode_says = _YES if by_mode else ""
        asked = Open(f"request-{self._number}", wire_id, method, params, own_tool, mode_says, on_withdrawn)
        event = _EVENTS.get(method, _app_request)(asked, item, folder)
        self._open[asked.request] = asked
        return event

    def answer(self, request: str, option: str) -> tuple[object, Json]:
        """A choice: the wire id and the result. Raises `AgentFailed`, leaving it open, for what it does not take."""
        asked = self._find(request)
        if asked.method in APPROVALS and any(option == known.id for known in OPTIONS):
            result: Json = {"decision": option}
        elif asked.method == ELICITATION and option in _ACTIONS:
            result = {"action": option, "content": {} if option == "accept" else None}
        else:
            raise AgentFailed("the request does not take this answer")
        del self._open[request]
        return asked.wire_id, result

    def answer_with(self, request: str, option: str, payload: bytes) -> tuple[object, object]:
        """An answer of more than a choice: ``payload`` is JSON that may hold secrets. Raises as `answer` does."""
        asked = self._find(request)
        result: object
        try:
            value = msgspec.json.decode(payload)
            if asked.method == QUESTIONS:
                result = {"answers": {name: {"answers": list(given)} for name, given in value.items()}}
            elif asked.method == ELICITATION and option in _ACTIONS:
                result = {"action": option, "content": value}
            elif asked.method in APPROVALS or asked.method == ELICITATION:
                raise AgentFailed("the request does not take this answer")
            else:
                result = value
        except (msgspec.MsgspecError, AttributeError, TypeError) as error:
            # Without the text of the error: it may quote an answer.
            raise AgentFailed("the request cannot be answered like this") from error
        del self._open[request]
        return asked.wire_id, result

    def resolved(self, wire_id: object) -> list[AnyTurnEvent]:
        """Codex does not wait any more."""
        return [self._withdraw(asked) for asked in list(self._open.values()) if asked.wire_id == wire_id]

    def withdraw_all(self) -> list[AnyTurnEvent]:
        for asked in list(self._open.values()):
            if asked.on_withdrawn is not None:
                asked.on_withdrawn()
        return [self._withdraw(asked) for asked in list(self._open.values())]

    def _find(self, request: str) -> Open:
        asked = self._open.get(request)
        if asked is None:
            raise AgentFailed("the request is not open any more")
        return asked

    def _withdraw(self, asked: Open) -> AnyTurnEvent:
        del self._open[asked.request]
        return (ApprovalWithdrawn if asked.method in APPROVALS else InteractionWithdrawn)(asked.request)


def _command(asked: Open, item: Json, _: str) -> Asked:
    command = items.shown_command(asked.params.get("command") or item.get("command"))
    network = asked.params.get("networkApprovalContext")
    host = network.get("host") if isinstance(network, dict) else None
    title = f"Codex wants to reach {host}" if isinstance(host, str) else "Codex wants to run a command"
    lines = (_text(asked.params.get("reason")), f"Folder: {asked.params.get('cwd') or item.get('cwd')}", _UNSANDBOXED)
    detail = "\n".join(line for line in lines if line)
    return ApprovalAsked(asked.request, title, command, detail, OPTIONS, by_mode=asked.by_mode)


def _files(asked: Open, item: Json, folder: str) -> Asked:
    changes = items.file_changes(item, folder)
    root = asked.params.get("grantRoot")
    lines = (
        _text(asked.params.get("reason")),
        f"It asks to write below {root} from now on." if isinstance(root, str) else "",
        *(change.diff for change in changes),
    )
    title = "Codex wants to change files"
    command = "edit " + ", ".join(change.path for change in changes) if changes else "edit files"
    detail = "\n".join(line for line in lines if line)
    return ApprovalAsked(asked.request, title, command, detail, OPTIONS, by_mode=asked.by_mode)


def _questions(asked: Open, _: Json, __: str) -> Asked:
    found = [
        AskedQuestion(
            id=str(record.get("id")),
            header=_text(record.get("header")),
            question=_text(record.get("question")),
            is_other=record.get("isOther") is True or not record.get("options"),
            is_secret=record.get("isSecret") is True,
            options=[
                AskedOption(_text(option.get("label")), _text(option.get("description")))
                for option in records(record.get("options"))[:_MOST_OPTIONS]
            ],
        )
        for record in records(asked.params.get("questions"))[:_MOST_QUESTIONS]
    ]
    if not found:
        return _app_request(asked, {}, "")
    only = found[0].question if len(found) == 1 else ""
    return QuestionAsked(asked.request, only or "Codex asks", "", found)


def _elicitation(asked: Open, item: Json, _: str) -> Asked:
    """Only the server's name is Codex's own word; message and metadata are whatever that server sent."""
    server = str(asked.params.get("serverName"))
    title = f"Codex wants to use {server}.{item.get('tool')}" if item else f"The MCP server {server} asks"
    detail = items.call_line(item) if item else _text(asked.params.get("message"))
    return ElicitationAsked(asked.request, title, detail, _encode(asked.params), asked.own_tool, asked.by_mode)


def _app_request(asked: Open, _: Json, __: str) -> Asked:
    title = _APP_TITLES.get(asked.method, "Codex asks its client")
    return AppRequestAsked(asked.request, title, _text(asked.params.get("reason")), asked.method, _encode(asked.params))


_EVENTS: dict[str, Callable[[Open, Json, str], Asked]] = {
    COMMAND: _command,
    FILES: _files,
    QUESTIONS: _questions,
    ELICITATION: _elicitation,
}


def _text(value: object) -> str:
    """Valid Unicode of a bounded size."""
    return valid_text(str(value or "")[:_CHARACTERS])
