"""``termal demo`` as a newcomer runs it, without a terminal."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.system, pytest.mark.slow]

TERMAL = [sys.executable, "-c", "from termal.cli.main import main; main()"]


def test_the_demo_finds_all_its_claims_true_and_leaves_nothing_behind(run_dir: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(run_dir), "HOME": str(run_dir / "user")}
    ran = subprocess.run(
        [*TERMAL, "demo", "--json"],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert told["ok"]
    assert [check["claim"] for check in told["checks"] if not check["passed"]] == []
    assert len(told["checks"]) >= 13
    assert told["figures"]["lost"] == 0
    assert told["figures"]["messages"] >= 20
    assert list(run_dir.iterdir()) == []


def test_a_demo_whose_daemon_cannot_start_says_why_and_leaves_nothing_behind(run_dir: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(run_dir), "TERMAL_NOFILE_LIMIT": "many"}
    ran = subprocess.run(
        [*TERMAL, "demo"],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 1
    assert "TERMAL_NOFILE_LIMIT must be a number" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert list(run_dir.iterdir()) == []
