"""What Codex tells of the account and of itself: kept with the global metadata, told to clients as a whole."""

from collections.abc import Mapping

import msgspec
from msgspec import UNSET

from termal.bus.server import Handler, Request
from termal.model import delta
from termal.model.codex import CodexFacts
from termal.rules.codex_facts import with_limits, with_notice
from termal.wire.codex_operations import CODEX_NEWS, CodexNews
from termal.wire.turns import Anything
from workers.state.change import Book
from workers.state.clock import now_text

CODEX_OPERATIONS = (CODEX_NEWS.name,)


class CodexAccount:
    def __init__(self, book: Book) -> None:
        self._book = book

    def table(self) -> Mapping[str, Handler]:
        return {CODEX_NEWS.name: self._news}

    def _news(self, request: Request, body: CodexNews) -> None:
        """The handler of ``codex.news``."""
        known = _kept(self._book.registry.metadata.codex)
        facts = with_limits(known, body.limits)
        for notice in body.notices:
            facts = with_notice(facts, notice, now_text())
        if facts != known:
            self._book.registry.set_metadata(codex=facts)
            change = self._book.change()
            change.tell(lambda revision: delta.CodexUpdated(revision=revision, codex=facts))
            change.commit()
        self._book.journal.stored(lambda: request.reply(Anything()))


def _kept(stored: object) -> CodexFacts:
    """What another build has kept may have another shape: then it is told anew."""
    if isinstance(stored, CodexFacts):
        return stored
    if stored is UNSET:
        return CodexFacts()
    try:
        return msgspec.convert(stored, CodexFacts)
    except msgspec.ValidationError:
        return CodexFacts()
