"""A backup of a running daemon, put back after it went on: the daemon is then what it was."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from termal.wire.control import EXIT_LOCKED
from tests.support.daemon import Daemon, Person

pytestmark = [pytest.mark.system, pytest.mark.slow]


def termal(daemon: Daemon, *arguments: str) -> tuple[int, str]:
    environment = {**os.environ, "TERMAL_HOME": str(daemon.home.root)}
    ended = subprocess.run(
        [sys.executable, "-c", "from termal.cli.main import main; main()", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert "Traceback" not in ended.stderr
    return ended.returncode, ended.stdout + ended.stderr


def prompts(person: Person) -> list[str]:
    return [message["text"] for message in person.wait_idle()["messages"] if message["author"] == "you"]


def test_a_daemon_is_after_a_restore_what_it_was_at_the_backup(daemon: Daemon, run_dir: Path) -> None:
    folder = str(run_dir / "saved")
    one, other = Person(daemon, "one"), Person(daemon, "other")
    one.prompt("say one", key="one")
    one.wait_idle()
    with daemon.client() as client:
        path = f"/api/sessions/{one.session_id}/mailboxes/send"
        mail = {"targetSessionId": other.session_id, "message": "first", "idempotencyKey": "k1"}
        assert client.post(path, json=mail).status_code == 202
        assert termal(daemon, "backup", folder)[0] == 0
        assert client.post(path, json={**mail, "idempotencyKey": "k2"}).status_code == 202
    one.prompt("say two", key="two")
    assert prompts(one) == ["say one", "say two"]
    code, said = termal(daemon, "restore", folder)
    assert (code, "stop the daemon first" in said) == (EXIT_LOCKED, True)
    assert daemon.stop() == 0
    code, said = termal(daemon, "restore", folder)
    assert code == 0, said
    daemon.start()
    one.reconnect()
    assert prompts(one) == ["say one"]
    with daemon.client() as client:
        [mailbox] = client.get(f"/api/sessions/{other.session_id}/mailboxes").json()
        assert mailbox["latestSequence"] == 1
        assert client.post(path, json={**mail, "idempotencyKey": "k2"}).json()["sequence"] == 2
    one.close()
    other.close()
