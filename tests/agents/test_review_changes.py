"""The command for a review by two agents, carried out to the letter by a real agent on a real daemon."""

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.agents.kit import Scene, require
from tests.agents.recorder import AGENT_LIMIT_S
from tests.agents.test_bridge_tools import User
from tests.agents.test_codex_bridge import REVIEW
from tests.support.daemon import Daemon
from tests.support.scripted_requests import Ask, Json
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.agents, pytest.mark.system, pytest.mark.timeout(300)]

TEMPLATE = Path(__file__).resolve().parents[2] / "deploy/commands/review-changes.md"
BEGINS = "Review the uncommitted changes of this repository with two delegated reviewers."
TASK = "TASK OF A REVIEWER: "
SPAWN, RESUME = "termal_spawn_session", "termal_resume_after_delegations"


class Reader:
    """A model that does what the command's text says, step by step, with the words and names that stand in it.

    It knows nothing of the command but how its steps are numbered; ``called`` are the tools that it has called.
    """

    def __init__(self) -> None:
        self.called: list[tuple[str, Json]] = []
        self.said: list[str] = []
        self._lock = threading.Lock()

    def __call__(self, ask: Ask) -> list[Json] | None:
        if BEGINS not in str(ask.body) or not ask.tools:
            return None
        with self._lock:
            part: Json = self._follow(ask) if ask.user.startswith(BEGINS) else {"text": "merged"}
            if "tool" in part:
                self.called.append((part["tool"].removeprefix("~"), part["args"]))
            else:
                self.said.append(part["text"])
        return [part]

    def _follow(self, ask: Ask) -> Json:
        steps = dict(re.findall(r"^(\d)\. (.*?)(?=^\d\. |\Z)", ask.user, re.MULTILINE | re.DOTALL))
        wanted = re.findall(r"`(termal_\w+)`", steps["1"])
        missing = [name for name in wanted if not any(tool.endswith(name) for tool in ask.tools)]
        if missing:
            return {"text": f"missing: {' '.join(missing)}"}
        [spawn] = re.findall(r"Call `(termal_\w+)` twice", steps["2"])
        agents = re.findall(r"agent `(\w+)`", steps["2"])
        if ask.turn < len(agents):
            fields = dict(re.findall(r"(mode|writePolicy) `(\w+)`", steps["2"]))
            task = TASK + steps["2"].partition("same task: ")[2].strip()
            return {"tool": f"~{spawn}", "args": {**fields, "agent": agents[ask.turn], "prompt": task}}
        made = list(dict.fromkeys(re.findall(r'"delegationId\\*": ?\\*"([\w-]+)', json.dumps(ask.body))))
        [resume] = re.findall(r"Call `(termal_\w+)` once", steps["3"])
        [mode] = re.findall(r"mode `(\w+)`", steps["3"])
        if ask.turn == len(agents) and made:
            return {"tool": f"~{resume}", "args": {"delegationIds": made, "mode": mode}}
        return {"text": "the turn ends"}


@pytest.fixture(autouse=True)
def _required() -> None:
    for name in ("Claude", "Codex", "Gemini"):
        require(name)


@pytest.fixture
def reader(scene: Scene) -> Reader:
    reader = Reader()
    scene.model.read_by(reader)
    hand_in = [[{"tool": "~termal_submit_review_result", "args": REVIEW}], [{"text": "handed in"}]]
    scene.model.play([{"match": TASK, "turns": hand_in}])
    commands = scene.work / ".claude" / "commands"
    commands.mkdir(parents=True)
    (commands / TEMPLATE.name).write_bytes(TEMPLATE.read_bytes())
    return reader


@pytest.fixture
def daemon(scene: Scene, run_dir: Path) -> Iterator[Daemon]:
    with Daemon(run_dir / "home", environment=scene.environment()) as daemon:
        yield daemon.start()


def expanded(http: httpx.Client, session_id: str) -> str:
    """What the command becomes in that session, by the daemon's own resolver."""
    path = f"/api/sessions/{session_id}/agent-commands/review-changes/resolve"
    reply = http.post(path, json={"arguments": "Mind the parser."})
    assert reply.status_code == 200, reply.text
    text: str = reply.json()["expandedPrompt"]
    assert "Mind the parser." in text
    return text


def reviews(http: httpx.Client, session_id: str) -> list[Json]:
    rows: list[Json] = http.get(f"/api/sessions/{session_id}/delegations").json()["delegations"]
    return [row for row in rows if row["mode"] == "reviewer"]


@pytest.mark.case("B69")
def test_both_reviewers_are_spawned_and_waited_for_once_without_polling(
    scene: Scene, daemon: Daemon, reader: Reader
) -> None:
    lead = User(daemon, "lead", agent="Claude", workdir=scene.work)
    try:
        with daemon.client() as http:
            lead.tell(expanded(http, lead.session_id))
            rows = reviews(http, lead.session_id)
            assert sorted((row["agent"], row["writePolicy"]["kind"]) for row in rows) == [
                ("Claude", "readOnly"),
                ("Codex", "readOnly"),
            ]
            ids = {row["id"] for row in rows}
            assert [name for name, _ in reader.called] == [SPAWN, SPAWN, RESUME]
            assert (set(reader.called[2][1]["delegationIds"]), reader.called[2][1]["mode"]) == (ids, "all")
            wait_until(lambda: "merged" in reader.said, "the lead to be resumed", 3 * AGENT_LIMIT_S)
            lead.over("the turn with the results")
            rows = reviews(http, lead.session_id)
            assert [row["status"] for row in rows] == ["completed", "completed"]
            resumed = [
                message["text"]
                for message in lead.read()["messages"]
                if message["type"] == "text" and message["author"] == "you" and not message["text"].startswith(BEGINS)
            ]
            assert [all(one in text for one in ids) for text in resumed] == [True]
            assert [name for name, _ in reader.called] == [SPAWN, SPAWN, RESUME]
    finally:
        lead.close()


@pytest.mark.case("B69")
def test_the_other_reviewer_alone_is_waited_for_when_one_is_refused(
    scene: Scene, daemon: Daemon, reader: Reader
) -> None:
    lead = User(daemon, "lead", agent="Claude", workdir=scene.work)
    try:
        with daemon.client() as http:
            for _ in range(3):
                task = {"prompt": "wait 300", "agent": "Demo", "mode": "explorer"}
                busy = http.post(f"/api/sessions/{lead.session_id}/delegations", json=task)
                assert busy.status_code == 201, busy.text
            lead.tell(expanded(http, lead.session_id))
            (row,) = reviews(http, lead.session_id)
            assert row["agent"] == "Codex"
            assert [name for name, _ in reader.called] == [SPAWN, SPAWN, RESUME]
            assert reader.called[2][1] == {"delegationIds": [row["id"]], "mode": "all"}
            wait_until(lambda: "merged" in reader.said, "the lead to be resumed", 3 * AGENT_LIMIT_S)
            lead.over("the turn with the result")
    finally:
        lead.close()


@pytest.mark.case("B69")
def test_it_stops_and_names_the_tools_where_they_are_absent(scene: Scene, daemon: Daemon, reader: Reader) -> None:
    """In its plan mode Gemini offers its model no tool of any server."""
    lead = User(daemon, "lead", agent="Gemini", workdir=scene.work)
    try:
        with daemon.client() as http:
            own = f"/api/sessions/{lead.session_id}"
            assert http.post(f"{own}/settings", json={"geminiApprovalMode": "plan"}).status_code == 200
            lead.tell(expanded(http, lead.session_id))
            assert (reader.said, reader.called) == ([f"missing: {SPAWN} {RESUME}"], [])
            assert reader.said[0] in str(lead.read()["messages"][-1])
            assert http.get(f"{own}/delegations").json()["delegations"] == []
            assert [entry["turn"] for entry in scene.model.asked() if entry["tools"]] == [0]
    finally:
        lead.close()
