"""The private files that the SDK of Claude Code is given: a launcher, and the descriptors of MCP servers.

The SDK starts its program by a path and lays variables over the worker's own environment. The launcher puts the
process below the shim and takes away what must not pass. Secrets go into a file: a command line is open to everyone.
"""

import json
import os
import re
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path

from termal.bridge.descriptor import claude_config
from termal.procs.agent import write_shim_launcher
from termal.wire.turns import McpServer

_NAME = re.compile(r"\.?claude-[0-9a-f]{32}(\.json|\.md)?(\.\d+)?")
_SET_BY_SDK = frozenset({"PWD", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_AGENT_SDK_VERSION"})


def sweep(folder: Path) -> int:
    """Remove what a killed worker left in ``folder``, tokens of MCP servers among it; how many files that were."""
    left = [path for path in folder.iterdir() if _NAME.fullmatch(path.name)]
    for path in left:
        path.unlink(missing_ok=True)
    return len(left)


class PrivateFiles:
    """The files of one process, in a folder that only the user can read. `remove` is repeatable."""

    def __init__(self, folder: Path) -> None:
        name = uuid.uuid4().hex
        self._launcher = folder / f"claude-{name}"
        self._servers = folder / f"claude-{name}.json"
        self._advice = folder / f"claude-{name}.md"

    def write_launcher(
        self,
        command: list[str],
        *,
        inherited: Mapping[str, str],
        environment: Mapping[str, str],
        portable: bool = False,
    ) -> Path:
        """What the SDK runs in the agent's place. Of ``inherited`` only what ``environment`` has as well arrives."""
        unwanted = sorted(set(inherited) - set(environment) - _SET_BY_SDK)
        cleaner = shutil.which("env") if unwanted else None
        prefix = [cleaner, *(word for name in unwanted for word in ("-u", name))] if cleaner else []
        return write_shim_launcher(self._launcher, [*prefix, *command], portable=portable)

    def write_servers(self, servers: list[McpServer]) -> Path | None:
        """The descriptors of the MCP servers, None without any."""
        if not servers:
            return None
        self.remove_servers()
        fd = os.open(self._servers, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            json.dump(claude_config(servers), file)
        return self._servers

    def write_advice(self, text: str) -> Path | None:
        """What the repository says to the model, None when it says nothing. A command line has too little room."""
        if not text:
            return None
        self._advice.write_text(text, "utf-8")
        return self._advice

    def remove_launcher(self) -> None:
        """The process runs: it needs the launcher no more, and has read the advice."""
        self._launcher.unlink(missing_ok=True)
        self._advice.unlink(missing_ok=True)

    def remove_servers(self) -> None:
        """The agent has read the file and started the servers."""
        self._servers.unlink(missing_ok=True)

    def remove(self) -> None:
        self.remove_launcher()
        self.remove_servers()
