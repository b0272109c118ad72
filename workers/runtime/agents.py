"""Makes the adapter of an agent. Each adapter's module is imported when it is first needed: they are slow to import."""

from typing import TYPE_CHECKING

from termal.log import Log
from workers.runtime.acp_load_times import LoadTimes
from workers.runtime.adapter import Adapter
from workers.runtime.place import Place
from workers.runtime.write_locks import IsLocked

if TYPE_CHECKING:
    from workers.runtime.codex_news import News
    from workers.runtime.codex_server import SharedCodex


class Agents:
    """``place`` is replaced when the configuration was read again; agents that run keep what they were started with."""

    def __init__(self, place: Place, log: Log, is_locked: IsLocked) -> None:
        self.place = place
        self._is_locked = is_locked
        self._log = log
        self._times = LoadTimes()
        self.codex_news: News | None = None
        """Told what Codex says beside its conversations."""
        self._shared_codex: SharedCodex | None = None

    def make(self, name: str) -> Adapter:
        """Whether the agent is on this machine its adapter's start finds out."""
        if name == "Codex":
            return self._codex()
        return self._claude() if name == "Claude" else self._acp(name)

    def _acp(self, name: str) -> Adapter:
        from workers.runtime.acp import AcpAdapter  # noqa: PLC0415 - see the module

        return AcpAdapter(name, self.place, self._times, self._log)

    def _codex(self) -> Adapter:
        from workers.runtime.codex import CodexAdapter  # noqa: PLC0415 - see the module
        from workers.runtime.codex_server import SharedCodex  # noqa: PLC0415

        if self._shared_codex is None:
            self._shared_codex = SharedCodex(lambda: self.place, self._log)
            if self.codex_news is not None:
                self._shared_codex.on_news = self.codex_news.told
        return CodexAdapter(self._shared_codex, self._log, self._is_locked)

    def _claude(self) -> Adapter:
        from workers.runtime.claude import ClaudeAdapter  # noqa: PLC0415 - see the module

        place = self.place
        return ClaudeAdapter(
            place.config,
            environ=place.environ,
            folder=place.run_dir,
            is_locked=self._is_locked,
            portable=place.portable,
        )
