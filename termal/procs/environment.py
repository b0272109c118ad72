"""The environment that an agent is started with: built from an allow-list, as every command of an agent sees it."""

from collections.abc import Mapping
from pathlib import Path

from termal.config import AgentConfig, Config
from termal.wire.launch import MARK_VARIABLE

_NAMES = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "TERM", "SSH_AUTH_SOCK", "NODE_EXTRA_CA_CERTS"}
) | {MARK_VARIABLE}
_PREFIXES = ("LC_", "XDG_", "GIT_", "SSL_CERT_")
_PROXY = "_PROXY"
_MODEL_PROVIDERS = (
    "ANTHROPIC_",
    "AWS_",
    "AZURE_",
    "CEREBRAS_",
    "DEEPSEEK_",
    "FIREWORKS_",
    "GEMINI_",
    "GOOGLE_",
    "GROQ_",
    "MISTRAL_",
    "OPENAI_",
    "OPENROUTER_",
    "TOGETHER_",
    "XAI_",
)
_FAMILIES: dict[str, tuple[str, ...]] = {
    "Claude": ("ANTHROPIC_", "CLAUDE_", "DISABLE_", "IS_SANDBOX", "AWS_", "GOOGLE_"),
    "Codex": ("OPENAI_", "CODEX_"),
    "Gemini": ("GEMINI_", "GOOGLE_"),
    "OpenCode": ("OPENCODE_", *_MODEL_PROVIDERS),
    "Cursor": ("CURSOR_",),
    "Demo": ("TERMAL_DEMO_",),
}
_ALWAYS: dict[str, dict[str, str]] = {
    # Without it the CLI is a launcher that ignores SIGTERM, with the real program as its child.
    "Gemini": {"GEMINI_CLI_NO_RELAUNCH": "true"},
}


def agent_environment(agent: str, config: Config, environ: Mapping[str, str]) -> dict[str, str]:
    """What of ``environ`` may reach ``agent``, and what the configuration adds. No credential of ours is in it.

    The mark of the daemon passes as it is, whatever the configuration says.
    """
    own = config_of(agent, config)
    families = _FAMILIES.get(agent, ())
    named = _NAMES.union(own.pass_env, _codex_keys(environ) if agent == "Codex" else ())
    passed = {name: value for name, value in environ.items() if name in named or _may_pass(name, families)}
    environment = {**passed, **_ALWAYS.get(agent, {}), **own.env}
    # The sweep finds what a daemon left behind by this mark alone.
    environment.pop(MARK_VARIABLE, None)
    if MARK_VARIABLE in environ:
        environment[MARK_VARIABLE] = environ[MARK_VARIABLE]
    return environment


def config_of(agent: str, config: Config) -> AgentConfig:
    """``[agents.NAME]``, whatever the case of NAME; the defaults without one."""
    if agent in config.agents:
        return config.agents[agent]
    return next((own for name, own in config.agents.items() if name.lower() == agent.lower()), AgentConfig())


def codex_home(environ: Mapping[str, str]) -> Path:
    """Where Codex keeps its sign-in and its configuration."""
    return Path(environ.get("CODEX_HOME") or Path(environ.get("HOME", "/")) / ".codex")


def _may_pass(name: str, families: tuple[str, ...]) -> bool:
    return name.startswith(_PREFIXES) or name.upper().endswith(_PROXY) or name.startswith(families)


def _codex_keys(environ: Mapping[str, str]) -> list[str]:
    """Variables that Codex's own configuration takes its providers' keys from."""
    import tomllib  # noqa: PLC0415 - a worker that starts no Codex need not wait for it

    folder = codex_home(environ)
    try:
        providers = tomllib.loads((folder / "config.toml").read_text("utf-8")).get("model_providers", {})
    except (OSError, ValueError):
        # No such file, or one that Codex itself will complain of.
        return []
    rows = providers.values() if isinstance(providers, dict) else ()
    keys = [row.get("env_key") for row in rows if isinstance(row, dict)]
    return [key for key in keys if isinstance(key, str)]
