"""Which agents can be used here, looked at again at most every few seconds."""

from collections.abc import Mapping
from threading import Thread
from time import monotonic

from termal.config import Config
from termal.procs.agents import Readiness, agent_names, readiness
from termal.rules.verdicts import Bad

CACHE_S = 5.0


class Agents:
    def __init__(self, config: Config, environ: Mapping[str, str]) -> None:
        self._config = config
        self._environ = environ
        self._rows: list[Readiness] = []
        self._looked_at = 0.0
        self._looking = Thread()

    def reload(self, config: Config) -> None:
        self._config = config
        self._rows = []

    def rows(self) -> list[Readiness]:
        """One row per known agent; old ones while another look is under way, so that a slow PATH blocks nobody."""
        if not self._rows:
            self._look()
        elif self._stale and not self._looking.is_alive():
            self._looking = Thread(target=self._look, name="agents", daemon=True)
            self._looking.start()
        return self._rows

    @property
    def _stale(self) -> bool:
        return not self._rows or monotonic() - self._looked_at > CACHE_S

    def _look(self) -> None:
        config = self._config
        rows = [readiness(name, config, self._environ) for name in agent_names(config)]
        if config is self._config:
            self._rows, self._looked_at = rows, monotonic()

    def check(self, agent: str) -> None:
        """Raises `Bad` for an unknown agent, and for one that cannot be used; the text says how to install it."""
        if self._stale:
            # Whoever has just installed an agent is not to be told of the time before.
            self._look()
        for row in self._rows:
            if row.agent == agent:
                if row.blocking:
                    raise Bad(row.detail, reason="agentNotReady")
                return
        raise Bad(f"there is no agent {agent!r}", reason="unknownAgent")

    def problem(self, agent: str) -> str | None:
        """Why no turn of ``agent`` can start now, None when it can."""
        try:
            self.check(agent)
        except Bad as error:
            return error.text
        return None
