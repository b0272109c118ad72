"""Who decides over a tool call of Claude Code, and what becomes of a question that is put to a person."""

import asyncio

import pytest
from msgspec import structs

from termal.wire.turns import AnyTurnEvent, ApprovalAsked, ApprovalWithdrawn, McpServer, SessionSpec
from workers.runtime.adapter import AgentFailed
from workers.runtime.claude_approvals import Approvals, ToolRequest, Verdict, ruled
from workers.runtime.claude_tools import line_of

OWN = McpServer("termal-delegation", "python")


def spec(mode: str, *, read_only: bool = False) -> SessionSpec:
    return SessionSpec(
        "session-1", "Claude", "/work", "sonnet", None, read_only, {"claudeApprovalMode": mode}, [OWN]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "tool", "expected"),
    [
        (spec("ask"), "Bash", None),
        (spec("plan"), "Bash", None),
        (spec("auto-approve"), "Bash", "allow"),
        (spec("auto-approve"), "AskUserQuestion", None),
        (spec("ask"), "AskUserQuestion", None),
        (spec("auto-approve", read_only=True), "AskUserQuestion", "refuse"),
        (spec("read-only-auto-approve"), "Read", "allow"),
        (spec("read-only-auto-approve"), "Bash", "refuse"),
        (spec("read-only-auto-approve"), "Write", "refuse"),
        (spec("auto-approve", read_only=True), "Write", "refuse"),
        (spec("read-only-auto-approve"), "mcp__termal-delegation__submit", None),
        (spec("read-only-auto-approve"), "mcp__termal_delegation__submit", "refuse"),
        (spec("read-only-auto-approve"), "submit", "refuse"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_settings_decide_before_a_person_is_asked(settings: SessionSpec, tool: str, expected: str | None) -> None:
    verdict = ruled(settings, ToolRequest(tool, {}))
    assert (verdict.kind if verdict else None) == expected
    assert verdict is None or verdict.kind == "allow" or verdict.text


@pytest.mark.parametrize(
    ("tool", "by_mode"),
    [("Bash", True), ("mcp__other__write", True), ("mcp__termal-delegation__termal_list_sessions", False)],
)
def test_a_yes_of_the_mode_alone_may_have_to_wait_for_the_end_of_a_lock(tool: str, by_mode: bool) -> None:
    assert ruled(spec("auto-approve"), ToolRequest(tool, {})) == Verdict("allow", by_mode=by_mode)


def test_a_question_that_is_held_for_a_lock_says_what_the_mode_will_answer() -> None:
    async def scenario() -> None:
        told: list[AnyTurnEvent] = []
        approvals = Approvals()
        waiting = asyncio.create_task(
            approvals.ask(ToolRequest("Bash", {"command": "make"}), told.append, by_mode=True)
        )
        await asyncio.sleep(0)
        (asked,) = told
        assert isinstance(asked, ApprovalAsked)
        assert asked.by_mode in [option.id for option in asked.options if option.decision == "accepted"]
        approvals.answer(asked.request, asked.by_mode)
        assert await waiting == Verdict("allow")

    asyncio.run(scenario())


SUBMIT = "mcp__termal-delegation__termal_submit_review_result"


@pytest.mark.case("B54")
@pytest.mark.parametrize("mode", ["ask", "plan", "read-only-auto-approve"])
@pytest.mark.parametrize(
    ("tool", "running", "allowed"),
    [
        (SUBMIT, True, True),
        (SUBMIT, False, False),
        ("mcp__termal_delegation__termal_submit_review_result", True, False),
        ("termal_submit_review_result", True, False),
        ("mcp__termal-delegation__termal_submit_review_result2", True, False),
        ("mcp__termal-delegation__termal_spawn_session", True, False),
    ],
)
def test_a_running_required_review_may_submit_unasked_and_nothing_else(
    mode: str, tool: str, running: bool, allowed: bool
) -> None:
    settings = structs.replace(spec(mode), submits_review=running)
    verdict = ruled(settings, ToolRequest(tool, {"schemaVersion": 1}))
    assert (verdict == Verdict("allow")) is allowed


class Asking:
    """One open question about ``request``."""

    def __init__(self, request: ToolRequest) -> None:
        self.approvals = Approvals()
        self.events: list[AnyTurnEvent] = []
        self.task = asyncio.create_task(self.approvals.ask(request, self.events.append))

    async def asked(self) -> ApprovalAsked:
        await asyncio.sleep(0)
        (event,) = self.events
        assert isinstance(event, ApprovalAsked)
        return event


EDIT = ToolRequest(
    "Edit",
    {"file_path": "/work/a", "old_string": "-- a", "new_string": "b"},
    description="a.txt",
    blocked_path="/work/a",
    rules=True,
)


@pytest.mark.parametrize(
    ("option", "kind"), [("allow", "allow"), ("allowForSession", "allowForSession"), ("refuse", "refuse")]
)
def test_an_answer_is_given_once(option: str, kind: str) -> None:
    async def scenario() -> None:
        asking = Asking(EDIT)
        asked = await asking.asked()
        assert asked.title == "Claude wants to change a file"
        assert asked.detail == "a.txt\nPath: /work/a\n--- a\n+b"
        assert [offered.id for offered in asked.options] == ["allow", "allowForSession", "refuse"]
        with pytest.raises(AgentFailed):
            asking.approvals.answer(asked.request, "maybe")
        asking.approvals.answer(asked.request, option)
        with pytest.raises(AgentFailed):
            asking.approvals.answer(asked.request, option)
        assert (await asking.task).kind == kind
        with pytest.raises(AgentFailed):
            asking.approvals.answer(asked.request, option)
        assert asking.events == [asked]

    asyncio.run(scenario())


def test_a_call_that_cannot_be_allowed_for_good_is_not_offered_so() -> None:
    async def scenario() -> None:
        asking = Asking(ToolRequest("Bash", {"command": "ls"}))
        asked = await asking.asked()
        assert [offered.id for offered in asked.options] == ["allow", "refuse"]
        assert (asked.title, asked.command) == ("Claude wants to run a command", "ls")
        asking.approvals.withdraw_all()
        with pytest.raises(asyncio.CancelledError):
            await asking.task

    asyncio.run(scenario())


@pytest.mark.parametrize("by_agent", [True, False], ids=["by the agent", "by the end of the turn"])
def test_a_withdrawn_question_is_told_once_and_takes_no_answer(by_agent: bool) -> None:
    async def scenario() -> None:
        asking = Asking(EDIT)
        asked = await asking.asked()
        if by_agent:
            asking.task.cancel()
        asking.approvals.withdraw_all() if not by_agent else None
        with pytest.raises(asyncio.CancelledError):
            await asking.task
        assert asking.events == [asked, ApprovalWithdrawn(asked.request)]
        with pytest.raises(AgentFailed):
            asking.approvals.answer(asked.request, "allow")

    asyncio.run(scenario())


def test_without_a_turn_a_call_is_refused() -> None:
    verdict = asyncio.run(Approvals().ask(EDIT, None))
    assert verdict == Verdict("refuse", "No turn is running that could ask the user.")


@pytest.mark.parametrize(
    ("tool", "arguments", "line"),
    [
        ("Bash", {"command": "ls -l\npwd"}, "ls -l\npwd"),
        ("Edit", {"file_path": "/a", "old_string": "x"}, "Edit /a"),
        ("Grep", {"pattern": "x+"}, "Grep x+"),
        ("mcp__s__t", {"n": 1}, 'mcp__s__t {"n": 1}'),
        ("TaskList", {}, "TaskList"),
        ("Read", {"file_path": "x" * 400}, "Read " + "x" * 295 + "..."),
    ],
    ids=["a command", "an edit", "a search", "a tool of a server", "no arguments", "too long"],
)
def test_a_call_is_one_line(tool: str, arguments: dict[str, object], line: str) -> None:
    assert line_of(tool, arguments) == line
