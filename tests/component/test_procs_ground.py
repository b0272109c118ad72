"""What a daemon stands on: the directory's lock, the port, systemd's socket, the limit of open files, its signals."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from termal.home import Home, prepare
from termal.procs.lock import DirectoryLock, Locked, Owner, is_held, read_owner
from termal.procs.notify import Notifier
from termal.procs.port import PortInUse, PortRefused, address_url, bind, listen
from termal.procs.signals import CHILD, HANG_UP, TERMINATE, Signals, send
from tests.support.waiting import wait_until

LOCALHOST = "127.0.0.1"


@pytest.fixture
def home(home_dir: Path) -> Home:
    made = Home(home_dir)
    prepare(made)
    return made


# -- lock


def test_a_second_lock_names_the_first_owner_and_its_address(home: Home) -> None:
    first = DirectoryLock(home, Owner(4711, 1.5))
    first.tell(Owner(4711, 1.5, "http://127.0.0.1:8787"))
    with pytest.raises(Locked, match=r"process 4711 at http://127\.0\.0\.1:8787") as refused:
        DirectoryLock(home, Owner(1))
    assert (refused.value.pid, refused.value.url) == (4711, "http://127.0.0.1:8787")
    assert is_held(home)
    assert read_owner(home) == Owner(4711, 1.5, "http://127.0.0.1:8787")
    first.close()


def test_a_lock_ends_with_its_holder_however_that_ended(home: Home) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom termal.home import Home\n"
        "from termal.procs.lock import DirectoryLock, Owner\n"
        f"lock = DirectoryLock(Home(Path({str(home.root)!r})), Owner(7))\nprint(flush=True)\nsys.stdin.read()\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    holder.stdout.readline()
    assert is_held(home)
    holder.kill()
    holder.communicate()
    assert not is_held(home)
    DirectoryLock(home, Owner(8)).close()


def test_asking_whether_it_is_held_keeps_nobody_from_locking(home: Home) -> None:
    DirectoryLock(home, Owner(1)).close()
    assert not is_held(home)
    assert read_owner(home) is None


def test_a_lock_file_that_is_a_link_is_not_followed(home: Home) -> None:
    home.lock.symlink_to(home.root / "elsewhere")
    with pytest.raises(OSError, match="symbolic link"):
        DirectoryLock(home, Owner(1))


# -- port


def test_a_port_that_was_bound_but_does_not_listen_yet_is_in_use_for_the_second() -> None:
    first = bind(LOCALHOST, 0, token=False)
    with first, pytest.raises(PortInUse, match="is in use by another process"):
        bind(LOCALHOST, first.getsockname()[1], token=False)


def test_the_owner_of_a_listening_port_is_named() -> None:
    first = bind(LOCALHOST, 0, token=False)
    listen(first, 5)
    with first, pytest.raises(PortInUse, match=rf"is in use by process {os.getpid()} \("):
        bind(LOCALHOST, first.getsockname()[1], token=False)


def test_connections_of_an_earlier_run_that_wind_down_do_not_keep_the_next_from_starting() -> None:
    first = bind(LOCALHOST, 0, token=False)
    listen(first, 5)
    port = first.getsockname()[1]
    with first, socket.create_connection((LOCALHOST, port)) as client:
        served, _ = first.accept()
        # The side that closes first keeps the address for a minute.
        served.close()
        assert client.recv(1) == b""
    with bind(LOCALHOST, port, token=False) as second:
        listen(second, 5)


def test_nobody_can_connect_before_it_listens() -> None:
    with bind(LOCALHOST, 0, token=False) as bound, pytest.raises(ConnectionRefusedError):
        socket.create_connection(bound.getsockname())


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_an_address_beyond_this_machine_needs_a_token(host: str) -> None:
    with pytest.raises(PortRefused, match='auth = "token"'):
        bind(host, 0, token=False)
    bind(host, 0, token=True).close()


def test_a_host_that_is_no_address_is_refused() -> None:
    with pytest.raises(PortRefused, match="no address of this machine"):
        bind("256.256.256.256", 0, token=True)


def test_urls_of_both_families() -> None:
    with bind(LOCALHOST, 0, token=False) as four, bind("::1", 0, token=False) as six:
        assert address_url(four) == f"http://127.0.0.1:{four.getsockname()[1]}"
        assert address_url(six) == f"http://[::1]:{six.getsockname()[1]}"


# -- systemd


@pytest.fixture
def manager(run_dir: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(run_dir / "notify"))
        yield listening


def test_systemd_hears_of_every_step(manager: socket.socket) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": manager.getsockname()})
    notifier.status("degraded: wake\nis failed")
    notifier.ready("serving")
    notifier.watchdog()
    notifier.reloading()
    notifier.stopping()
    heard = [manager.recv(200).decode() for _ in range(5)]
    assert heard[:3] == ["STATUS=degraded: wake is failed", "READY=1\nSTATUS=serving", "WATCHDOG=1"]
    assert heard[3].startswith("RELOADING=1\nMONOTONIC_USEC=")
    assert heard[4] == "STOPPING=1"


def test_the_abstract_address_of_systemd_works() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        name = f"termal-test-{os.getpid()}"
        listening.bind(f"\0{name}")
        Notifier({"NOTIFY_SOCKET": f"@{name}"}).stopping()
        assert listening.recv(100) == b"STOPPING=1"


@pytest.mark.parametrize(
    ("environment", "watchdog_s"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "15000000"}, 7.5),
        ({"WATCHDOG_USEC": "15000000", "WATCHDOG_PID": "42"}, 7.5),
        ({"WATCHDOG_USEC": "15000000", "WATCHDOG_PID": "43"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
    ],
)
def test_the_watchdog_is_fed_twice_within_its_limit_and_only_where_it_is_meant_for_us(
    environment: dict[str, str], watchdog_s: float | None
) -> None:
    assert Notifier(environment, pid=42).watchdog_s == watchdog_s


@pytest.mark.parametrize("address", ["", "relative", "/no/such/socket"])
def test_without_systemd_nothing_is_said_and_nothing_fails(address: str) -> None:
    Notifier({"NOTIFY_SOCKET": address}).ready("serving")


# -- limits and signals


def test_the_limit_of_open_files_is_raised_but_never_beyond_the_hard_one_nor_lowered() -> None:
    code = (
        "import resource\nfrom termal.procs.limits import raise_descriptor_limit as up\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (100, 400))\n"
        "print(up(300), up(200), up(8192))\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "300 300 400\n"


def test_signals_are_bytes_on_a_descriptor_and_everything_is_put_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    signals = Signals()
    try:
        assert signals.read() == []
        send(os.getpid(), TERMINATE)
        send(os.getpid(), HANG_UP)
        assert wait_until(signals.read, "signals") == [TERMINATE, HANG_UP]
        subprocess.run(["/bin/true"], check=True)
        assert wait_until(signals.read, "the end of a child") == [CHILD]
    finally:
        signals.close()
    assert signal.getsignal(signal.SIGTERM) is before
