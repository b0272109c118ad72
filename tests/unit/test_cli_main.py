"""The command line as a whole: its table, its start-up, and how an expected failure ends."""

import subprocess
import sys
from io import StringIO

import pytest

from termal import __version__
from termal.cli import main as cli
from termal.cli.console import agent_name, read_input
from termal.client.errors import Unreachable
from termal.config import ConfigRefused
from termal.home import HomeRefused
from termal.wire.errors import Conflict


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    return int(ended.value.code or 0)


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_of_the_table_can_be_loaded_and_says_what_it_does(name: str) -> None:
    command = cli.load(name)
    assert command.name == name
    assert (command.help or command.callback.__doc__ or "").strip()


def test_the_help_of_the_whole_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    shown = capsys.readouterr().out
    assert [line.split()[0] for line in shown.split("Commands:\n")[1].splitlines() if line.strip()] == list(
        cli.COMMANDS
    )


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out == f"termal {__version__}\n"


@pytest.mark.parametrize("arguments", [["frob"], ["status", "--frob"], ["send"], ["serve", "--port", "70000"]])
def test_a_wrong_command_line_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 2
    assert capsys.readouterr().out == ""


def _conflict() -> Conflict:
    error = Conflict("nothing runs")
    error.add_note("request r-7")
    return error


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        pytest.param(_conflict(), 1, "termal: nothing runs (request r-7)\n", id="the daemon says no"),
        pytest.param(Unreachable("nobody there"), 69, "termal: nobody there\n", id="no daemon"),
        pytest.param(ConfigRefused("config.toml: port"), 64, "termal: config.toml: port\n", id="configuration"),
        pytest.param(HomeRefused("a link"), 73, "termal: a link\n", id="data directory"),
        pytest.param(Unreachable("a\x1b[2Jb"), 69, "termal: a[2Jb\n", id="an escape sequence in the text"),
    ],
)
def test_an_expected_failure_is_one_line_and_an_exit_code(
    error: Exception, code: int, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise error

    monkeypatch.setattr(cli, "app", fail)
    assert run("stop", "session-1") == code
    assert capsys.readouterr() == ("", line)


@pytest.mark.parametrize(
    ("statement", "never"),
    [
        pytest.param("main(['--help'])", ["httpx", "rich", "psutil", "apsw", "zmq"], id="help"),
        pytest.param(
            "[load(name) for name in ('board', 'delegate', 'doctor', 'mail', 'projects', 'sessions', 'worktrees')]",
            ["rich"],
            id="tables",
        ),
        pytest.param("load('serve')", ["httpx", "rich", "psutil", "apsw", "zmq", "supervisor"], id="serve"),
    ],
)
def test_starting_takes_no_library_that_it_does_not_need(statement: str, never: list[str]) -> None:
    program = f"""
import sys
from termal.cli.main import load, main
try:
    {statement}
except SystemExit:
    pass
print([name for name in {never} if name in sys.modules], file=sys.stderr)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=20)
    assert ran.stderr == "[]\n"


def _listing(lines: str) -> list[str]:
    return [line for line in lines.split("Commands:\n")[1].splitlines() if line.strip()]


@pytest.mark.parametrize("name", ["", *(name for name in cli.COMMANDS if hasattr(cli.load(name), "commands"))])
def test_what_a_list_of_commands_says_is_not_cut_off(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(*filter(None, [name, "--help"])) == 0
    shown = _listing(capsys.readouterr().out)
    assert shown
    assert [line for line in shown if line.endswith("...")] == []


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("demo", "Demo"), ("OPENCODE", "OpenCode"), ("Claude", "Claude"), ("my-own", "my-own"), ("", ""), (None, None)],
)
def test_a_built_in_agent_is_found_however_its_name_is_written(typed: str | None, meant: str | None) -> None:
    assert agent_name(typed) == meant


@pytest.mark.parametrize(
    "arguments",
    [
        ["sessions", "set", "session-1", "claudeAprovalMode=auto-approve"],
        ["sessions", "set", "session-1", "name=x", "foo=bar"],
        ["sessions", "create", "--setting", "sandbox=read-only"],
        ["sessions", "create", "--setting", "name=x"],
    ],
    ids=" ".join,
)
def test_a_setting_that_does_not_exist_is_refused_and_nothing_is_asked(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments, "--base-url", "http://127.0.0.1:1") == 2
    assert "there is no such setting; there are " in capsys.readouterr().err


def test_a_person_at_a_terminal_is_told_that_a_text_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = StringIO("say Hello\n")
    monkeypatch.setattr(typed, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", typed)
    assert read_input() == "say Hello\n"
    assert "Ctrl-D" in capsys.readouterr().err
