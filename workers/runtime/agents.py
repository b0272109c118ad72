"""Makes the adapter of an agent. Each adapter's module is imported when it is first needed: they are slow to import."""

from termal.log import Log
from workers.runtime.acp_load_times import LoadTimes
from workers.runtime.adapter import Adapter, AgentFailed
from workers.runtime.place import Place


class Agents:
    """``place`` is replaced when the configuration was read again; agents that run keep what they were started with."""

    def __init__(self, place: Place, log: Log) -> None:
        self.place = place
        self._log = log
        self._times = LoadTimes()

    def make(self, name: str) -> Adapter:
        """Raises `AgentFailed` when there is no such agent, or not on this machine."""
        if name == "Codex":
            raise AgentFailed("Codex cannot be used in this version.")
        return self._claude() if name == "Claude" else self._acp(name)

    def _acp(self, name: str) -> Adapter:
        from workers.runtime.acp import AcpAdapter  # noqa: PLC0415 - see the module

        return AcpAdapter(name, self.place, self._times, self._log)

    def _claude(self) -> Adapter:
        from workers.runtime.claude import ClaudeAdapter  # noqa: PLC0415 - see the module

        place = self.place
        return ClaudeAdapter(
            place.config, environ=place.environ, mark=place.mark, folder=place.run_dir, portable=place.portable
        )
