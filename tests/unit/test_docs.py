"""The documents against the code: what a user can type, set, call or meet is there, and what is there exists."""

import plistlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from termal.cli.main import COMMANDS, load
from termal.client.replies import Delta
from termal.config import AgentConfig, Config, read_config
from termal.demo_agent.directives import directives
from termal.gateway.app import _routes
from termal.gateway.census import Census
from termal.gateway.context import Gateway
from termal.log import Log
from termal.model import status
from termal.procs import environment
from termal.wire import control, errors
from termal.wire.launch import Launch

ROOT = Path(__file__).resolve().parent.parent.parent
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").rglob("*.md")])
DEPLOYED = [file for file in (ROOT / "deploy").rglob("*") if file.is_file()]


def read(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


README, OPERATIONS, API, AGENTS = map(read, ("README.md", "docs/operations.md", "docs/api.md", "docs/agents.md"))


def commands() -> Iterator[tuple[str, Any]]:
    """Every command that can be typed, with its command-line object."""
    for name in COMMANDS:
        command = load(name)
        below = getattr(command, "commands", None)
        if not below:
            yield f"termal {name}", command
        for inner, one in (below or {}).items():
            yield f"termal {name} {inner}", one


ALL = dict(commands())


@pytest.mark.parametrize("name", ALL)
def test_every_command_is_documented_with_all_its_options(name: str) -> None:
    [row] = [line for line in OPERATIONS.splitlines() if line.startswith((f"| `{name}`", f"| `{name} "))]
    options = [text for parameter in ALL[name].params for text in parameter.opts if text.startswith("-")]
    assert options
    missing = [option for option in options if not re.search(rf"`{option}[` ]", row)]
    assert missing == []


def test_no_command_or_option_is_documented_that_does_not_exist() -> None:
    rows = [line for line in OPERATIONS.splitlines() if line.startswith("| `termal ")]
    known = {option for command in ALL.values() for parameter in command.params for option in parameter.opts}
    for row in rows:
        assert row.split("`")[1].split(" SESSION")[0] in ALL
        assert set(re.findall(r"`(--?[a-z][a-z-]*)", row)) <= known


def shell_lines(text: str) -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    return [line.split("  #")[0].strip() for block in blocks for line in block.splitlines() if line.strip()]


@pytest.mark.parametrize("line", [line for line in shell_lines(README) if "termal " in line])
def test_the_commands_of_the_readme_can_be_typed(line: str) -> None:
    typed = re.findall(r'"[^"]*"|\S+', line)[1:]
    name = next(known for known in ALL if " ".join(["termal", *typed, ""]).startswith(known + " "))
    rest = typed[len(name.split()) - 1 :]
    ALL[name].make_context(name, rest)


def test_the_targets_of_the_readme_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))
    named = set(re.findall(r"`make ([a-z-]+)", README)) | {
        line.split()[1] for line in shell_lines(README) if line.startswith("make ")
    }
    assert named
    assert named <= targets


def test_ci_calls_targets_that_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))
    assert set(re.findall(r"make ([a-z-]+)", read(".ci/run"))) <= targets


@pytest.mark.parametrize("key", Config.__struct_fields__)
def test_every_configuration_key_is_documented_and_sampled(key: str) -> None:
    shown = {"agents": "| `[agents.NAME]` |", "workspace": "| `[workspace]` |"}.get(key, f"| `{key}` |")
    assert shown in OPERATIONS
    assert re.search(rf"^(\[{key}[.\]]|{key} = )", read("deploy/config.toml"), re.MULTILINE)


@pytest.mark.parametrize("key", AgentConfig.__struct_fields__)
def test_every_key_of_an_agent_is_documented(key: str) -> None:
    assert f"`{key}`" in OPERATIONS
    assert re.search(rf"^{key} = ", AGENTS, re.MULTILINE)


def test_the_sample_configuration_is_accepted_and_shows_the_defaults() -> None:
    sample, default = read_config(ROOT / "deploy/config.toml"), Config()
    changed = {key for key in Config.__struct_fields__ if getattr(sample, key) != getattr(default, key)}
    assert changed == {"agents", "port"}
    assert sample.port == 8787


def sources() -> Iterator[str]:
    for folder in ("termal", "workers", "supervisor"):
        for file in (ROOT / folder).rglob("*.py"):
            yield file.read_text("utf-8")


def test_every_environment_variable_is_documented() -> None:
    used = {name for text in sources() for name in re.findall(r"\bTERMAL_[A-Z_]*[A-Z]\b", text)}
    documents = "".join(file.read_text("utf-8") for file in DOCUMENTS)
    assert [name for name in sorted(used) if name not in documents] == []


def test_exactly_the_fault_points_that_exist_are_documented() -> None:
    used = {name for text in sources() for name in re.findall(r'\bfault\("([a-z_.]+)"\)', text)}
    rows = re.findall(r"^\| (`[a-z]+\.[a-z_.`, ]+) \|", read("docs/testing.md"), re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`([^`]+)`", row)} == used


def test_every_mark_of_a_test_is_documented() -> None:
    project, testing = read("pyproject.toml"), read("docs/testing.md")
    [block] = re.findall(r"^markers = \[\n(.*?)^\]", project, re.DOTALL | re.MULTILINE)
    names = re.findall(r'^  "([a-z]+)', block, re.MULTILINE)
    assert [name for name in names if f"`{name}`" not in testing and f"`{name}(" not in testing] == []


def test_every_document_is_linked_from_the_readme() -> None:
    pages = {f"docs/{file.name}" for file in (ROOT / "docs").glob("*.md")}
    assert {page for page in pages if f"]({page})" not in README} == set()


def test_every_exit_code_is_documented() -> None:
    codes = {value for name, value in vars(control).items() if name.startswith("EXIT_")} | {1, 2, 3, 4, 5, 69, 130}
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", OPERATIONS, re.MULTILINE)}
    assert documented == codes


STATUS_RECORDS = (
    status.DaemonStatus,
    status.ProcessStatus,
    status.LastExit,
    status.Latency,
    status.DatabaseStatus,
    status.SessionCounts,
    status.AgentProcess,
)


@pytest.mark.parametrize("record", STATUS_RECORDS, ids=lambda record: record.__name__)
def test_every_field_of_the_status_object_is_documented(record: type[msgspec.Struct]) -> None:
    fields = [field.encode_name for field in msgspec.structs.fields(record)]
    assert [field for field in fields if not re.search(rf"`{field}(\[\])?`", OPERATIONS)] == []


def routes() -> list[str]:
    launch = Launch(name="gateway", home="/x", run_dir="/x", control_fd=-1, start="boot", mark="x")
    gateway = Gateway(launch, Config(), Log("test"))
    return [re.sub(r"\{\w+:segment\}", "{id}", path) for path in _routes(gateway, Census(gateway))]


def test_exactly_the_routes_that_exist_are_documented() -> None:
    documented = re.findall(r"^\| `(?:GET|POST|PUT|PATCH|DELETE) (\S+)`", API, re.MULTILINE)
    assert set(documented) == set(routes())


def test_every_error_code_is_documented_with_its_status() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.TermalError)]
    for kind in kinds:
        if kind is not errors.TermalError:
            assert re.search(rf"^\| {kind.status}\b.*`{kind.code}`", API, re.MULTILINE), kind


@pytest.mark.parametrize("field", [field.encode_name for field in msgspec.structs.fields(Delta)])
def test_what_the_client_reads_of_an_event_is_documented(field: str) -> None:
    assert f"`{field}`" in API


ALLOWED = [
    *sorted(environment._NAMES),
    *environment._PREFIXES,
    *(name for names in environment._FAMILIES.values() for name in names if name not in environment._MODEL_PROVIDERS),
]


@pytest.mark.parametrize("name", ALLOWED)
def test_what_an_agent_sees_of_the_environment_is_documented(name: str) -> None:
    assert f"`{name}`" in AGENTS


@pytest.mark.parametrize("line", re.findall(r"^\| `([a-z]+(?: [A-Z{}]+)*)` \|", AGENTS, re.MULTILINE))
def test_the_directives_of_the_demo_agent_are_what_is_documented(line: str) -> None:
    typed = re.sub(r"SECONDS|BYTES|CODE", "1", line).replace("{JSON}", "{}")
    assert len(directives(typed)) == 1


def test_the_systemd_units_stop_in_order_and_do_not_retry_what_cannot_work() -> None:
    hopeless = {control.EXIT_USAGE, control.EXIT_REFUSED, control.EXIT_HOME, control.EXIT_PORT, control.EXIT_LOCKED}
    for file in (ROOT / "deploy/systemd").iterdir():
        unit = file.read_text("utf-8")
        assert {"Type=notify", "KillMode=mixed", "TimeoutStopSec=30", "Restart=on-failure", "WatchdogSec=15"} <= set(
            unit.splitlines()
        )
        [codes] = re.findall(r"^RestartPreventExitStatus=(.*)$", unit, re.MULTILINE)
        assert {int(code) for code in codes.split()} == hopeless


def test_the_launchd_list_can_be_read_and_runs_the_daemon() -> None:
    job = plistlib.loads((ROOT / "deploy/launchd/termal.plist").read_bytes())
    assert job["ProgramArguments"][-1] == "serve"
    assert job["KeepAlive"] == {"SuccessfulExit": False}


@pytest.mark.parametrize("file", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(file: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", file.read_text("utf-8"))
    assert [link for link in links if not (file.parent / link).exists()] == []


PRIVATE = re.compile(
    r"/work/|/root/|/tmp/bash|pypi\.|npmjs|registry\.|index-url|file://|#\d+\b|\bissue \d", re.IGNORECASE
)


@pytest.mark.parametrize(
    "file",
    [*DOCUMENTS, *DEPLOYED, ROOT / "requirements/dev.txt", ROOT / "Makefile", ROOT / ".ci/run"],
    ids=lambda file: str(file.relative_to(ROOT)),
)
def test_no_document_names_a_registry_a_path_of_one_machine_or_a_ticket(file: Path) -> None:
    assert PRIVATE.findall(file.read_text("utf-8")) == []


def test_the_lock_pins_every_dependency_of_the_project() -> None:
    lock = dict(
        line.lower().replace("_", "-").split("==") for line in read("requirements/dev.txt").splitlines() if "==" in line
    )
    assert all(re.fullmatch(r"[0-9][0-9a-z.+]*", version) for version in lock.values())
    project = read("pyproject.toml")
    for extra in ("dependencies", "dev"):
        [block] = re.findall(rf"^{extra} = \[\n(.*?)^\]", project, re.DOTALL | re.MULTILINE)
        for name in re.findall(r'^  "([A-Za-z0-9-]+)', block, re.MULTILINE):
            assert name.lower() in lock, name
