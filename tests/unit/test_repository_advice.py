"""What is heard of a repository, and when its own agent settings may be loaded."""

from pathlib import Path
from typing import Any

import pytest

from termal.config import AgentConfig
from termal.wire.turns import SessionSpec
from workers.runtime.repository import ADVICE_BYTES, advice, advice_files, is_trusted

NAMES = ("CLAUDE.md", "AGENTS.md")


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "repository"
    write(root, ".git/HEAD", "")
    write(tmp_path, "CLAUDE.md", "of nobody")
    return root


def test_advice_is_read_from_the_root_down_and_the_first_name_goes(repository: Path) -> None:
    top = write(repository, "AGENTS.md", "top")
    write(repository, "part/AGENTS.md", "not this one")
    part = write(repository, "part/CLAUDE.md", "part")
    write(repository, "other/CLAUDE.md", "elsewhere")
    assert advice_files(str(repository / "part"), *NAMES) == [top, part]
    text = advice(str(repository / "part"), *NAMES)
    assert text.index("\n\ntop") < text.index("\n\npart")
    assert "nobody" not in text


def test_a_folder_is_heard_with_and_without_a_repository_around_it(tmp_path: Path) -> None:
    write(tmp_path, "CLAUDE.md", "above")
    folder = tmp_path / "plain"
    own = write(folder, "CLAUDE.md", "own")
    assert advice_files(str(folder), *NAMES) == [own.resolve()]
    write(folder, ".git", "gitdir: /of/a/worktree")
    assert advice_files(str(folder), *NAMES) == [own.resolve()]
    assert advice(str(tmp_path / "nothing"), *NAMES) == ""


def test_a_link_out_of_the_repository_is_not_followed(repository: Path) -> None:
    secret = write(repository.parent, "secret", "a key")
    (repository / "CLAUDE.md").symlink_to(secret)
    (repository / "AGENTS.md").symlink_to(write(repository, "docs/advice.md", "inside"))
    assert "a key" not in advice(str(repository), *NAMES)
    assert "inside" in advice(str(repository), *NAMES)


def test_long_advice_is_cut_and_any_bytes_are_survived(repository: Path) -> None:
    (repository / "CLAUDE.md").write_bytes(b"\xff" + b"x" * (2 * ADVICE_BYTES))
    assert len(advice(str(repository), *NAMES)) < ADVICE_BYTES + 200


@pytest.mark.parametrize(
    ("folders", "more", "trusted"),
    [
        (["{root}"], {}, True),
        (["{root}/.."], {}, True),
        (["/elsewhere", "{root}/link"], {}, True),
        ([], {}, False),
        (["{root}/part"], {}, False),
        (["{root}more"], {}, False),
        (["{root}"], {"delegated": True}, False),
        (["{root}"], {"read_only": True}, False),
    ],
    ids=["itself", "above", "through a link", "none", "below", "a longer name", "delegated", "read-only"],
)
def test_only_what_the_user_named_is_trusted(
    repository: Path, folders: list[str], more: dict[str, Any], trusted: bool
) -> None:
    (repository / "link").symlink_to(repository)
    own = AgentConfig(trusted=[folder.format(root=repository) for folder in folders])
    assert is_trusted(own, SessionSpec("s", "Claude", str(repository), "m", **more)) is trusted
