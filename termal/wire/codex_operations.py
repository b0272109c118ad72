"""What the Codex runtime worker tells `state` that belongs to no session."""

import msgspec

from termal.model.codex import CodexLimits, CodexNotice
from termal.wire.operation import write
from termal.wire.turns import Anything


class CodexNews(msgspec.Struct, frozen=True):
    """``limits``: what changed of them. ``notices``: the oldest first, without a time."""

    limits: CodexLimits = CodexLimits()
    notices: list[CodexNotice] = []


CODEX_NEWS = write("codex.news", CodexNews, Anything, repeatable=True)
"""Telling it again changes nothing."""
