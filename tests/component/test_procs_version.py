"""Asking an agent's program for its version: it is started, bounded in time, with an environment of its own."""

from pathlib import Path

import pytest

from termal.config import AgentConfig, Config
from termal.procs.agents import version
from tests.support.supervised import life
from tests.support.waiting import wait_until


def program(folder: Path, text: str) -> Config:
    file = folder / "agent"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o700)
    return Config(agents={"mine": AgentConfig(command=[str(file), "acp"])})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('echo "1.2.3 ($1)"; echo more', "1.2.3 (--version)"),
        ("echo $SECRET-$HOME", "-/home/u"),
        ("exit 0", None),
        ("echo 1.2.3; exit 1", None),
        ("printf '\\377\\n'", "\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_the_first_line_is_the_version(run_dir: Path, text: str, said: str | None) -> None:
    environ = {"PATH": "/bin:/usr/bin", "HOME": "/home/u", "SECRET": "x"}
    assert version("mine", program(run_dir, text), environ) == said


def test_a_program_that_does_not_answer_is_ended_with_what_it_started(run_dir: Path) -> None:
    with life(run_dir) as alive:
        config = program(run_dir, f"exec 3>{run_dir / 'life'}; sleep 600 & sleep 600")
        assert version("mine", config, {"PATH": "/bin:/usr/bin"}, timeout_s=0.3) is None
        wait_until(alive.all_dead, "the program and its child to be dead")


def test_an_agent_that_is_not_there_has_none(run_dir: Path) -> None:
    assert version("Gemini", Config(), {"PATH": str(run_dir)}) is None
