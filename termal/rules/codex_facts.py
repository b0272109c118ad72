"""What is kept of what Codex tells: limits that come in pieces, and the newest notices, each once."""

from msgspec import UNSET
from msgspec.structs import asdict, replace

from termal.model.codex import CodexFacts, CodexLimits, CodexNotice

NOTICES = 5


def with_limits(before: CodexFacts, update: CodexLimits) -> CodexFacts:
    """What ``update`` leaves out stays as it was last told. A window that it tells takes the place of the old one as a
    whole: when that one was to be reset may be long past."""
    known = CodexLimits() if before.rate_limits is UNSET else before.rate_limits
    changes = {name: value for name, value in asdict(update).items() if value is not UNSET}
    return replace(before, rate_limits=replace(known, **changes)) if changes else before


def with_notice(before: CodexFacts, notice: CodexNotice, now: str) -> CodexFacts:
    """A notice that is there already, whenever it came, is no news."""
    known = [] if before.notices is UNSET else before.notices
    if any(replace(one, timestamp=notice.timestamp) == notice for one in known):
        return before
    return replace(before, notices=[replace(notice, timestamp=now), *known][:NOTICES])
