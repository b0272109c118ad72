"""Another try of an agent: who has to be asked before it is said to be granted."""

from types import SimpleNamespace
from typing import Any

import pytest

from termal.wire.agent_operations import OneAgent
from workers.state.agent_list import AgentList

WORKER = "runtime-claude"


class Asked:
    """A link to the worker, and the request of a person."""

    def __init__(self, up: bool) -> None:
        self.up = up
        self.trace, self.deadline_s = "", None
        self.calls: list[object] = []
        self.replies: list[object] = []

    def call(self, _: object, body: object, *__: object, **___: object) -> None:
        self.calls.append(body)

    def reply(self, value: object) -> None:
        self.replies.append(value)


@pytest.mark.parametrize(
    ("up", "running", "trouble", "asks"),
    [
        (False, False, False, False),
        (True, True, False, True),
        (False, True, False, True),
        (False, False, True, True),
    ],
    ids=["no-worker", "linked", "running-and-not-linked-yet", "heard-of"],
)
def test_a_worker_that_may_know_of_trouble_is_asked(up: bool, running: bool, trouble: bool, asks: bool) -> None:
    link = Asked(up)
    runtimes: Any = SimpleNamespace(
        client=lambda _: link,
        running={WORKER} if running else set(),
        troubles=SimpleNamespace(has=lambda _: trouble, shown=lambda row: row),
    )
    agents: Any = SimpleNamespace(rows=list)
    named: Any = SimpleNamespace(agent="Claude")
    agent_list = AgentList(agents, runtimes)
    agents.rows = lambda: [named]
    agent_list._reply = lambda: "done"  # type: ignore[assignment, method-assign, return-value]
    request: Any = link
    agent_list.table()["agent.retry"](request, OneAgent("Claude"))
    assert (link.calls, link.replies) == (([OneAgent("Claude")], []) if asks else ([], ["done"]))
