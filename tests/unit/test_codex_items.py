"""What Codex sends, in the words that people read."""

from typing import Any

import pytest

from workers.runtime.codex_items import call_line, call_output, command_output, file_changes, shown_command
from workers.runtime.codex_rules import call_of
from workers.runtime.codex_turn import sentence


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("/bin/bash -lc 'ls -l'", "ls -l"),
        ("/usr/bin/zsh -c 'echo \"a b\"'", 'echo "a b"'),
        ("bash script.sh", "bash script.sh"),
        ("python -c 'print(1)'", "python -c 'print(1)'"),
        ("/bin/bash -lc 'unended", "/bin/bash -lc 'unended"),
        (None, ""),
    ],
)
def test_the_shell_before_a_command_is_left_out(command: object, shown: str) -> None:
    assert shown_command(command) == shown


@pytest.mark.parametrize(
    ("item", "output"),
    [
        ({"aggregatedOutput": "a", "exitCode": 3, "status": "failed"}, "a\nexit status 3"),
        ({"aggregatedOutput": "a\n", "exitCode": 0, "status": "completed"}, "a\n"),
        ({"aggregatedOutput": None, "exitCode": None, "status": "declined"}, "Refused."),
        ({"aggregatedOutput": None, "exitCode": None, "status": "completed"}, None),
        ({"aggregatedOutput": "cut", "exitCode": -1, "status": "failed"}, "cut"),
    ],
)
def test_the_end_of_a_command_has_its_output_and_status(item: dict[str, Any], output: str | None) -> None:
    assert command_output(item) == output


def test_a_tool_call_is_one_line_and_its_result_a_text() -> None:
    item = {
        "server": "a",
        "tool": "b",
        "arguments": {"x": "é"},
        "result": {"content": [{"text": "one"}, {"text": "two"}]},
    }
    assert call_line(item) == 'a.b {"x": "é"}'
    assert call_output(item) == "one\ntwo"
    assert call_output({"error": {"message": "no"}}) == "no"


@pytest.mark.parametrize(
    ("kind", "diff", "shown"),
    [
        ("add", "a\nb", "--- /dev/null\n+++ b/f\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n"),
        ("delete", "a\n", "--- a/f\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-a\n"),
        ("update", "@@ -1 +1 @@\n-a\n+b\n", "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"),
        ("add", "", ""),
    ],
)
def test_a_change_is_a_unified_diff_whatever_was_sent(kind: str, diff: str, shown: str) -> None:
    (change,) = file_changes({"id": "c", "changes": [{"path": "/w/f", "kind": {"type": kind}, "diff": diff}]}, "/w")
    assert (change.path, change.diff) == ("f", shown)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ({"message": "busy", "additionalDetails": "429"}, "busy (429)"),
        ({"message": '{"error": {"message": "no credit"}}'}, "no credit"),
        ({"message": "x", "codexErrorInfo": {"httpConnectionFailed": {"httpStatusCode": 401}}}, "codex login"),
        ({"message": "[1]"}, "[1]"),
        (None, "Codex gave no reason"),
    ],
)
def test_a_failure_is_said_in_words(error: object, text: str) -> None:
    assert text in sentence(error)


FORM = {"type": "object", "properties": {}}
CALL = {"server": "ours", "tool": "t", "arguments": {"a": 1}}


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, True),
        ({"_meta": {"codex_approval_kind": "mcp_tool_call", "tool_params": {"a": 1}}}, True),
        ({"serverName": "evil"}, False),
        ({"mode": "url"}, False),
        ({"requestedSchema": {"type": "object", "properties": {"x": {}}}}, False),
        ({"requestedSchema": None}, False),
        ({"_meta": {"tool_params": {"a": 2}}}, False),
        ({"_meta": {"codex_approval_kind": "other"}}, False),
    ],
)
def test_a_request_stands_for_a_running_call_only_where_nothing_contradicts(
    changes: dict[str, Any], found: bool
) -> None:
    params = {"serverName": "ours", "mode": "form", "requestedSchema": FORM, **changes}
    assert (call_of(params, [CALL]) is not None) is found
    assert call_of(params, []) is None
