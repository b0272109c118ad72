"""``config.toml`` of the data directory: optional, read at start and on SIGHUP, refused whole when a value is wrong."""

from pathlib import Path
from typing import Literal

import msgspec

NAME_CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."


class ConfigRefused(Exception):
    """The file is there and wrong; the text names the key and what it wants."""


class AgentConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[agents.NAME]``: an own ACP agent (``command``), or additions for a built-in one.

    ``env`` is added to the agent's environment; ``pass_env`` names variables of the daemon's own that may pass.
    ``mode`` and ``read_only_mode`` are session modes of an own ACP agent: the one to work in, and the one that keeps it
    from writing. ``trusted``: folders whose own agent settings (hooks, plugins, MCP servers) may be loaded, with all
    below them.
    """

    command: list[str] = []
    env: dict[str, str] = {}
    pass_env: list[str] = []
    mode: str | None = None
    trusted: list[str] = []
    read_only_mode: str | None = None


class WorkspaceConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[workspace]``: ``watch`` tells which files change while an agent works. ``ignore``: names of folders that are
    not looked at for that, at any depth, besides those of `termal.rules.file_changes`."""

    watch: bool = True
    ignore: list[str] = []


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``durability``: ``normal`` (a receipt survives the crash of any process) or ``full`` (and power loss)."""

    host: str = "127.0.0.1"
    port: int | None = None
    durability: Literal["normal", "full"] = "normal"
    auth: Literal["none", "token"] = "none"
    max_event_streams: int = 512
    agents: dict[str, AgentConfig] = {}
    workspace: WorkspaceConfig = WorkspaceConfig()


def read_config(file: Path) -> Config:
    """The configuration in ``file``, the defaults without one. Raises `ConfigRefused`."""
    try:
        text = file.read_text("utf-8")
    except FileNotFoundError:
        return Config()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigRefused(f"{file.name} cannot be read: {error}") from error
    import tomllib  # noqa: PLC0415 - a restarted worker without a file is up 3 ms earlier

    try:
        config = msgspec.convert(tomllib.loads(text), Config)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ConfigRefused(f"{file.name}: {error}") from error
    for name, own in config.agents.items():
        if not all(folder.startswith(("/", "~/")) for folder in own.trusted):
            raise ConfigRefused(f"{file.name}: agents.{name}.trusted: a folder must be an absolute path")
        if not name or any(character not in NAME_CHARACTERS for character in name):
            raise ConfigRefused(f"{file.name}: agents.{name}: a name has letters, digits, '-', '_' and '.' only")
    if not all(name and "/" not in name for name in config.workspace.ignore):
        raise ConfigRefused(f"{file.name}: workspace.ignore: a folder is named without the way to it")
    if config.port is not None and not 0 <= config.port <= 65535:
        raise ConfigRefused(f"{file.name}: port must be 0..65535")
    return config
