"""``termal serve``: becomes the daemon, wherever it is started, and refuses clearly what cannot work."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from termal.cli.daemon import read_running
from termal.home import Home
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.slow]

SERVE = [sys.executable, "-P", "-c", "from termal.cli.main import main; main()", "serve"]
LIMIT_S = 20


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("TERMAL_HOME", "TERMAL_PORT")}
    return {**kept, **more}


def refused(home: Path, *arguments: str, **more: str) -> tuple[int, str]:
    ran = subprocess.run(
        [*SERVE, "--home", str(home), *arguments],
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ran.stdout == ""
    return ran.returncode, ran.stderr


@pytest.mark.case("S108")
def test_it_becomes_the_daemon_also_beside_folders_that_are_named_like_its_parts(run_dir: Path, home_dir: Path) -> None:
    for name in ("supervisor", "workers", "termal"):
        (run_dir / name).mkdir()
        (run_dir / name / "__init__.py").write_text("raise SystemExit('the wrong one')", "utf-8")
    daemon = subprocess.Popen(
        [*SERVE, "--home", str(home_dir), "--port", "0"],
        env=environment(),
        cwd=run_dir,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with daemon:
        assert daemon.stdout is not None
        # A slow start says first what it is waiting for.
        waiting = re.compile(r"termal: (starting$|(starting: )?[\w-]+ is (starting|stopped))")
        said = next(line for line in daemon.stdout if not waiting.match(line))
        running = wait_until(lambda: read_running(Home(home_dir)), f"an address; it said {said!r}", LIMIT_S)
        try:
            # exec: the process that the shell started is the one that its Ctrl-C must reach.
            assert running.pid == daemon.pid
            assert running.url in said
            second = refused(home_dir, "--port", "0")
            assert second[0] == 75
            assert f"process {daemon.pid} at {running.url}" in second[1]
            after = wait_until(
                lambda: httpx.get(f"{running.url}/api/health").json(), "the health of the first", LIMIT_S
            )
            assert (after["ok"], read_running(Home(home_dir))) == (True, running)
            third = refused(run_dir / "other", "--port", running.url.rsplit(":", 1)[1])
            assert third[0] == 74
            assert "in use" in third[1]
        finally:
            daemon.send_signal(signal.SIGINT)
            status = daemon.wait(LIMIT_S)
    assert status == 0


@pytest.mark.parametrize(
    ("config", "arguments", "variables", "code", "words"),
    [
        pytest.param("port = 'x'", [], {}, 64, "port", id="a wrong configuration"),
        pytest.param("prot = 1", [], {}, 64, "prot", id="an unknown key"),
        pytest.param("", ["--host", "0.0.0.0"], {}, 64, "0.0.0.0", id="an address for everybody"),
        pytest.param("", [], {"TERMAL_PORT": "many"}, 64, "TERMAL_PORT", id="a port that is no number"),
    ],
)
def test_what_cannot_work_ends_with_one_line_and_its_code(
    *, home_dir: Path, config: str, arguments: list[str], variables: dict[str, str], code: int, words: str
) -> None:
    home_dir.mkdir(mode=0o700)
    (home_dir / "config.toml").write_text(config, "utf-8")
    ended, said = refused(home_dir, *arguments, **variables)
    assert (ended, said.count("\n"), words in said) == (code, 1, True), said
    assert said.startswith("termal: ")
    assert read_running(Home(home_dir)) is None


def test_a_link_in_the_place_of_the_data_directory_is_refused(run_dir: Path, home_dir: Path) -> None:
    (run_dir / "elsewhere").mkdir()
    home_dir.symlink_to(run_dir / "elsewhere")
    code, said = refused(home_dir)
    assert (code, "is a link" in said) == (73, True)
