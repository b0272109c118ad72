"""The bridge's pure parts: its command line, slash commands, the spread of repeats, the shapes of its descriptor."""

import sys
from pathlib import Path

import pytest

from termal.bridge.board_tools import same_json
from termal.bridge.descriptor import (
    CLAUDE_SUBMIT_TOOL,
    SUBMIT_DESCRIPTION,
    acp_servers,
    base_url,
    bridge_server,
    claude_config,
    codex_config,
)
from termal.bridge.main import Arguments, BadUsage, read_arguments
from termal.bridge.replay import ATTEMPTS, delay_ms, may_repeat, percent
from termal.bridge.schemas import DESCRIPTIONS, SCHEMAS
from termal.bridge.slash import Command, parse
from termal.wire.turns import McpServer

SESSION = "session-1"


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("/review-code staged -- include tests", Command("review-code", "staged", "include tests")),
        ("/x -- a", Command("x", None, "a")),
        ("/x a --", Command("x", "a", None)),
        ("/x a -- -- b", Command("x", "a", "-- b")),
        ("/x a-- b", Command("x", "a-- b", None)),
        ("/x --a b", Command("x", "--a b", None)),
        ("/x\ta \t--\tb", Command("x", "a", "b")),
        ("/x  \n", Command("x", None, None)),
        ("/x", Command("x", None, None)),
        (" /x", None),
        ("/ x", None),
        ("/", None),
        ("/a/b", None),
        ("/x a\nb", None),
        ("/x\r\ny", None),
        ("x", None),
        ("", None),
    ],
)
def test_a_slash_command_is_one_line_with_a_name(prompt: str, expected: Command | None) -> None:
    assert parse(prompt) == expected


@pytest.mark.case("B46")
def test_repeats_are_spread_the_same_way_for_the_same_session_and_attempt() -> None:
    schedules = [[percent(session, attempt) for attempt in range(1, 5)] for session in ("session-a", "session-b")]
    assert schedules[0] != schedules[1]
    assert schedules[0] == [percent("session-a", attempt) for attempt in range(1, 5)]
    every = [percent(f"session-{number}", attempt) for number in range(200) for attempt in range(1, 5)]
    assert (min(every), max(every)) == (75, 125)


def test_the_spread_is_the_agreed_hash() -> None:
    # FNV-1a of 64 bits over the id and the attempt as four little-endian bytes, computed here step by step.
    value = 0xCBF29CE484222325
    for byte in b"session-1\x02\x00\x00\x00":
        value = ((value ^ byte) * 0x100000001B3) % (1 << 64)
    assert percent("session-1", 2) == 75 + value % 51
    assert delay_ms("session-1", 2) == 400 * percent("session-1", 2) / 100


@pytest.mark.parametrize(
    ("attempt", "left_s", "repeats"), [(1, 30.0, True), (ATTEMPTS, 30.0, False), (1, 2.2, False), (1, 2.21, True)]
)
def test_a_repeat_needs_an_attempt_and_two_seconds_after_its_wait(attempt: int, left_s: float, repeats: bool) -> None:
    assert may_repeat(attempt, left_s, 0.2) is repeats


@pytest.mark.case("B01")
@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--help"],
        ["-h"],
        ["--parent-session-id"],
        ["--parent-session-id", "s", "--other", "x"],
        ["--parent-session-id", "s", "extra"],
        ["--parent-session-id", " "],
        ["--parent-session-id", "a/b"],
        ["--parent-session-id", ".."],
        ["--parent-session-id", "a%2f"],
        ["--parent-session-id", "a\\b"],
        ["--parent-session-id", "a?b"],
        ["--parent-session-id", "a\x01b"],
    ],
)
def test_a_command_line_that_is_none_is_refused(arguments: list[str]) -> None:
    with pytest.raises(BadUsage):
        read_arguments(arguments, {})


@pytest.mark.parametrize(
    ("option", "environ", "url"),
    [
        pytest.param("http://127.0.0.1:9999/", {}, "http://127.0.0.1:9999", marks=pytest.mark.case("B02")),
        (" http://h:1// ", {"TERMAL_PORT": "9000"}, "http://h:1"),
        pytest.param(None, {"TERMAL_PORT": "9000"}, "http://127.0.0.1:9000", marks=pytest.mark.case("B02")),
        (" ", {"TERMAL_BASE_URL": " http://h:2/ "}, "http://h:2"),
        (None, {"TERMAL_BASE_URL": " ", "TERMAL_PORT": "65536"}, "http://127.0.0.1:8787"),
        (None, {"TERMAL_PORT": "x"}, "http://127.0.0.1:8787"),
        (None, {}, "http://127.0.0.1:8787"),
    ],
)
def test_the_address_is_the_option_the_environment_or_the_default(
    option: str | None, environ: dict[str, str], url: str
) -> None:
    given = [] if option is None else ["--base-url", option]
    found = read_arguments(["--parent-session-id", f" {SESSION} ", *given], environ)
    assert found == Arguments(SESSION, url)


@pytest.mark.case("B52")
def test_every_agent_gets_the_same_bridge_in_its_own_shape() -> None:
    server = bridge_server(SESSION, "http://127.0.0.1:8787/", mark="home")
    claude = claude_config([server])["mcpServers"]["termal-delegation"]
    codex = codex_config([server])["mcp_servers"]["termal-delegation"]
    acp = acp_servers([server])[0]
    for shape in (claude, codex, acp):
        arguments = shape["args"][shape["args"].index("delegation-mcp") :]
        assert arguments[2] == SESSION
        assert arguments[4] == "http://127.0.0.1:8787"
        assert Path(shape["command"]).is_absolute()
    assert claude["env"] == codex["env"] == {"TERMAL_RUNTIME": "home"}
    assert acp["env"] == [{"name": "TERMAL_RUNTIME", "value": "home"}]
    assert (claude["type"], codex["tool_timeout_sec"], set(acp)) == (
        "stdio",
        1830,
        {"name", "command", "args", "env"},
    )


@pytest.mark.case("B53")
def test_an_empty_value_stays_in_the_list_of_variables() -> None:
    server = McpServer("termal-delegation", "/bin/x", [], {"EMPTY": "", "A": "1"})
    assert acp_servers([server])[0]["env"] == [{"name": "EMPTY", "value": ""}, {"name": "A", "value": "1"}]


def test_a_token_stands_in_the_environment_alone() -> None:
    server = bridge_server(SESSION, "http://127.0.0.1:1", mark="home", token="secret")
    assert server.env == {"TERMAL_RUNTIME": "home", "TERMAL_TOKEN": "secret"}
    assert "secret" not in " ".join([server.command, *server.args])


def test_without_the_installed_program_the_interpreter_runs_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/bin/python")
    server = bridge_server(SESSION, "http://127.0.0.1:1", mark="home")
    assert [server.command, *server.args][:4] == ["/nowhere/bin/python", "-m", "termal", "delegation-mcp"]


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:1"),
        ("0.0.0.0", "http://127.0.0.1:1"),
        ("::", "http://[::1]:1"),
        ("::1", "http://[::1]:1"),
        ("192.0.2.7", "http://192.0.2.7:1"),
    ],
)
def test_the_bridge_is_sent_where_this_machine_reaches_the_daemon(host: str, url: str) -> None:
    assert base_url(host, 1) == url


def test_every_tool_has_a_schema_and_a_description() -> None:
    assert SCHEMAS.keys() == DESCRIPTIONS.keys()
    assert len(SCHEMAS) == 18
    assert DESCRIPTIONS["termal_submit_review_result"] == SUBMIT_DESCRIPTION
    assert CLAUDE_SUBMIT_TOOL == "mcp__termal-delegation__termal_submit_review_result"


def test_no_part_of_a_review_takes_more_than_it_names() -> None:
    schema = SCHEMAS["termal_submit_review_result"]
    items = [schema["properties"][name]["items"] for name in ("findings", "commandsRun")]
    assert [part["additionalProperties"] for part in (schema, *items)] == [False, False, False]
    assert sorted(schema["required"]) == sorted(schema["properties"])


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (1, True, False),
        (0, False, False),
        (None, None, True),
        (1, 1.0, True),
        ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ([1, 2], [2, 1], False),
        ([True], [1], False),
        ("1", 1, False),
    ],
)
def test_json_values_are_compared_as_json(first: object, second: object, same: bool) -> None:
    assert same_json(first, second) is same
