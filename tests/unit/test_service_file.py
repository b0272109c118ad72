"""The files of the service: what they say, that odd paths survive in them, and that they are told from others'."""

import plistlib
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from supervisor.daemon import _CLEANUP_S
from supervisor.tree import Limits
from termal.cli import service_file
from termal.cli.service_file import CannotBeWritten, Job, home_of, launchd_job, systemd_unit
from tests.unit.test_docs import ROOT

PLAIN = Job(["/opt/termal/bin/termal"], Path("/home/ada/.termal"), "/usr/bin:/bin")
ODD = Job(["/opt/with space/termal"], Path('/home/ada/100% "mine" \\ $HOME ä/.termal'), "/opt/a b:/opt/$x%h:/usr/bin")
JOBS = [pytest.param(PLAIN, id="plain"), pytest.param(ODD, id="odd characters")]


def directives(unit: str) -> set[str]:
    return {line for line in unit.splitlines() if re.match(r"[A-Za-z]+=", line)}


def test_the_unit_is_the_one_that_is_shipped_but_for_what_belongs_to_one_installation() -> None:
    shipped = directives((ROOT / "deploy/systemd/termal.service").read_text("utf-8"))
    own = {"ExecStart", "Environment", "StandardOutput", "StandardError", "Home"}
    made = directives(systemd_unit(PLAIN))
    assert {line for line in made if line.split("=")[0] not in own} == {
        line for line in shipped if line.split("=")[0] not in own
    }
    assert {line.split("=")[0] for line in made} >= own


def test_the_job_is_the_one_that_is_shipped_but_for_what_belongs_to_one_installation() -> None:
    shipped = plistlib.loads((ROOT / "deploy/launchd/termal.plist").read_bytes())
    made = plistlib.loads(launchd_job(PLAIN).encode())
    own = {"ProgramArguments", "EnvironmentVariables", "StandardOutPath", "StandardErrorPath", "TermalHome"}
    assert {key: value for key, value in made.items() if key not in own} == {
        key: value for key, value in shipped.items() if key not in own
    }
    assert set(made) >= own


def test_a_daemon_has_the_time_to_end_in_order_before_it_is_killed() -> None:
    assert Limits().stop_s + _CLEANUP_S < service_file.STOP_S


@pytest.mark.parametrize("job", JOBS)
def test_the_unit_runs_the_command_with_every_word_as_it_is(job: Job) -> None:
    [line] = re.findall(r"^ExecStart=(.*)$", systemd_unit(job), re.MULTILINE)
    first, *rest = (word.replace("%%", "%") for word in shlex.split(line))
    assert [first, *(word.replace("$$", "$") for word in rest)] == job.command
    [environment] = re.findall(r"^Environment=(.*)$", systemd_unit(job), re.MULTILINE)
    assert [word.replace("%%", "%") for word in shlex.split(environment)] == [f"PATH={job.path}"]


@pytest.mark.parametrize("job", JOBS)
def test_systemd_finds_no_fault_with_the_unit(job: Job, tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    program = tmp_path / Path(job.program[0]).parent.name / "termal"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n", "utf-8")
    program.chmod(0o700)
    file = tmp_path / service_file.UNIT
    file.write_text(systemd_unit(job._replace(program=[str(program)])), "utf-8")
    ran = subprocess.run(
        [analyze, "--user", "verify", str(file)],
        env={"XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


@pytest.mark.parametrize("job", JOBS)
def test_the_job_runs_the_command_with_every_word_as_it_is(job: Job) -> None:
    made = plistlib.loads(launchd_job(job).encode())
    assert made["ProgramArguments"] == job.command
    assert made["EnvironmentVariables"] == {"PATH": job.path}
    assert made["StandardErrorPath"] == made["StandardOutPath"] == str(job.home / "logs/service.stderr.log")


@pytest.mark.parametrize("job", JOBS)
def test_a_file_of_ours_names_its_data_directory(job: Job) -> None:
    assert home_of(systemd_unit(job)) == home_of(launchd_job(job)) == job.home


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param((ROOT / "deploy/systemd/termal.service").read_text("utf-8"), id="a unit that was copied"),
        pytest.param((ROOT / "deploy/launchd/termal.plist").read_text("utf-8"), id="a job that was copied"),
        pytest.param("[Service]\nExecStart=/bin/true\n[X-TermAl]\nHome=/x\n", id="a section that is none of ours"),
        pytest.param("\n[X-TermAl]\nHome=1\n", id="a directory that is a number"),
        pytest.param("<?xml version='1.0'?><plist><array/></plist>", id="a list that is no job"),
        pytest.param("<?xml broken", id="broken XML"),
    ],
)
def test_a_file_of_somebody_else_names_none(text: str) -> None:
    assert home_of(text) is None


@pytest.mark.parametrize("make", [systemd_unit, launchd_job])
def test_a_path_that_no_such_file_can_hold_is_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(CannotBeWritten, match="control character"):
        make(PLAIN._replace(home=Path("/home/a\nExecStart=/bin/evil")))


@pytest.mark.parametrize("make", [systemd_unit, launchd_job])
@pytest.mark.parametrize(
    "job",
    [
        pytest.param(PLAIN._replace(home=Path("/home/caf\udce9")), id="home"),
        pytest.param(PLAIN._replace(program=["/opt/caf\udce9/termal"]), id="program"),
        pytest.param(PLAIN._replace(path="/bin:/caf\udce9"), id="path"),
    ],
)
def test_a_path_that_is_not_utf8_is_refused(make: object, job: Job) -> None:
    assert callable(make)
    with pytest.raises(CannotBeWritten, match="not UTF-8"):
        make(job)


@pytest.mark.parametrize("name", ["termal.service", "termal-system.service"])
def test_a_start_may_take_as_long_as_a_migration(name: str) -> None:
    assert "TimeoutStartSec=infinity" in directives((ROOT / "deploy/systemd" / name).read_text("utf-8"))
