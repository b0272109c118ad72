"""What config.toml may say of agents."""

from pathlib import Path

import pytest

from termal.config import ConfigRefused, read_config


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('[agents.Claude]\ntrusted = ["projects/mine"]', "agents.Claude.trusted"),
        ('[agents.Claude]\ntrusted = "/projects"', "trusted"),
        ('[agents.kimi]\nmodes = ["code"]', "modes"),
        ('[agents."ki mi"]\ncommand = ["kimi"]', "agents.ki mi"),
    ],
    ids=["a relative folder", "no list", "an unknown key", "a name with a space"],
)
def test_what_is_wrong_with_an_agent_is_named(tmp_path: Path, text: str, named: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    with pytest.raises(ConfigRefused) as refused:
        read_config(file)
    assert named in str(refused.value)


def test_an_agent_has_its_command_mode_and_trusted_folders(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[agents.kimi]\ncommand = ["kimi", "--acp"]\nmode = "code"\ntrusted = ["~/work", "/srv"]\n')
    own = read_config(file).agents["kimi"]
    assert (own.command, own.mode, own.trusted) == (["kimi", "--acp"], "code", ["~/work", "/srv"])
