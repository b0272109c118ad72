"""A database file that is a link: somebody else's file must never be opened as ours."""

from pathlib import Path

import pytest

from termal.home import find_home, prepare
from termal.wire.control import EXIT_REFUSED, Refused
from tests.support.control_peer import ControlPeer

OVERRIDE = {"TERMAL_ALLOW_INSECURE_STATE_PERMISSIONS": "1"}


@pytest.mark.case("S80")
@pytest.mark.parametrize("environment", [{}, OVERRIDE], ids=["as usual", "with the override"])
def test_a_link_in_place_of_the_database_is_refused(home_dir: Path, run_dir: Path, environment: dict[str, str]) -> None:
    prepare(find_home(str(home_dir)))
    elsewhere = run_dir / "elsewhere"
    elsewhere.touch(mode=0o600)
    (home_dir / "termal.sqlite").symlink_to(elsewhere)
    with ControlPeer("workers.state", home_dir, run_dir, environment=environment) as worker:
        assert worker.wait() == EXIT_REFUSED
        assert "symbolic link" in worker.said(Refused)[0].message
    assert elsewhere.read_bytes() == b""
