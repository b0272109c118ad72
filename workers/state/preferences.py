"""What a person prefers for new sessions, and the other daemons that are known. Sessions that exist keep theirs."""

from collections.abc import Mapping

from msgspec import UNSET

from termal.bus.server import Handler, Request
from termal.rules.preferences import changed, defaults_of
from termal.wire.settings_operations import ChangePreferences
from termal.wire.turns import JsonReply
from workers.state.change import Book


class Preferences:
    def __init__(self, book: Book, environ: Mapping[str, str]) -> None:
        self._book = book
        self._environ = environ

    def table(self) -> dict[str, Handler]:
        return {"preferences.change": self.change}

    def defaults(self, agent: str) -> tuple[str | None, dict[str, str]]:
        """The model (None: the agent's own) and the settings of a new session of ``agent``."""
        return defaults_of(self._book.registry.metadata.preferences, agent, self._environ)

    def change(self, request: Request, body: ChangePreferences) -> None:
        """The handler of ``preferences.change``."""
        book = self._book
        before = book.registry.metadata.preferences
        after = changed(before, body.values, body.remotes, self._remotes_in_use())
        if after != before:
            book.registry.set_metadata(preferences=after)
            change = book.change()
            change.everything()
            change.commit()
        reply = JsonReply(book.projections.state())
        book.journal.after(lambda: request.reply(reply))

    def _remotes_in_use(self) -> set[str]:
        registry = self._book.registry
        used = {project.remote_id for project in registry.projects.values()}
        for record in registry.sessions.values():
            used |= {remote for remote in (record.session.remote_id, record.stored.remote_id) if remote is not UNSET}
        return used
