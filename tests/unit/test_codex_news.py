"""What Codex tells beside its conversations: read, gathered, and added to what is known."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import UNSET

from termal.model.codex import CodexCredits, CodexFacts, CodexLimits, CodexNotice, CodexWindow
from termal.rules.codex_facts import NOTICES, with_limits, with_notice
from termal.wire.codex_operations import CodexNews
from workers.runtime.codex_news import LIMITS, News, limits_in, notice_in

WINDOW = {"usedPercent": 12.5, "windowDurationMins": 300, "resetsAt": 1800000000}
PRIMARY = CodexWindow(used_percent=12.5, window_duration_mins=300, resets_at=1800000000)
OLD = CodexNotice(kind="configWarning", level="warning", title="old key", detail="")


def limits(**told: Any) -> dict[str, Any]:
    empty = dict.fromkeys(("limitId", "limitName", "planType", "primary", "secondary", "credits", "other"))
    return {"rateLimits": {**empty, **told}}


@pytest.mark.parametrize(
    ("told", "found"),
    [
        (limits(primary=WINDOW), CodexLimits(primary=PRIMARY)),
        (
            limits(limitId="codex", planType="plus", credits={"hasCredits": True, "unlimited": False, "balance": None}),
            CodexLimits(limit_id="codex", plan_type="plus", credits=CodexCredits(has_credits=True, unlimited=False)),
        ),
        (limits(secondary={"usedPercent": 3}), CodexLimits(secondary=CodexWindow(used_percent=3))),
        (limits(primary={"usedPercent": "much"}, planType="pro"), CodexLimits(plan_type="pro")),
        (limits(limitId="codex_small", primary=WINDOW), None),
        (limits(), None),
        ({"rateLimits": 7}, None),
        ({}, None),
    ],
    ids=[
        "a window",
        "plan and credits",
        "no more than a percentage",
        "a wrong window",
        "another limit",
        "nothing",
        "no object",
        "no limits",
    ],
)
def test_limits_are_read_as_far_as_they_are_told(told: dict[str, Any], found: CodexLimits | None) -> None:
    assert limits_in(told) == found


@pytest.mark.parametrize(
    ("method", "params", "shown"),
    [
        ("configWarning", {"summary": " bad ", "details": "line 3", "path": "/c"}, ("warning", "bad", "line 3\n/c")),
        ("deprecationNotice", {"summary": "old", "details": None}, ("info", "old", "")),
        ("warning", {"message": "x" * 400, "threadId": None}, ("warning", "x" * 300, "")),
        ("warning", {"message": " "}, None),
        ("configWarning", {"summary": 7}, None),
    ],
    ids=["a warning", "a deprecation", "a long one", "an empty one", "no text"],
)
def test_a_notice_has_a_title_and_what_is_said_besides(
    method: str, params: dict[str, Any], shown: tuple[str, str, str] | None
) -> None:
    notice = notice_in(method, params)
    assert (None if notice is None else (notice.level, notice.title, notice.detail)) == shown


class Clock:
    """Timers that the test lets go off."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []

    def later(self, _: float, callback: Callable[[], None]) -> None:
        self.due.append(callback)

    def go(self) -> None:
        due, self.due = self.due, []
        for callback in due:
            callback()


def test_what_comes_together_is_told_together() -> None:
    clock, told = Clock(), list[CodexNews]()
    news = News(clock, told.append)
    news.told(LIMITS, limits(primary=WINDOW))
    news.told(LIMITS, limits(planType="plus"))
    for number in range(NOTICES + 1):
        news.told("warning", {"message": f"{number}"})
    news.told("warning", {"message": ""})
    assert told == []
    clock.go()
    (both,) = told
    assert both.limits == CodexLimits(primary=PRIMARY, plan_type="plus")
    assert [notice.title for notice in both.notices] == ["1", "2", "3", "4", "5"]
    assert clock.due == []
    news.told("warning", {"message": "next"})
    clock.go()
    assert told[1].limits == CodexLimits()


def test_what_an_update_leaves_out_stays() -> None:
    known = with_limits(CodexFacts(), CodexLimits(plan_type="plus", primary=PRIMARY))
    window = CodexWindow(used_percent=50)
    assert with_limits(known, CodexLimits(primary=window)).rate_limits == CodexLimits(plan_type="plus", primary=window)
    assert with_limits(known, CodexLimits()) is known
    assert with_limits(CodexFacts(), CodexLimits()).rate_limits is UNSET


def test_notices_are_kept_newest_first_each_once_and_no_more_than_some() -> None:
    facts = with_notice(CodexFacts(), OLD, "t0")
    assert with_notice(facts, OLD, "t1") is facts
    for number in range(NOTICES):
        facts = with_notice(facts, CodexNotice(kind="runtimeNotice", level="info", title=f"{number}", detail=""), "t2")
    assert facts.notices is not UNSET
    assert [notice.title for notice in facts.notices] == ["4", "3", "2", "1", "0"]
    assert facts.notices[0].timestamp == "t2"
