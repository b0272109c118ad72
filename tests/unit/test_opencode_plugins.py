"""Which folders hold code that OpenCode would run at its start."""

from pathlib import Path

import pytest

from workers.runtime import opencode_plugins
from workers.runtime.opencode_plugins import plugin_in

FOUND = [
    pytest.param(".opencode/plugin/evil.js", "", id="a-plugin"),
    pytest.param(".opencode/plugins/evil.ts", "", id="a-plugin-of-the-other-folder"),
    pytest.param("opencode.json", '{"plugin": ["./evil.js"]}', id="named-by-the-settings"),
    pytest.param("opencode.jsonc", '{"\\u0070lugin": ["x"]}', id="named-behind-an-escape"),
    pytest.param(".opencode/opencode.json", '{"plugins": ["x"]}', id="named-by-inner-settings"),
    pytest.param("opencode.json", " " * ((1 << 20) + 1), id="too-long-to-be-read"),
]
NOTHING = [
    pytest.param(".opencode/agent/careful.md", "", id="an-agent"),
    pytest.param(".opencode/plugin/README.md", "", id="no-code"),
    pytest.param("opencode.json", '{"permission": {"edit": "allow"}}', id="settings-without-plugins"),
    pytest.param("plugin/evil.js", "", id="a-folder-of-the-project"),
]


def tree(root: Path, name: str, text: str) -> Path:
    """A working tree with one file; a folder deep in it."""
    (root / ".git").mkdir()
    folder = root / "packages" / "one"
    folder.mkdir(parents=True)
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    return folder


@pytest.mark.parametrize(("name", "text"), FOUND)
def test_what_runs_is_found_from_deep_in_the_tree(tmp_path: Path, name: str, text: str) -> None:
    assert plugin_in(str(tree(tmp_path, name, text))) == name


@pytest.mark.parametrize(("name", "text"), NOTHING)
def test_what_does_not_run_is_none(tmp_path: Path, name: str, text: str) -> None:
    assert plugin_in(str(tree(tmp_path, name, text))) == ""


def test_what_lies_above_the_tree_is_not_the_repositorys(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    folder = tree(inner, "kept", "")
    outer = tmp_path / ".opencode" / "plugin"
    outer.mkdir(parents=True)
    (outer / "own.js").touch()
    assert plugin_in(str(folder)) == ""


@pytest.fixture
def no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the folder for temporary files lies in a repository."""
    monkeypatch.setattr(opencode_plugins, "working_tree", lambda folder: folder)


@pytest.mark.usefixtures("no_git")
def test_without_git_everything_above_the_folder_counts(tmp_path: Path) -> None:
    folder = tmp_path / "project" / "packages" / "one"
    folder.mkdir(parents=True)
    plugin = tmp_path / "project" / ".opencode" / "plugin" / "evil.js"
    plugin.parent.mkdir(parents=True)
    plugin.touch()
    assert plugin_in(str(folder), str(tmp_path / "home")) == str(plugin)
    assert plugin_in(str(tmp_path / "project")) == ".opencode/plugin/evil.js"


@pytest.mark.usefixtures("no_git")
def test_without_git_what_lies_in_the_users_home_is_the_users_own(tmp_path: Path) -> None:
    home = tmp_path / "home"
    folder = home / "project" / "one"
    folder.mkdir(parents=True)
    (tmp_path / "link").symlink_to(home)
    for place in (home, tmp_path):
        (place / ".opencode" / "plugin").mkdir(parents=True)
    (home / ".opencode" / "plugin" / "own.js").touch()
    assert plugin_in(str(folder), str(home)) == ""
    assert plugin_in(str(folder), str(tmp_path / "link")) == ""
    assert plugin_in(str(folder), str(home / "project")) == str(home / ".opencode" / "plugin" / "own.js")
    assert plugin_in(str(home), str(home)) == ".opencode/plugin/own.js"
    other = tmp_path / ".opencode" / "plugin" / "others.js"
    other.touch()
    assert plugin_in(str(folder), str(home)) == str(other)
