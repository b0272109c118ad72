"""OpenCode tells its modes and efforts, and the session shows what it offers and what it works by."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.agents.kit import Scene, require
from tests.support.daemon import Daemon, Person

pytestmark = [pytest.mark.agents, pytest.mark.system, pytest.mark.timeout(180)]

VARIANTS = {"reasoning": True, "variants": {"low": {"reasoningEffort": "low"}, "high": {"reasoningEffort": "high"}}}


def environment(scene: Scene) -> dict[str, str]:
    """As for every test, with a second model that has efforts."""
    whole = scene.environment()
    config = msgspec.json.decode(whole["OPENCODE_CONFIG_CONTENT"])
    config["provider"]["scripted"]["models"]["scripted-2"] = VARIANTS
    return {**whole, "OPENCODE_CONFIG_CONTENT": msgspec.json.encode(config).decode()}


def offered(session: dict[str, Any], key: str) -> set[str]:
    return {option["value"] for option in session.get(key, [])}


def test_modes_and_efforts_are_shown_and_follow_every_change(scene: Scene, run_dir: Path) -> None:
    require("OpenCode")
    scene.model.play([{"match": "hello$", "turns": [[{"text": "hi"}]]}])
    with Daemon(run_dir / "home", environment=environment(scene)) as daemon:
        daemon.start()
        person = Person(daemon, "OpenCode", agent="OpenCode", workdir=scene.work)
        path = f"/api/sessions/{person.session_id}"
        with daemon.client(60) as http:
            assert http.post(f"{path}/model-options/refresh").status_code == 200
            before = person.read()
            assert {"build", "plan"} <= offered(before, "opencodeModeOptions")
            assert before["opencodeCurrentMode"] == "build"
            assert (before["opencodeMode"], offered(before, "opencodeEffortOptions")) == ("auto", set())

            assert http.post(f"{path}/settings", json={"opencodeMode": "plan"}).status_code == 200
            assert person.read()["opencodeCurrentMode"] == "plan"
            refused = http.post(f"{path}/settings", json={"opencodeMode": "none-such"})
            assert (refused.status_code, refused.json()["reason"]) == (409, "notOffered")

            assert http.post(f"{path}/settings", json={"model": "scripted/scripted-2"}).status_code == 200
            assert {"low", "high"} <= offered(person.read(), "opencodeEffortOptions")
            assert http.post(f"{path}/settings", json={"opencodeEffort": "high"}).status_code == 200
            person.prompt("hello", key="first")
            after = person.wait_idle(60.0)
            assert after["status"] == "idle"
            assert (after["opencodeCurrentMode"], after["opencodeCurrentEffort"]) == ("plan", "high")
        person.close()
