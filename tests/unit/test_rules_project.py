"""Names and places of projects."""

import pytest

from termal.model.stored import Project
from termal.rules.project import project_name, same_place
from termal.rules.verdicts import Bad


@pytest.mark.parametrize(
    ("wanted", "taken", "name"),
    [
        (None, [], "app"),
        ("  ", [], "app"),
        (None, ["app"], "app 2"),
        (None, ["app", "app 2"], "app 3"),
        (None, ["app 2"], "app"),
        (" Mine ", ["app"], "Mine"),
        ("Mine", ["Mine"], "Mine 2"),
    ],
)
def test_a_name_is_the_asked_one_or_the_root_s_and_made_unique(wanted: str | None, taken: list[str], name: str) -> None:
    assert project_name(wanted, "/w/app", taken) == name


def test_a_project_of_the_file_system_s_root_has_a_name() -> None:
    assert project_name(None, "/", []) == "/"


def test_a_name_without_end_is_refused() -> None:
    with pytest.raises(Bad):
        project_name("a" * 201, "/w/app", [])


def test_a_project_is_known_by_remote_and_root() -> None:
    project = Project(id="project-a", name="a", root_path="/w")
    assert same_place([project], "local", "/w") is project
    assert same_place([project], "other", "/w") is None
    assert same_place([project], "local", "/w/a") is None
