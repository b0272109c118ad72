"""Waiting for the MCP servers of a Claude conversation: as long as one is coming up, and no longer."""

import asyncio

import pytest

from workers.runtime.adapter import AgentFailed
from workers.runtime.claude_servers import settled


@pytest.mark.parametrize(
    ("answers", "asked"),
    [
        pytest.param([{"ours": "connected"}], 1, id="up"),
        pytest.param([{"ours": "failed"}], 1, id="failed"),
        pytest.param([{}, {"ours": "pending"}, {"ours": "connected"}], 3, id="comes-up"),
        pytest.param([{"ours": "connected", "other": "pending"}], 1, id="another-is-not-waited-for"),
        pytest.param([None], 1, id="cannot-be-asked"),
    ],
)
def test_a_server_is_waited_for_while_it_comes_up(answers: list[dict[str, str] | None], asked: int) -> None:
    left = list(answers)

    async def states() -> dict[str, str]:
        answer = left.pop(0)
        if answer is None:
            raise AgentFailed("no such request")
        return answer

    asyncio.run(settled(states, ["ours"]))
    assert len(answers) - len(left) == asked
