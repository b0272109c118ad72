"""The private files that Claude Code is started with."""

import json
import os
import shutil
import subprocess
from pathlib import Path

from termal.wire.turns import McpServer
from workers.runtime.claude_files import PrivateFiles, sweep


def test_the_launcher_passes_arguments_and_takes_away_what_may_not_pass(tmp_path: Path) -> None:
    files = PrivateFiles(tmp_path)
    inherited = {"PATH": os.environ["PATH"], "KEPT": "1", "SECRET_NAME": "2"}
    env = shutil.which("env")
    assert env is not None
    command = [env, "sh", "-c", 'echo "$KEPT-$SECRET_NAME-$1"', "sh"]
    launcher = files.write_launcher(command, inherited=inherited, environment={"PATH": "x", "KEPT": "1"})
    assert launcher.stat().st_mode & 0o777 == 0o700
    said = subprocess.run([launcher, "a b"], env=inherited, capture_output=True, text=True, check=True)
    assert said.stdout == "1--a b\n"
    assert "SECRET_NAME" in launcher.read_text()
    files.remove()
    files.remove()
    assert not launcher.exists()


def test_descriptors_of_servers_are_for_the_owner_alone(tmp_path: Path) -> None:
    files = PrivateFiles(tmp_path)
    assert files.write_servers([]) is None
    written = files.write_servers([McpServer("own", "python", ["-m", "x"], {"TOKEN": "t"})])
    assert written is not None
    assert written.stat().st_mode & 0o777 == 0o600
    assert json.loads(written.read_text()) == {
        "mcpServers": {"own": {"type": "stdio", "command": "python", "args": ["-m", "x"], "env": {"TOKEN": "t"}}}
    }
    assert files.write_servers([McpServer("other", "python")]) == written
    assert "own" not in written.read_text()
    files.remove_servers()
    assert not written.exists()


def test_advice_is_a_file_for_the_owner_alone_until_it_was_read(tmp_path: Path) -> None:
    files = PrivateFiles(tmp_path)
    assert files.write_advice("") is None
    written = files.write_advice("be brief")
    assert written is not None
    assert written.read_text() == "be brief"
    files.remove_launcher()
    assert not written.exists()
    files.write_advice("again")
    assert sweep(tmp_path) == 1
