"""No path outside a session's own folder is shown, and nothing that is no path is taken for one."""

import pytest

from workers.runtime.host_paths import masked

FOLDER = "/home/me/project"

CASES = [
    pytest.param("cannot read /etc/agent.conf", "cannot read [path]", id="elsewhere"),
    pytest.param("cannot read /home/me/project/a.py", "cannot read /home/me/project/a.py", id="below the folder"),
    pytest.param("in /home/me/project", "in /home/me/project", id="the folder"),
    pytest.param("in /home/me/project-2/x", "in [path]", id="a neighbour with the folder's name in its own"),
    pytest.param("/home/me/project/../../../etc/passwd", "[path]", id="out of the folder by dots"),
    pytest.param('File "/usr/lib/agent.py", line 3', 'File "[path]", line 3', id="in quotes"),
    pytest.param("at run (/opt/agent/index.js:10:3)", "at run ([path]:10:3)", id="with line and column"),
    pytest.param("--config=/root/.agent/key", "--config=[path]", id="behind an equals sign"),
    pytest.param("at file:///opt/agent/index.js", "at [path]", id="as a file address"),
    pytest.param("see https://example.org/help/start", "see https://example.org/help/start", id="a web address"),
    pytest.param("and/or, 3 / 4, ./here, src/a.py", "and/or, 3 / 4, ./here, src/a.py", id="no path"),
    pytest.param("/a and /b:/c", "[path] and [path]:[path]", id="several"),
    pytest.param("", "", id="nothing"),
]


@pytest.mark.parametrize(("said", "shown"), CASES)
def test_paths_of_the_host_are_masked(said: str, shown: str) -> None:
    assert masked(said, FOLDER) == shown


def test_a_session_in_the_root_folder_owns_every_path() -> None:
    assert masked("cannot read /etc/agent.conf", "/") == "cannot read /etc/agent.conf"
