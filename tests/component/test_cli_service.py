"""``termal service`` with stand-ins for `systemctl` and `launchctl`: what they are told, and what is written."""

import json
import os
import plistlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from termal.cli import service, service_systemd
from termal.cli.main import main
from termal.cli.service_file import LABEL, UNIT, home_of
from termal.cli.service_keeper import LATE, run

STAND_IN = """\
#!/bin/sh
printf '%s\\n' "${0##*/} $*" >> "$RECORD/asked"
for rule in "$RECORD"/rules/*; do
  [ -e "$rule" ] || continue
  case "$*" in
    *"$(head -n 1 "$rule")"*) sed -n '3,$p' "$rule"; exit "$(sed -n 2p "$rule")" ;;
  esac
done
"""


class Machine:
    """A user's machine: HOME, and the programs of a service manager that write down what they are asked."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.user = folder / "user"
        self.home = folder / "home"
        self.programs = folder / "programs"
        self._record = folder / "record"
        self._capsys = capsys
        for each in (self.user, self.programs, self._record / "rules"):
            each.mkdir(parents=True)

    def has(self, *names: str) -> None:
        for name in names:
            program = self.programs / name
            program.write_text(STAND_IN, "utf-8")
            program.chmod(0o700)

    def answers(self, part: str, code: int, text: str = "") -> None:
        """To whatever has ``part`` in its arguments; the newest rule is the last one."""
        number = len(list((self._record / "rules").iterdir()))
        (self._record / "rules" / str(number)).write_text(f"{part}\n{code}\n{text}", "utf-8")

    def asked(self) -> list[str]:
        """What the managers were told since the last call, without the questions."""
        file = self._record / "asked"
        lines = file.read_text("utf-8").splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return [line for line in lines if not any(word in line for word in (" show", " print"))]

    def run(self, *arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["service", *arguments])
        shown = self._capsys.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    @property
    def unit(self) -> Path:
        return self.user / ".config/systemd/user" / UNIT

    @property
    def job(self) -> Path:
        return self.user / "Library/LaunchAgents" / f"{LABEL}.plist"

    def pretend_running(self) -> None:
        """This process is the daemon."""
        me = psutil.Process()
        fields = {"pid": me.pid, "url": "http://127.0.0.1:1", "startTime": me.create_time()}
        (self.home / "run").mkdir(parents=True, exist_ok=True)
        (self.home / "run" / "daemon.json").write_text(json.dumps(fields), "utf-8")


@pytest.fixture
def machine(run_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Machine:
    machine = Machine(run_dir, capsys)
    for name in ("TERMAL_HOME", "TERMAL_PORT", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(machine.user))
    monkeypatch.setenv("RECORD", str(run_dir / "record"))
    monkeypatch.setenv("PATH", f"{machine.programs}:/usr/bin:/bin")
    return machine


@pytest.fixture
def linux(machine: Machine) -> Machine:
    machine.has("systemctl", "loginctl")
    return machine


@pytest.fixture
def mac(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(sys, "platform", "darwin")
    machine.has("launchctl")
    machine.answers(f"print gui/{os.getuid()}/{LABEL}", 113)
    return machine


def test_an_installed_service_is_written_enabled_and_started(linux: Machine) -> None:
    code, said, _ = linux.run("install", "--home", str(linux.home))
    assert code == 0
    assert str(linux.unit) in said
    assert "enable-linger" in said
    assert linux.asked() == [
        "systemctl --user daemon-reload",
        f"systemctl --user enable {UNIT}",
        f"systemctl --user reset-failed {UNIT}",
        f"systemctl --user restart {UNIT}",
    ]
    text = linux.unit.read_text("utf-8")
    assert home_of(text) == linux.home
    assert f'"{sys.executable.rpartition("/")[0]}/termal"' in text
    assert str(linux.programs) in text
    assert (linux.unit.stat().st_mode & 0o777, (linux.home / "logs").stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_unit_that_systemd_has_not_seen_before_has_nothing_to_reset(linux: Machine) -> None:
    linux.answers("reset-failed", 1, "Unit termal.service not loaded.")
    assert linux.run("install", "--home", str(linux.home))[0] == 0


def test_it_can_be_installed_for_the_next_login_alone(linux: Machine) -> None:
    linux.pretend_running()
    code, said, _ = linux.run("install", "--no-start", "--home", str(linux.home))
    assert (code, "next login" in said) == (0, True)
    assert linux.asked() == ["systemctl --user daemon-reload", f"systemctl --user enable {UNIT}"]


def test_its_file_can_be_looked_at_without_anything_being_done(machine: Machine) -> None:
    code, said, _ = machine.run("install", "--print", "--home", str(machine.home))
    assert (code, home_of(said)) == (0, machine.home)
    assert (machine.unit.exists(), machine.home.exists(), machine.asked()) == (False, False, [])


def test_nothing_secret_of_the_shell_gets_into_the_file(linux: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    monkeypatch.setenv("TERMAL_TOKEN", "ts1.secret")
    assert linux.run("install", "--home", str(linux.home))[0] == 0
    assert "secret" not in linux.unit.read_text("utf-8")


def test_a_second_install_writes_it_anew_and_restarts_its_own_daemon(linux: Machine) -> None:
    linux.run("install", "--home", str(linux.home))
    linux.pretend_running()
    linux.answers(f"show {UNIT}", 0, f"ActiveState=active\nMainPID={os.getpid()}\n")
    linux.asked()
    assert linux.run("install", "--home", str(linux.home))[0] == 0
    assert linux.asked()[-1] == f"systemctl --user restart {UNIT}"


def test_a_daemon_that_somebody_started_by_hand_is_not_met_by_a_second_one(linux: Machine) -> None:
    linux.pretend_running()
    code, _, said = linux.run("install", "--home", str(linux.home))
    assert (code, f"process {os.getpid()}" in said, "--no-start" in said) == (1, True, True)
    assert (linux.unit.exists(), linux.asked()) == (False, [])


@pytest.mark.parametrize("link", [False, True])
def test_a_file_of_somebody_else_is_neither_overwritten_nor_removed(linux: Machine, link: bool) -> None:
    linux.unit.parent.mkdir(parents=True)
    other = linux.user / "own.service" if link else linux.unit
    other.write_text("[Service]\nExecStart=/bin/true\n", "utf-8")
    if link:
        linux.unit.symlink_to(other)
    for arguments in (["install", "--home", str(linux.home)], ["uninstall"]):
        code, _, said = linux.run(*arguments)
        assert (code, "was not made by" in said) == (1, True)
    assert other.read_text("utf-8") == "[Service]\nExecStart=/bin/true\n"
    assert linux.asked() == []


def test_a_service_for_another_directory_stays(linux: Machine) -> None:
    linux.run("install", "--home", str(linux.home))
    before = linux.unit.read_text("utf-8")
    code, _, said = linux.run("install", "--home", str(linux.user / "other"))
    assert (code, str(linux.home) in said) == (1, True)
    assert linux.unit.read_text("utf-8") == before


def test_a_wrong_configuration_is_told_before_anything_is_written(linux: Machine) -> None:
    linux.home.mkdir()
    (linux.home / "config.toml").write_text("prot = 1", "utf-8")
    code, _, said = linux.run("install", "--home", str(linux.home))
    assert (code, "prot" in said, linux.unit.exists()) == (64, True, False)


def test_a_start_that_fails_is_told_with_the_managers_own_words(linux: Machine) -> None:
    linux.answers(f"restart {UNIT}", 1, "Job for termal.service failed.")
    code, _, said = linux.run("install", "--home", str(linux.home))
    assert code == 1
    assert "Job for termal.service failed." in said
    assert "termal service logs" in said


def test_a_start_that_takes_long_is_said_to_go_on(linux: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*command: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.CompletedProcess(command, LATE, "", "") if "restart" in command else run(*command)

    monkeypatch.setattr(service_systemd, "run", late)
    code, said, complaint = linux.run("install", "--home", str(linux.home))
    assert (code, complaint) == (0, "")
    assert "still starting: `termal service status`" in said
    code, said, _ = linux.run("install", "--json", "--home", str(linux.home))
    assert (code, json.loads(said)["started"], json.loads(said)["url"]) == (0, True, None)


def test_a_folder_of_the_shell_that_no_file_can_name_is_left_out(
    linux: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{linux.programs}:/usr/bin:/bin:/opt/caf\udce9")
    assert linux.run("install", "--home", str(linux.home))[0] == 0
    assert f'"PATH={linux.programs}:/usr/bin:/bin"' in linux.unit.read_text("utf-8")


@pytest.mark.parametrize("machine_kind", ["linux", "mac"])
def test_a_directory_that_no_file_can_name_is_refused_and_nothing_written(
    request: pytest.FixtureRequest, machine_kind: str
) -> None:
    machine: Machine = request.getfixturevalue(machine_kind)
    code, _, said = machine.run("install", "--home", f"{machine.home}/caf\udce9")
    assert (code, "not UTF-8" in said, said.count("\n")) == (1, True, 1)
    assert (machine.unit.parent.exists(), machine.job.parent.exists(), machine.home.exists()) == (False,) * 3


def test_a_file_that_cannot_be_finished_leaves_nothing_behind(linux: Machine) -> None:
    with pytest.raises(UnicodeEncodeError):
        service._write(linux.unit, "caf\udce9")
    assert list(linux.unit.parent.iterdir()) == []


def test_the_logs_are_those_of_the_directory_that_is_named_before_the_installed_one(
    linux: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    linux.run("install", "--home", str(linux.home))
    for folder in (linux.home, linux.user / "other"):
        (folder / "logs").mkdir(parents=True, exist_ok=True)
        (folder / "logs" / "state.stderr.log").write_text(f"of {folder.name}\n", "utf-8")
    assert "of home" in linux.run("logs")[1]
    monkeypatch.setenv("TERMAL_HOME", str(linux.user / "other"))
    assert "of other" in linux.run("logs")[1]
    assert "of home" in linux.run("logs", "--home", str(linux.home))[1]


def test_a_machine_without_a_manager_gets_one_sentence_and_keeps_its_files(machine: Machine) -> None:
    machine.has("systemctl")
    machine.answers("show-environment", 1)
    code, out, said = machine.run("install", "--home", str(machine.home))
    assert (code, out, said.count("\n")) == (1, "", 1)
    assert "termal serve" in said
    assert not machine.unit.exists()


def test_a_port_of_the_shell_is_said_not_to_reach_the_service(linux: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERMAL_PORT", "9000")
    code, _, said = linux.run("install", "--home", str(linux.home))
    assert (code, "config.toml" in said) == (0, True)


def test_an_uninstalled_service_is_stopped_and_its_file_gone_with_the_data_untouched(linux: Machine) -> None:
    linux.run("install", "--home", str(linux.home))
    linux.asked()
    code, said, _ = linux.run("uninstall")
    assert (code, str(linux.home) in said) == (0, True)
    assert linux.asked() == [f"systemctl --user disable --now {UNIT}", "systemctl --user daemon-reload"]
    assert (linux.unit.exists(), linux.home.is_dir()) == (False, True)
    assert linux.run("uninstall", "--json")[:2] == (
        0,
        json.dumps({"file": str(linux.unit), "home": None, "removed": False}, indent=2) + "\n",
    )


def test_it_is_removed_also_where_the_manager_is_gone(linux: Machine) -> None:
    linux.run("install", "--home", str(linux.home))
    link = linux.unit.parent / "default.target.wants" / UNIT
    link.parent.mkdir()
    link.symlink_to(linux.unit)
    linux.answers("show-environment", 1)
    assert linux.run("uninstall")[0] == 0
    assert not os.path.lexists(linux.unit)
    assert not os.path.lexists(link)


def test_the_status_of_the_service_is_what_the_manager_says(linux: Machine) -> None:
    assert linux.run("status")[0] == 3
    linux.run("install", "--home", str(linux.home))
    facts = "ActiveState=active\nMainPID=42\nUnitFileState=enabled\nResult=success\nStatusText=ok at http://x=y\n"
    linux.answers(f"show {UNIT}", 0, facts)
    code, said, _ = linux.run("status", "--json")
    assert code == 0
    assert json.loads(said) == {
        "installed": True,
        "keeper": "systemd",
        "file": str(linux.unit),
        "home": str(linux.home),
        "state": "active",
        "pid": 42,
        "atLogin": True,
        "detail": "ok at http://x=y",
    }
    code, said, _ = linux.run("status")
    assert (code, "active" in said, "42" in said) == (0, True, True)


def test_a_service_that_failed_says_with_what(linux: Machine) -> None:
    linux.run("install", "--home", str(linux.home))
    facts = "ActiveState=failed\nMainPID=0\nUnitFileState=enabled\nResult=exit-code\nExecMainStatus=65\nStatusText=\n"
    linux.answers(f"show {UNIT}", 0, facts)
    code, said, _ = linux.run("status")
    assert (code, "exit code 65" in said) == (1, True)


def test_launchd_is_told_to_load_and_to_unload_it(mac: Machine) -> None:
    domain = f"gui/{os.getuid()}"
    code, said, _ = mac.run("install", "--home", str(mac.home))
    assert (code, str(mac.job) in said) == (0, True)
    assert mac.asked() == [
        f"launchctl bootout {domain}/{LABEL}",
        f"launchctl enable {domain}/{LABEL}",
        f"launchctl bootstrap {domain} {mac.job}",
    ]
    assert plistlib.loads(mac.job.read_bytes())["ProgramArguments"][-2:] == ["--home", str(mac.home)]
    assert mac.run("uninstall")[0] == 0
    assert mac.asked() == [f"launchctl bootout {domain}/{LABEL}"]
    assert not mac.job.exists()


def test_what_launchd_says_of_it_is_its_status(mac: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    mac.run("install", "--no-start", "--home", str(mac.home))
    assert mac.run("status")[0] == 1
    for file in (mac.home.parent / "record/rules").iterdir():
        file.unlink()
    shown = f"gui/501/{LABEL} = {{\n\tactive count = 1\n\tstate = running\n\n\tprogram = /x\n\tpid = 77\n}}\n"
    mac.answers(f"print gui/{os.getuid()}/{LABEL}", 0, shown)
    code, said, _ = mac.run("status", "--json")
    found: dict[str, Any] = json.loads(said)
    assert (code, found["state"], found["pid"], found["keeper"]) == (0, "active", 77, "launchd")


def test_nobody_at_the_screen_is_one_sentence(mac: Machine) -> None:
    mac.answers("print gui", 113)
    code, _, said = mac.run("install", "--home", str(mac.home))
    assert (code, "nobody is logged in" in said) == (1, True)
