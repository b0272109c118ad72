"""One live process serves a role: the lock that is taken before the bind."""

import os
import stat
from pathlib import Path

import pytest

from termal.bus.sockets import RoleLock, RoleTaken
from termal.wire.coordination_operations import COORDINATION_PING
from termal.wire.turns import Anything
from tests.component.conftest import MakeBus, Spawn
from tests.support.bus import BusThread

ROLE = "state"


def test_a_second_server_of_a_role_is_refused_and_the_first_one_goes_on(make_bus: MakeBus) -> None:
    bus, other = make_bus("poll"), make_bus("poll")
    bus.server(ROLE, {"coordination.ping": lambda request, _: request.reply(Anything())})
    with pytest.raises(RoleTaken, match="another process serves state"):
        other.server(ROLE, {})
    assert other.ask(other.client(ROLE), COORDINATION_PING, Anything()) == Anything()


def test_a_role_that_another_process_serves_is_refused_until_that_process_is_killed(
    bus: BusThread, spawn: Spawn
) -> None:
    owner = spawn(ROLE)
    assert spawn(ROLE).said == "taken"
    with pytest.raises(RoleTaken):
        bus.server(ROLE, {})
    owner.kill()
    assert spawn(ROLE).said == "ready"


def test_a_role_is_free_once_its_server_is_closed(make_bus: MakeBus) -> None:
    bus = make_bus("poll")
    client = bus.client(ROLE)
    for _ in range(3):
        server = bus.server(ROLE, {"coordination.ping": lambda request, _: request.reply(Anything())})
        assert bus.ask(client, COORDINATION_PING, Anything()) == Anything()
        bus.run(server.close)


def test_the_lock_is_private_and_follows_no_link(run_dir: Path) -> None:
    lock = RoleLock(run_dir, ROLE)
    assert stat.S_IMODE((run_dir / "state.lock").stat().st_mode) == 0o600
    lock.release()
    lock.release()
    (run_dir / "elsewhere").touch()
    (run_dir / "wake.lock").symlink_to(run_dir / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        RoleLock(run_dir, "wake")


def test_a_child_does_not_inherit_the_lock(run_dir: Path) -> None:
    lock = RoleLock(run_dir, ROLE)
    assert not os.get_inheritable(lock._fd)
    lock.release()
