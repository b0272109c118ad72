"""The service's command as it stands in the unit, and the logs of a daemon that it has started."""

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from termal.cli.daemon import read_running
from termal.home import Home
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.slow]

SERVICE = [sys.executable, "-P", "-m", "termal", "service"]
LIMIT_S = 20


def test_the_command_of_the_unit_runs_a_daemon_whose_logs_can_be_followed(run_dir: Path) -> None:
    home = run_dir / "a home"
    kept = ("TERMAL_HOME", "TERMAL_PORT")
    environment = {name: value for name, value in os.environ.items() if name not in kept} | {"HOME": str(run_dir)}
    printed = subprocess.run(
        [*SERVICE, "install", "--print", "--home", str(home)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    ).stdout
    [command] = re.findall(r"^ExecStart=(.*)$", printed, re.MULTILINE)
    [variables] = re.findall(r"^Environment=(.*)$", printed, re.MULTILINE)
    given = dict(word.split("=", 1) for word in shlex.split(variables))
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text("port = 0\n", "utf-8")
    # As systemd starts it: the variables of the unit and what belongs to the user, nothing of a shell.
    daemon = subprocess.Popen(shlex.split(command), env={**given, "HOME": str(run_dir)}, stdout=subprocess.DEVNULL)
    seen: list[str] = []
    with daemon:
        try:
            running = wait_until(lambda: read_running(Home(home)), "an address", LIMIT_S)
            assert running.pid == daemon.pid
            with subprocess.Popen(
                [*SERVICE, "logs", "-n", "1", "--follow", "--home", str(home)],
                env=environment,
                stdout=subprocess.PIPE,
                text=True,
            ) as logs:
                reader = threading.Thread(target=lambda: seen.extend(logs.stdout or ()))
                reader.start()
                try:
                    wait_until(lambda: seen, "the newest line", LIMIT_S)
                    daemon.send_signal(signal.SIGTERM)
                    assert daemon.wait(LIMIT_S) == 0
                    wait_until(lambda: any("daemon.ended" in line for line in seen), "the last line", LIMIT_S)
                    logs.send_signal(signal.SIGINT)
                    assert logs.wait(LIMIT_S) == 130
                finally:
                    logs.kill()
                    reader.join()
        finally:
            daemon.kill()
