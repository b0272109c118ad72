"""What Codex tells of the account and of itself, in state: for clients, for the next life, never twice."""

import json

import pytest

from termal.model.codex import CodexLimits, CodexNotice, CodexWindow
from termal.wire.codex_operations import CODEX_NEWS, CodexNews
from tests.support.state_worker import Json, StateWorker

WINDOW = CodexWindow(used_percent=12, window_duration_mins=300, resets_at=1800000000)
SHOWN = {"usedPercent": 12, "windowDurationMins": 300, "resetsAt": 1800000000}
NOTICE = CodexNotice(kind="deprecationNotice", level="info", title="old", detail="use new")


@pytest.fixture
def started(state: StateWorker) -> StateWorker:
    return state.start()


def updates(state: StateWorker) -> list[Json]:
    return [event for event in state.deltas() if event["type"] == "codexUpdated"]


def test_news_are_told_complete_and_shown_in_the_state(started: StateWorker) -> None:
    assert started.state()["codex"] == {}
    started.ask(CODEX_NEWS, CodexNews(CodexLimits(plan_type="plus", primary=WINDOW)))
    started.ask(CODEX_NEWS, CodexNews(CodexLimits(plan_type="pro"), [NOTICE]))

    first, second = updates(started)
    assert first["codex"] == {"rateLimits": {"planType": "plus", "primary": SHOWN}}
    assert second["codex"]["rateLimits"] == {"planType": "pro", "primary": SHOWN}
    (notice,) = second["codex"]["notices"]
    assert notice["timestamp"].endswith("Z")
    shown = {"kind": "deprecationNotice", "level": "info", "title": "old", "detail": "use new"}
    assert notice == {**shown, "timestamp": notice["timestamp"]}
    assert started.state()["codex"] == updates(started)[1]["codex"]
    assert started.state()["revision"] == second["revision"]


def test_what_is_told_again_is_no_news(started: StateWorker) -> None:
    for _ in range(3):
        started.ask(CODEX_NEWS, CodexNews(CodexLimits(primary=WINDOW), [NOTICE]))
    assert len(updates(started)) == 1


def test_it_is_still_known_after_a_restart_and_goes_on_from_there(started: StateWorker) -> None:
    started.ask(CODEX_NEWS, CodexNews(CodexLimits(plan_type="plus", primary=WINDOW), [NOTICE]))
    before = started.state()["codex"]
    started.kill()
    started.start("replacement")
    assert started.state()["codex"] == before
    started.ask(CODEX_NEWS, CodexNews(notices=[NOTICE]))
    assert started.state()["codex"] == before
    started.ask(CODEX_NEWS, CodexNews(CodexLimits(plan_type="pro")))
    assert started.state()["codex"]["rateLimits"] == {"planType": "pro", "primary": SHOWN}


def test_what_another_build_has_kept_is_shown_until_there_is_news(started: StateWorker) -> None:
    started.stop()
    (text,) = started.rows("SELECT value_json FROM app_state WHERE key = 'metadataState'")[0]
    strange = {**json.loads(text), "codex": {"rateLimits": {"primary": "much"}, "more": 1}}
    started.write("UPDATE app_state SET value_json = ?", (json.dumps(strange),))
    started.start()
    assert started.state()["codex"] == strange["codex"]
    started.ask(CODEX_NEWS, CodexNews(CodexLimits(plan_type="pro")))
    assert started.state()["codex"] == {"rateLimits": {"planType": "pro"}}
