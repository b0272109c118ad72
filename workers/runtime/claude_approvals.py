"""Which tool calls of Claude Code are allowed, refused, or put to a person; and the questions that are open now."""

import asyncio
import difflib
import uuid
from collections.abc import Callable
from typing import Literal

import msgspec

from termal.bridge.descriptor import CLAUDE_TOOLS
from termal.wire.turns import (
    AnyTurnEvent,
    ApprovalAsked,
    ApprovalWithdrawn,
    InteractionWithdrawn,
    PermissionOption,
    SessionSpec,
)
from workers.runtime.adapter import AgentFailed
from workers.runtime.claude_guard import guarded, is_read_only
from workers.runtime.claude_messages import Json
from workers.runtime.claude_questions import TOOL as QUESTION_TOOL
from workers.runtime.claude_questions import asked_of, updated_input
from workers.runtime.claude_tools import kind_of, line_of

ALLOW = PermissionOption("allow", "accepted", "Allow")
ALLOW_FOR_SESSION = PermissionOption("allowForSession", "acceptedForSession", "Allow for this session")
REFUSE = PermissionOption("refuse", "rejected", "Reject")

_TITLES = {"execute": "Claude wants to run a command", "edit": "Claude wants to change a file"}
_REFUSED_TEXT = "The user did not allow this."
_NO_TURN_TEXT = "No turn is running that could ask the user."
_NO_QUESTIONS_TEXT = "The call holds no questions. Ask in plain text and end the turn, or go on with what seems best."


class ToolRequest(msgspec.Struct, frozen=True):
    """The agent asks whether it may. ``rules``: it offers rules by which it would not ask again."""

    tool: str
    arguments: Json
    description: str = ""
    reason: str = ""
    blocked_path: str = ""
    rules: bool = False


class Verdict(msgspec.Struct, frozen=True):
    """``text`` is what the agent's model reads of a refusal; ``arguments``: the call's in place of its own.
    ``by_mode``: only the session's mode allows it, and it may write.
    """

    kind: Literal["allow", "allowForSession", "refuse"]
    text: str = ""
    arguments: Json | None = None
    by_mode: bool = False


def ruled(spec: SessionSpec, request: ToolRequest) -> Verdict | None:
    """The verdict that the session's settings give by themselves, None when a person decides."""
    before = guarded(spec, request.tool, request.arguments)
    if before is not None and before.kind != "ask":
        return Verdict(before.kind, before.text)
    if before is not None or is_read_only(spec) or request.tool == QUESTION_TOOL:
        # In every mode: nobody but a person has the answer, and an allowed call without one says that there is none.
        return None
    if spec.modes.get("claudeApprovalMode") == "auto-approve":
        return Verdict("allow", by_mode=not request.tool.startswith(CLAUDE_TOOLS))
    return None


class _Open(msgspec.Struct, frozen=True):
    """``answer``: the id of an option, or the call's arguments with the answers in them when it ``questions``."""

    answer: asyncio.Future[str | Json]
    tell: Callable[[AnyTurnEvent], None]
    request: ToolRequest

    @property
    def questions(self) -> bool:
        return self.request.tool == QUESTION_TOOL


class Approvals:
    """The open questions of one conversation; each is answered once or withdrawn."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}

    async def ask(
        self,
        request: ToolRequest,
        tell: Callable[[AnyTurnEvent], None] | None,
        *,
        by_mode: bool = False,
        once: bool = False,
    ) -> Verdict:
        """Put ``request`` to a person and wait. A cancelled wait withdraws the question. ``by_mode``: the session's
        mode allows it as soon as nothing is locked any more. ``once``: whatever the person says, it is for this one."""
        if tell is None:
            return Verdict("refuse", _NO_TURN_TEXT)
        name = uuid.uuid4().hex
        is_question = request.tool == QUESTION_TOOL
        event = asked_of(name, request.arguments) if is_question else _question(name, request, by_mode, once)
        if event is None:
            return Verdict("refuse", _NO_QUESTIONS_TEXT)
        answer: asyncio.Future[str | Json] = asyncio.get_running_loop().create_future()
        self._open[name] = _Open(answer, tell, request)
        tell(event)
        try:
            option = await answer
        except asyncio.CancelledError:
            self._withdraw(name)
            raise
        self._open.pop(name, None)
        if isinstance(option, dict):
            return Verdict("allow", arguments=option)
        if option == REFUSE.id:
            return Verdict("refuse", _REFUSED_TEXT)
        return Verdict("allowForSession" if option == ALLOW_FOR_SESSION.id and not once else "allow")

    def answer(self, name: str, option: str) -> None:
        """Raises `AgentFailed` when the question is not open or has no such answer."""
        asked = self._waiting(name)
        if asked.questions or option not in (ALLOW.id, ALLOW_FOR_SESSION.id, REFUSE.id):
            raise AgentFailed(f"The request has no answer {option!r}.")
        asked.answer.set_result(option)

    def answer_questions(self, name: str, payload: bytes) -> None:
        """``payload``: JSON of answers by question id. Raises `AgentFailed` as `answer` does."""
        asked = self._waiting(name)
        if not asked.questions:
            raise AgentFailed("The request asks for a decision, not for answers.")
        try:
            asked.answer.set_result(updated_input(asked.request.arguments, payload))
        except ValueError as error:
            # Without the text of the error: it may quote an answer.
            raise AgentFailed("The request cannot be answered like this.") from error

    def _waiting(self, name: str) -> _Open:
        asked = self._open.get(name)
        if asked is None or asked.answer.done():
            raise AgentFailed("This request is no longer open.")
        return asked

    def withdraw_all(self) -> None:
        """Nobody waits for these answers any more: the turn ended or the agent is gone."""
        for name in tuple(self._open):
            self._withdraw(name)

    def _withdraw(self, name: str) -> None:
        asked = self._open.pop(name, None)
        if asked is not None:
            asked.tell(InteractionWithdrawn(name) if asked.questions else ApprovalWithdrawn(name))
            asked.answer.cancel()


def _question(name: str, request: ToolRequest, by_mode: bool, once: bool) -> ApprovalAsked:
    kind = kind_of(request.tool)
    parts = (request.description, request.reason, request.blocked_path and f"Path: {request.blocked_path}")
    change = _proposed_change(request) if kind == "edit" else ""
    return ApprovalAsked(
        request=name,
        title=_TITLES.get(kind, f"Claude wants to use {request.tool}"),
        command=line_of(request.tool, request.arguments),
        detail="\n".join(part for part in (*parts, change) if part),
        options=[ALLOW, ALLOW_FOR_SESSION, REFUSE] if request.rules or once else [ALLOW, REFUSE],
        own_tool=request.tool.startswith(CLAUDE_TOOLS),
        by_mode=ALLOW.id if by_mode else "",
    )


def _proposed_change(request: ToolRequest) -> str:
    """What the person is asked to accept, as a diff without context."""
    before = str(request.arguments.get("old_string") or "")
    after = str(request.arguments.get("new_string") or request.arguments.get("content") or "")
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0))
    return "\n".join(line for line in lines[2:] if not line.startswith("@@"))
