"""What config.toml may say of the files that change while agents work."""

from pathlib import Path

import pytest

from termal.config import ConfigRefused, WorkspaceConfig, read_config


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('[workspace]\nwatch = "yes"', "workspace.watch"),
        ('[workspace]\nignore = "out"', "workspace.ignore"),
        ('[workspace]\nignore = ["build/out"]', "workspace.ignore"),
        ('[workspace]\nignore = [""]', "workspace.ignore"),
        ("[workspace]\nroots = []", "roots"),
    ],
    ids=["no switch", "no list", "a way instead of a name", "an empty name", "an unknown key"],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, named: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    with pytest.raises(ConfigRefused) as refused:
        read_config(file)
    assert named in str(refused.value)


def test_files_are_watched_unless_the_file_says_otherwise(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    assert read_config(file).workspace == WorkspaceConfig(watch=True, ignore=[])
    file.write_text('[workspace]\nwatch = false\nignore = ["out", ".build"]\n')
    assert read_config(file).workspace == WorkspaceConfig(watch=False, ignore=["out", ".build"])
