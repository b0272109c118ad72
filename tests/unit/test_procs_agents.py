"""Finding agents' programs and building their environment, from files and variables alone."""

import stat
import sys
from pathlib import Path

import pytest
from msgspec import UNSET

from termal.config import AgentConfig, Config
from termal.procs.agents import agent_names, find_command, readiness
from termal.procs.environment import agent_environment

NOTHING = Config()


def program(folder: Path, name: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text("#!/bin/sh\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)


def package(folder: Path, name: str, bundled: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package that must not be imported: doing so ends the test."""
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(str(folder))
    file = Path(bundled)
    return program(folder / name / file.parent, file.name)


@pytest.mark.parametrize(
    ("agent", "name", "arguments"),
    [
        ("Gemini", "gemini", ["--acp", "--skip-trust"]),
        ("OpenCode", "opencode", ["acp"]),
        ("Cursor", "cursor-agent", ["acp"]),
        ("Claude", "claude", []),
    ],
)
def test_a_program_on_path_is_found_with_its_arguments(
    tmp_path: Path, agent: str, name: str, arguments: list[str]
) -> None:
    path = program(tmp_path, name)
    found = find_command(agent, NOTHING, {"PATH": str(tmp_path)})
    assert found is not None
    assert (found.argv, found.path, found.source) == ([path, *arguments], path, "path")


def test_the_users_setting_wins_over_path_and_is_taken_as_given(tmp_path: Path) -> None:
    program(tmp_path / "path", "gemini")
    own = program(tmp_path / "own", "gemini-next")
    config = Config(agents={"gemini": AgentConfig(command=[own, "--acp"])})
    found = find_command("Gemini", config, {"PATH": str(tmp_path / "path")})
    assert found is not None
    assert (found.argv, found.source) == ([own, "--acp"], "configured")


@pytest.mark.parametrize(
    ("agent", "name", "bundled"),
    [("Claude", "claude_agent_sdk", "_bundled/claude"), ("Codex", "codex_cli_bin", "bin/codex")],
)
def test_a_bundled_program_is_found_without_importing_its_package_and_only_when_path_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: str, name: str, bundled: str
) -> None:
    path = package(tmp_path / "site", name, bundled, monkeypatch)
    empty, full = tmp_path / "empty", tmp_path / "full"
    empty.mkdir()
    first = find_command(agent, NOTHING, {"PATH": str(empty)})
    assert first is not None
    assert (first.path, first.source) == (path, "bundled")
    preferred = program(full, Path(bundled).name)
    second = find_command(agent, NOTHING, {"PATH": str(full)})
    assert second is not None
    assert second.path == preferred


def test_the_demo_agent_is_always_there() -> None:
    found = find_command("Demo", NOTHING, {})
    assert found is not None
    assert found.argv == [sys.executable, "-P", "-m", "termal.demo_agent"]
    assert readiness("Demo", NOTHING, {}).status == "ready"


@pytest.mark.parametrize(
    ("agent", "install"),
    [
        ("Gemini", "npm i -g @google/gemini-cli"),
        ("OpenCode", "npm i -g opencode-ai"),
        ("Codex", "pip install 'termal[codex]'"),
    ],
)
def test_a_missing_agent_blocks_and_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: str, install: str
) -> None:
    for package in ("claude_agent_sdk", "codex_cli_bin"):
        monkeypatch.setitem(sys.modules, package, None)
    row = readiness(agent, NOTHING, {"PATH": str(tmp_path)})
    assert (row.status, row.blocking, row.command_path) == ("missing", True, UNSET)
    assert install in row.detail


@pytest.mark.parametrize(
    ("environ", "file", "text"),
    [
        pytest.param({}, None, None, id="nothing"),
        pytest.param({"OPENAI_API_KEY": "k"}, None, "", id="key"),
        pytest.param({}, "auth.json", "", id="signed-in"),
        pytest.param({}, "config.toml", 'model_provider = "own"\n', id="own-provider"),
    ],
)
def test_an_installed_codex_is_ready_and_says_when_nobody_has_signed_in(
    tmp_path: Path, environ: dict[str, str], file: str | None, text: str | None
) -> None:
    path = program(tmp_path, "codex")
    if file is not None:
        (tmp_path / ".codex").mkdir()
        (tmp_path / ".codex" / file).write_text(text or "{}")
    row = readiness("Codex", NOTHING, {"PATH": str(tmp_path), "HOME": str(tmp_path), **environ})
    assert (row.status, row.blocking, row.command_path) == ("ready", False, path)
    assert ("codex login" in str(row.warning_detail)) is (text is None)


def test_claude_on_path_without_its_sdk_needs_setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "claude")
    monkeypatch.setitem(sys.modules, "claude_agent_sdk", None)
    row = readiness("Claude", NOTHING, {"PATH": str(tmp_path)})
    assert (row.status, row.blocking) == ("needsSetup", True)
    assert "pip install 'termal[claude]'" in row.detail


def test_gemini_without_a_sign_in_is_ready_with_a_warning(tmp_path: Path) -> None:
    program(tmp_path, "gemini")
    environ = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    row = readiness("Gemini", NOTHING, environ)
    assert (row.status, row.blocking) == ("ready", False)
    assert "sign-in" in str(row.warning_detail)
    assert readiness("Gemini", NOTHING, {**environ, "GEMINI_API_KEY": "x"}).warning_detail is UNSET


def test_a_configured_agent_joins_the_built_in_ones_and_needs_a_program(tmp_path: Path) -> None:
    own = program(tmp_path, "mine")
    config = Config(
        agents={
            "mine": AgentConfig(command=[own, "serve"]),
            "lost": AgentConfig(command=["no-such-program"]),
            "empty": AgentConfig(),
            "codex": AgentConfig(pass_env=["KEY"]),
        }
    )
    assert agent_names(config)[-3:] == ["mine", "lost", "empty"]
    assert [readiness(name, config, {"PATH": str(tmp_path)}).status for name in ("mine", "lost", "empty")] == [
        "ready",
        "needsSetup",
        "needsSetup",
    ]


DAEMON = {
    "PATH": "/bin",
    "HOME": "/home/u",
    "LC_ALL": "C",
    "XDG_DATA_HOME": "/x",
    "GIT_SSH": "ssh",
    "https_proxy": "http://proxy",
    "SSL_CERT_FILE": "/c",
    "TERMAL_RUNTIME": "mark",
    "TERMAL_LAUNCH": "{}",
    "TERMAL_TOKEN": "secret",
    "DATABASE_URL": "secret",
    "ANTHROPIC_API_KEY": "a",
    "CLAUDE_CONFIG_DIR": "/k",
    "OPENAI_API_KEY": "o",
    "GEMINI_API_KEY": "g",
    "OPENCODE_CONFIG": "/o",
    "SCRIPTED_KEY": "s",
}
EVERYBODY = {"PATH", "HOME", "LC_ALL", "XDG_DATA_HOME", "GIT_SSH", "https_proxy", "SSL_CERT_FILE", "TERMAL_RUNTIME"}


@pytest.mark.parametrize(
    ("agent", "more"),
    [
        ("Claude", {"ANTHROPIC_API_KEY", "CLAUDE_CONFIG_DIR"}),
        ("Codex", {"OPENAI_API_KEY"}),
        ("Gemini", {"GEMINI_API_KEY", "GEMINI_CLI_NO_RELAUNCH"}),
        ("OpenCode", {"OPENCODE_CONFIG", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"}),
        ("Demo", set()),
        ("mine", set()),
    ],
)
def test_an_agent_gets_the_allowed_variables_and_its_own_families_alone(agent: str, more: set[str]) -> None:
    assert set(agent_environment(agent, NOTHING, DAEMON)) == EVERYBODY | more


def test_the_configuration_adds_values_and_names_that_may_pass() -> None:
    config = Config(
        agents={"codex": AgentConfig(env={"NAME": "value", "PATH": "/own"}, pass_env=["SCRIPTED_KEY", "NONE"])}
    )
    environment = agent_environment("Codex", config, DAEMON)
    assert (environment["NAME"], environment["PATH"], environment["SCRIPTED_KEY"]) == ("value", "/own", "s")
    assert "NONE" not in environment


@pytest.mark.parametrize("agent", ["Claude", "Codex", "Gemini", "mine"])
@pytest.mark.parametrize("mark", ["mark", None], ids=["marked", "unmarked"])
def test_no_configuration_takes_the_mark_of_the_daemon_from_an_agent(agent: str, mark: str | None) -> None:
    own = AgentConfig(env={"TERMAL_RUNTIME": "other"}, pass_env=["TERMAL_RUNTIME"])
    daemon = {name: value for name, value in {**DAEMON, "TERMAL_RUNTIME": mark}.items() if value is not None}
    environment = agent_environment(agent, Config(agents={agent: own}), daemon)
    assert environment.get("TERMAL_RUNTIME") == mark


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ('[model_providers.own]\nenv_key = "SCRIPTED_KEY"\n', True),
        ("[model_providers.own]\nenv_key = 3\n", False),
        ("model_providers = 1\n", False),
        ("not toml [", False),
        ("", False),
    ],
)
def test_codex_gets_the_keys_that_its_own_configuration_names(tmp_path: Path, text: str, passes: bool) -> None:
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "config.toml").write_text(text)
    environment = agent_environment("Codex", NOTHING, {**DAEMON, "HOME": str(tmp_path)})
    assert ("SCRIPTED_KEY" in environment) is passes
