"""What the Codex app-server tells of the account and of itself: gathered for a moment, then told to state."""

from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeVar

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import asdict, replace

from termal.model.codex import CodexCredits, CodexLimits, CodexNotice, CodexWindow, NoticeKind
from termal.rules.codex_facts import NOTICES
from termal.wire.codex_operations import CodexNews
from workers.runtime.json_values import valid_text

LIMITS = "account/rateLimits/updated"
METHODS = frozenset({LIMITS, "configWarning", "deprecationNotice", "warning"})
GATHER_S = 0.25
"""Many threads report the same limits at once."""
MAIN_LIMIT = "codex"
"""Limits of single models have other ids and must not pass for those of the account."""
TITLE_CHARACTERS = 300
DETAIL_CHARACTERS = 2000

Json = dict[str, Any]
T = TypeVar("T")


class Timers(Protocol):
    """Of a loop (`termal.bus.loop.Loop`)."""

    def later(self, delay_s: float, callback: Callable[[], None]) -> object: ...


class News:
    """``tell`` gets what was gathered."""

    def __init__(self, timers: Timers, tell: Callable[[CodexNews], None]) -> None:
        self._timers = timers
        self._tell = tell
        self._limits = CodexLimits()
        self._notices: list[CodexNotice] = []
        self._due = False

    def told(self, method: str, params: Json) -> None:
        """A notification of ``METHODS`` that is about no thread."""
        if method == LIMITS:
            limits = limits_in(params)
            if limits is None:
                return
            self._limits = replace(self._limits, **_known(limits))
        else:
            notice = notice_in(method, params)
            if notice is None:
                return
            self._notices = [*self._notices, notice][-NOTICES:]
        if not self._due:
            self._due = True
            self._timers.later(GATHER_S, self._send)

    def _send(self) -> None:
        self._due = False
        news = CodexNews(self._limits, self._notices)
        self._limits, self._notices = CodexLimits(), []
        self._tell(news)


def limits_in(params: Json) -> CodexLimits | None:
    """None for limits of another kind, and for what is none at all. What is null was not told."""
    told = params.get("rateLimits")
    if not isinstance(told, dict) or told.get("limitId") not in (None, MAIN_LIMIT):
        return None
    limits = CodexLimits(
        limit_id=_text(told.get("limitId")),
        limit_name=_text(told.get("limitName")),
        plan_type=_text(told.get("planType")),
        primary=_record(told.get("primary"), CodexWindow),
        secondary=_record(told.get("secondary"), CodexWindow),
        credits=_record(told.get("credits"), CodexCredits),
    )
    return limits if _known(limits) else None


def notice_in(method: str, params: Json) -> CodexNotice | None:
    """None for one without a word."""
    kinds: dict[str, tuple[NoticeKind, Literal["info", "warning"], str]] = {
        "configWarning": ("configWarning", "warning", "summary"),
        "deprecationNotice": ("deprecationNotice", "info", "summary"),
        "warning": ("runtimeNotice", "warning", "message"),
    }
    kind, level, field = kinds[method]
    title, detail = params.get(field), params.get("details")
    if not isinstance(title, str) or not title.strip():
        return None
    lines = [detail] if isinstance(detail, str) and detail else []
    if isinstance(params.get("path"), str):
        lines.append(params["path"])
    return CodexNotice(
        kind=kind,
        level=level,
        title=valid_text(title.strip()[:TITLE_CHARACTERS]),
        detail=valid_text("\n".join(lines)[:DETAIL_CHARACTERS]),
    )


def _text(value: object) -> str | UnsetType:
    return valid_text(value[:TITLE_CHARACTERS]) if isinstance(value, str) else UNSET


def _record(value: object, kind: type[T]) -> T | UnsetType:
    if not isinstance(value, dict):
        return UNSET
    try:
        return msgspec.convert({name: one for name, one in value.items() if one is not None}, kind)
    except msgspec.ValidationError:
        return UNSET


def _known(limits: CodexLimits) -> Json:
    return {name: value for name, value in asdict(limits).items() if value is not UNSET}
