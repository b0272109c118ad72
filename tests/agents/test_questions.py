"""Questions and images of a Claude session, from HTTP to the model and back."""

import base64
from typing import Any

import pytest

from tests.agents.kit import Scene, require
from tests.agents.recorder import AGENT_LIMIT_S
from tests.agents.scenario import sent
from tests.agents.test_claude import PIXEL
from tests.support.daemon import Daemon
from tests.support.scripted_requests import Json
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.agents, pytest.mark.system, pytest.mark.timeout(240)]

QUESTION: Json = {
    "question": "Which color?",
    "header": "Color",
    "multiSelect": False,
    "options": [{"label": "red", "description": "warm"}, {"label": "blue", "description": "cold"}],
}


def test_a_question_and_an_image_make_their_way(scene: Scene, run_dir: Any) -> None:
    require("Claude")
    ask: Json = {"tool": "AskUserQuestion", "args": {"questions": [QUESTION]}}
    scene.model.play([{"match": "ask", "turns": [[ask], [{"text": "thank you"}]]}])
    with (
        Daemon(run_dir / "home", environment=scene.environment()) as daemon,
        daemon.start().client() as client,
    ):
        created = client.post("/api/sessions", json={"agent": "Claude", "workdir": str(scene.work)})
        path = f"/api/sessions/{created.json()['sessionId']}"
        data = base64.b64encode(PIXEL).decode()
        prompt = {"text": "ask", "attachments": [{"data": data, "mediaType": "image/png"}]}
        assert client.post(f"{path}/messages", json=prompt).status_code == 202

        def shown() -> Json:
            session: Json = client.get(path).json()["session"]
            return session

        def of(kind: str) -> list[Json]:
            return [message for message in shown()["messages"] if message["type"] == kind]

        (card,) = wait_until(lambda: of("userInputRequest"), "the question", AGENT_LIMIT_S)
        assert (shown()["status"], card["title"]) == ("approval", "Which color?")
        assert data in sent(scene)
        answers = f"{path}/user-input/{card['id']}"
        assert client.post(answers, json={"answers": {"question-1": []}}).status_code == 400
        answered = client.post(answers, json={"answers": {"question-1": ["a deep green"]}})
        assert answered.status_code == 200, answered.text
        wait_until(lambda: shown()["status"] == "idle", "the end of the turn", AGENT_LIMIT_S)
        assert of("userInputRequest")[0]["submittedAnswers"] == {"question-1": ["a deep green"]}
        assert of("text")[-1]["text"] == "thank you"
        assert "a deep green" in sent(scene)
