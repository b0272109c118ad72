"""Every real agent in a session of the running daemon, seen from outside: over HTTP, and killed by its process id."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from termal.rules.settings import runtime_of
from tests.agents.events import Events
from tests.agents.kit import Scene, require, shell
from tests.agents.recorder import AGENT_LIMIT_S
from tests.agents.scenario import sent
from tests.support.daemon import Daemon, Person
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.agents, pytest.mark.system, pytest.mark.timeout(240)]

AGENTS = ("Claude", "Codex", "Gemini", "OpenCode")
RESUME_LIMIT_S = 100.0
"""Gemini's stored conversation may be loaded in the next minute of the clock only."""
CUT_OFF = [
    {"match": "again$", "turns": [[{"text": "I remember"}]]},
    {"match": "remember blue$", "turns": [[{"text": "noted"}]]},
    {"match": "hold$", "turns": [[{"text": "working"}, {"gate": "go"}]]},
]
"""A turn that does not end by itself, after one and before one."""


@pytest.fixture(params=AGENTS)
def agent(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    require(name)
    return name


@pytest.fixture
def daemon(scene: Scene, agent: str, run_dir: Path) -> Iterator[Daemon]:
    with Daemon(run_dir / "home", environment=scene.environment()) as running:
        yield running.start()


class User(Person):
    """A person with a session of one agent."""

    def __init__(self, daemon: Daemon, scene: Scene, agent: str) -> None:
        super().__init__(daemon, f"with-{agent}", agent=agent, workdir=scene.work)
        self.agent = agent
        self._runtime = runtime_of(agent)

    def __enter__(self) -> "User":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def finish(self, text: str, limit_s: float = AGENT_LIMIT_S) -> dict[str, Any]:
        """Send a prompt, wait for the end of its turn, and return the session."""
        self.prompt(text, key=text)
        return self.wait_idle(limit_s)

    def stop(self) -> None:
        self._post("stop", None)

    def answer(self, message_id: str, decision: str) -> None:
        self._post(f"approvals/{message_id}", {"decision": decision})

    def wait_text(self, text: str) -> None:
        wait_until(lambda: text in self.said(), f"{text!r} in the transcript", AGENT_LIMIT_S)

    def said(self) -> str:
        """All text of the assistant."""
        messages = self.read()["messages"]
        return "\n".join(row["text"] for row in messages if row["type"] == "text" and row["author"] == "assistant")

    def message(self, kind: str) -> dict[str, Any]:
        return wait_until(
            lambda: next((row for row in self.read()["messages"] if row["type"] == kind), None),
            f"a message of type {kind}",
            AGENT_LIMIT_S,
        )

    def agent_process(self) -> psutil.Process:
        """The agent's own process, which is the one below its shim."""
        runtime = psutil.Process(self._daemon.pid_of(self._runtime))
        (shim,) = runtime.children()
        (process,) = shim.children()
        return process

    def kill_agent(self) -> None:
        self.agent_process().kill()

    def kill_runtime(self) -> None:
        self._daemon.kill(self._runtime)

    def _post(self, action: str, body: dict[str, Any] | None) -> None:
        answer = self._http.post(f"/api/sessions/{self.session_id}/{action}", json=body)
        assert answer.is_success, answer.text


def test_an_answer_is_streamed_to_every_listener_and_kept(scene: Scene, daemon: Daemon, agent: str) -> None:
    scene.model.play([{"match": "say hi$", "turns": [[{"text": ["Hel", "lo", "."]}]]}])
    with Events(daemon.url) as events, User(daemon, scene, agent) as user:
        session = user.finish("say hi")
        assert session["status"] == "idle"
        said = user.said()
        if agent == "Codex":  # It warns of a model that it does not know.
            said = said.splitlines()[-1]
        assert said == "Hello."
        assert session["preview"] == "Hello."
        assert session["externalSessionId"]
        wait_until(lambda: events.deltas("textDelta", user.session_id), "pieces of text in the event stream")
        prompt = user.transcript()[0]
        assert (prompt["author"], prompt["text"]) == ("you", "say hi")


def test_a_stopped_turn_keeps_its_text_and_the_session_goes_on(scene: Scene, daemon: Daemon, agent: str) -> None:
    scene.model.play(
        [
            {"match": "and now$", "turns": [[{"text": "second"}]]},
            {"match": "hold$", "turns": [[{"text": "first"}, {"gate": "go"}, {"text": " too late"}]]},
        ]
    )
    with User(daemon, scene, agent) as user:
        user.prompt("hold", key="hold")
        user.wait_text("first")
        user.stop()
        assert user.read()["status"] == "idle"
        assert "Stopped by the user." in user.said()
        scene.model.gate("go").opened.set()
        assert user.finish("and now", RESUME_LIMIT_S)["status"] == "idle"
        assert "second" in user.said()
        assert "too late" not in user.said()


def test_a_killed_agent_fails_its_turn_and_its_successor_remembers(scene: Scene, daemon: Daemon, agent: str) -> None:
    scene.model.play(CUT_OFF)
    with User(daemon, scene, agent) as user:
        before = user.finish("remember blue")
        user.prompt("hold", key="hold")
        user.wait_text("working")
        user.kill_agent()
        assert user.wait_idle()["status"] == "error"
        assert f"Turn failed: the {agent} process ended" in user.said()
        scene.model.gate("go").opened.set()
        after = user.finish("again", RESUME_LIMIT_S)
        assert after["status"] == "idle"
        assert after["externalSessionId"] == before["externalSessionId"]
        assert "I remember" in user.said()
        assert "remember blue" in sent(scene)
        assert "noted" in sent(scene)


def test_a_killed_runtime_worker_takes_its_agents_along_and_is_replaced(
    scene: Scene, daemon: Daemon, agent: str
) -> None:
    scene.model.play(
        [
            {"match": "again$", "turns": [[{"text": "I remember"}]]},
            {"match": "hold$", "turns": [[{"text": "working"}, {"gate": "go"}]]},
        ]
    )
    with User(daemon, scene, agent) as user:
        user.prompt("hold", key="hold")
        user.wait_text("working")
        process = user.agent_process()
        user.kill_runtime()
        wait_until(lambda: not process.is_running(), "the end of the agent")
        assert user.wait_idle()["status"] == "error"
        scene.model.gate("go").opened.set()
        assert user.finish("again", RESUME_LIMIT_S)["status"] == "idle"
        assert "I remember" in user.said()


@pytest.mark.parametrize("decision", ["accepted", "rejected"])
def test_a_command_waits_for_the_decision_of_a_person(scene: Scene, daemon: Daemon, agent: str, decision: str) -> None:
    made = scene.work / "made.txt"
    scene.model.play([{"match": "run it$", "turns": [[shell("echo one > made.txt")], [{"text": "after"}]]}])
    with User(daemon, scene, agent) as user:
        user.prompt("run it", key="run")
        card = user.message("approval")
        assert user.read()["status"] == "approval"
        assert not made.exists()
        user.answer(card["id"], decision)
        assert user.wait_idle(AGENT_LIMIT_S)["status"] == "idle"
        assert made.exists() is (decision == "accepted")
        assert user.message("approval")["decision"] == decision
        assert user.message("command")["status"] == ("success" if decision == "accepted" else "error")


def test_a_provider_that_refuses_ends_in_an_error_that_names_it(scene: Scene, daemon: Daemon, agent: str) -> None:
    refusal = {"status": 400, "type": "invalid_request_error", "message": "scripted refusal"}
    scene.model.play([{"match": "bad$", "turns": [[{"error": refusal}]]}])
    with User(daemon, scene, agent) as user:
        assert user.finish("bad")["status"] == "error"
        assert "scripted refusal" in user.said()


def test_the_transcript_holds_a_whole_turn_message_by_message(scene: Scene, daemon: Daemon, agent: str) -> None:
    made = scene.work / "made"
    steps = [[{"text": "before"}, shell("mkdir made && echo said")], [{"text": "after"}]]
    scene.model.play([{"match": "do it$", "turns": steps}])
    with User(daemon, scene, agent) as user:
        user.prompt("do it", key="do")
        user.answer(user.message("approval")["id"], "accepted")
        assert user.wait_idle(AGENT_LIMIT_S)["status"] == "idle"
        # A list of changed files may follow the turn; Codex warns of a model that it does not know.
        kept = [row for row in user.transcript() if row["type"] != "fileChanges"]
        prompt, *rows = [row for row in kept if "metadata for" not in str(row.get("text"))]
        assert (prompt["type"], prompt["author"], prompt["text"]) == ("text", "you", "do it")
        assert [row["type"] for row in rows] == ["text", "command", "approval", "text"], rows
        assert {row["author"] for row in rows} == {"assistant"}
        assert [row["text"] for row in rows if row["type"] == "text"] == ["before", "after"]
        (command,) = [row for row in rows if row["type"] == "command"]
        (asked,) = [row for row in rows if row["type"] == "approval"]
        assert (command["status"], asked["decision"]) == ("success", "accepted")
        assert "mkdir made" in command["command"]
        if agent != "Gemini":  # it keeps the output of commands to itself
            assert "said" in command["output"]
        assert made.is_dir()


def test_the_death_of_the_whole_daemon_fails_the_turn_and_the_next_one_remembers(
    scene: Scene, daemon: Daemon, agent: str
) -> None:
    scene.model.play(CUT_OFF)
    with User(daemon, scene, agent) as user:
        before = user.finish("remember blue")
        user.prompt("hold", key="hold")
        user.wait_text("working")
        process = user.agent_process()
        tree = [process, *process.children(recursive=True)]
        daemon.kill_supervisor()
        wait_until(lambda: not any(map(runs, tree)), "the end of the agent", AGENT_LIMIT_S)
        scene.model.gate("go").opened.set()
        daemon.start()
        user.reconnect()
        session = user.read()
        assert session["status"] == "error"
        # Whichever died first: the worker that stores the death of an agent, or the agent.
        assert any(word in user.said() for word in ("TermAl restarted during this turn", f"the {agent} process ended"))
        assert "working" in user.said()
        after = user.finish("again", RESUME_LIMIT_S)
        assert (after["status"], after["externalSessionId"]) == ("idle", before["externalSessionId"])
        assert "I remember" in user.said()
        assert "remember blue" in sent(scene)
        assert "noted" in sent(scene)


def runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
