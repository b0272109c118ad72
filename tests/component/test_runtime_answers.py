"""Answers that are more than a choice, at an agent that takes only choices."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from termal.wire.errors import Conflict
from termal.wire.runtime_operations import INTERACTION_ANSWER, AnswerInteraction
from termal.wire.turns import TurnEnded
from tests.support.acp_peer import RuntimePeer
from tests.support.bus_peer import call


@pytest.fixture
def runtime(home_dir: Path, run_dir: Path) -> Iterator[RuntimePeer]:
    with RuntimePeer(home_dir, run_dir) as peer:
        yield peer


def test_an_agent_that_takes_only_choices_refuses_anything_else_and_still_waits(runtime: RuntimePeer) -> None:
    runtime.start("turn-1", "run true")
    asked = runtime.asked("turn-1")
    answer = AnswerInteraction("session-1", "turn-1", asked.request, "", b'{"question-1":["s3cret"]}')
    with pytest.raises(Conflict) as refused:
        call(runtime.run_dir, "runtime-acp", INTERACTION_ANSWER, answer)
    assert "s3cret" not in str(refused.value)
    runtime.answer("turn-1", asked.request, asked.options[0].id)
    assert runtime.ended("turn-1") == TurnEnded("completed")
