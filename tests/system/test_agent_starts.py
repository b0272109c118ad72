"""An agent that ends right after its start, in a whole daemon: parked, shown to people, mended, tried again."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from termal.cli import main as cli
from tests.support.acp_script import DONE, text
from tests.support.daemon import Daemon, Person
from tests.support.waiting import wait_until
from workers.runtime.starts import MOST_EXITS

pytestmark = [pytest.mark.system]

AGENT = str(Path(__file__).parents[1] / "support" / "acp_agent.py")


@pytest.fixture
def script(run_dir: Path) -> Path:
    return run_dir / "script.json"


@pytest.fixture
def daemon(home_dir: Path, script: Path) -> Iterator[Daemon]:
    write(script, behaviour="exits")
    home_dir.mkdir(mode=0o700)
    (home_dir / "config.toml").write_text(
        f"[agents.mine]\ncommand = {json.dumps([sys.executable, AGENT, str(script)])}\n"
    )
    with Daemon(home_dir) as running:
        yield running.start()


def write(script: Path, **more: object) -> None:
    script.write_text(json.dumps({"log": str(script.with_name("log")), **more}))


def shown(daemon: Daemon, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[str, str]:
    """State and advice of the agent, as ``termal agents`` says them."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["agents", "--home", str(daemon.home.root), "--json", *more])
    assert not ended.value.code
    row = next(row for row in json.loads(capsys.readouterr().out) if row["agent"] == "mine")
    return row["status"], row["detail"]


def test_it_is_parked_uses_nothing_up_and_works_again_after_a_retry(
    daemon: Daemon, script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with daemon.client() as http:
        assert shown(daemon, capsys)[0] == "ready"
        made = http.post("/api/sessions", json={"agent": "mine"}).json()["sessionId"]
        path = f"/api/sessions/{made}"

        def prompt() -> httpx.Response:
            return http.post(f"{path}/messages", json={"text": "go"})

        def is_parked() -> bool:
            refused = prompt()
            return refused.status_code == 409 and "--retry mine" in refused.json()["error"]

        wait_until(is_parked, "the agent to be parked", 30.0)
        before = http.get(path).json()["session"]
        assert before["status"] == "error"
        status, detail = shown(daemon, capsys)
        assert (status, "cannot read its settings" in detail, "--retry mine" in detail) == ("needsSetup", True, True)
        assert prompt().json()["code"] == "conflict"
        assert http.get(path).json()["session"]["messageCount"] == before["messageCount"]

        write(script, prompt=[text("here I am"), DONE])
        assert shown(daemon, capsys, "--retry", "mine")[0] == "ready"
        assert prompt().status_code == 202
        wait_until(
            lambda: http.get(path).json()["session"]["messages"][-1].get("text") == "here I am", "the answer", 20.0
        )
        assert http.post("/api/agents/nobody/retry").status_code == 404


def test_a_prompt_that_a_pause_refused_is_taken_under_its_key_when_the_pause_is_over(
    daemon: Daemon, script: Path
) -> None:
    who = Person(daemon, "patient", agent="mine", waits_out_pauses=True)
    try:
        # One fewer than park it: the last pause is long enough to be met.
        failing = [f"failing {number}" for number in range(MOST_EXITS - 1)]
        for words in failing:
            who.prompt(words, key=words)
            assert who.wait_idle()["status"] == "error"
        before = who.repeats
        write(script, prompt=[text("here I am"), DONE])
        assert who.prompt("working", key="working")
        assert who.repeats > before, "the pause refused it"
        session = who.wait_idle()
        assert session["status"] == "idle"
        assert [row["text"] for row in session["messages"] if row["author"] == "you"] == [*failing, "working"]
        assert session["messages"][-1]["text"] == "here I am"
    finally:
        who.close()
