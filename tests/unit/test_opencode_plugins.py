"""Which folders hold code that OpenCode would run at its start."""

from pathlib import Path

import pytest

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
