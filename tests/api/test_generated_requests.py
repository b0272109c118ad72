"""Thousands of generated requests against a real daemon: none may do anything that the description does not say.

``API_EXAMPLES`` and ``API_SEED`` in the environment ask for more requests per operation, or for others.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from termal.model.session import BUILT_IN_AGENTS
from tests.support.daemon import Daemon

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = int(os.environ.get("API_EXAMPLES", "25"))
SEED = int(os.environ.get("API_SEED", "1"))
RUN_S = 200 + 4 * EXAMPLES
NEVER_ENDS = "/api/events"
NOT_BUILT = r"/delegations/\{delegation_id\}/(import|worktree)"
UNCHECKED = (
    # Rules that no schema tells (which settings an agent has, that a directory exists) refuse well-formed requests.
    "positive_data_acceptance",
    # Any request may end the session that an earlier one made.
    "ensure_resource_availability",
    # Nobody logs in here.
    "ignored_auth",
)

pytestmark = [pytest.mark.api, pytest.mark.slow]


@pytest.fixture
def daemon(home_dir: Path) -> Iterator[Daemon]:
    """A daemon whose only agent is the demo agent, whatever this machine has: the prompts are nonsense."""
    running = Daemon(home_dir, faults=False)
    running.home.root.mkdir(mode=0o700)
    others = [name for name in BUILT_IN_AGENTS if name != "Demo"]
    running.home.config.write_text("".join(f'[agents.{name}]\ncommand = ["/nowhere/{name}"]\n' for name in others))
    with running:
        yield running.start()


@pytest.fixture
def people(daemon: Daemon) -> None:
    """Sessions for requests to meet: some with a transcript, some with a turn that runs and prompts that wait."""
    with daemon.client() as http:
        for number in range(8):
            made = http.post("/api/sessions", json={"agent": "Demo", "workdir": str(daemon.home.root)})
            path = f"/api/sessions/{made.json()['sessionId']}/messages"
            prompts = ("say one\nthink two\nrun echo three",) if number % 2 else ("hang", "say later", "say last")
            for text in prompts:
                assert http.post(path, json={"text": text}).status_code == 202


@pytest.mark.timeout(RUN_S + 60)
@pytest.mark.usefixtures("people")
def test_the_daemon_does_what_its_description_says(daemon: Daemon) -> None:
    ended = generated(daemon)
    assert ended.returncode == 0, ended.stdout[-20000:]
    with httpx.Client(base_url=daemon.url, timeout=10) as http:
        assert http.get("/api/health").json()["state"] == "ok"
        rows = http.get("/api/status").json()["processes"]
    assert {row["name"]: row["restarts"] for row in rows if row["restarts"]} == {}


def generated(daemon: Daemon) -> "subprocess.CompletedProcess[str]":
    """The generator's own command, with its report as output; it ends by itself."""
    arguments = [
        f"{daemon.url}/api/openapi.json",
        f"--exclude-path={NEVER_ENDS}",
        # The generator takes a 501 for a fault.
        f"--exclude-path-regex={NOT_BUILT}",
        f"--exclude-checks={','.join(UNCHECKED)}",
        f"--max-examples={EXAMPLES}",
        f"--seed={SEED}",
        "--generation-database=none",
        "--suppress-health-check=all",
        "--request-timeout=20",
        "--continue-on-failure",
        "--warnings=off",
        "--no-color",
    ]
    return subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", "run", *arguments],
        # It leaves a cache where it runs.
        cwd=daemon.home.root.parent,
        env={**os.environ, "SCHEMATHESIS_HOOKS": "tests.api.hooks", "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=RUN_S,
        check=False,
    )
