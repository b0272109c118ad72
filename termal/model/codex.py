"""What Codex tells of the account and of itself, for all of its sessions: as stored and as clients get it."""

from typing import Literal

from msgspec import UNSET, UnsetType

from termal.model.message import Record

NoticeKind = Literal["configWarning", "deprecationNotice", "runtimeNotice"]


class CodexWindow(Record, frozen=True):
    """A limit over a span of time. ``resets_at``: seconds since 1970."""

    used_percent: float | UnsetType = UNSET
    window_duration_mins: int | UnsetType = UNSET
    resets_at: int | UnsetType = UNSET


class CodexCredits(Record, frozen=True):
    has_credits: bool | UnsetType = UNSET
    unlimited: bool | UnsetType = UNSET
    balance: str | UnsetType = UNSET


class CodexLimits(Record, frozen=True):
    limit_id: str | UnsetType = UNSET
    limit_name: str | UnsetType = UNSET
    plan_type: str | UnsetType = UNSET
    primary: CodexWindow | UnsetType = UNSET
    secondary: CodexWindow | UnsetType = UNSET
    credits: CodexCredits | UnsetType = UNSET


class CodexNotice(Record, frozen=True):
    """``timestamp`` is empty until it is kept."""

    kind: NoticeKind
    level: Literal["info", "warning"]
    title: str
    detail: str
    timestamp: str = ""
    code: str | UnsetType = UNSET


class CodexFacts(Record, frozen=True):
    """``notices``: the newest first."""

    rate_limits: CodexLimits | UnsetType = UNSET
    notices: list[CodexNotice] | UnsetType = UNSET
