"""What a delegated or read-only Claude conversation may do before any rule of the user is asked."""

from pathlib import Path
from typing import Any

import pytest

from termal.bridge.descriptor import CLAUDE_SUBMIT_TOOL, SERVER
from termal.wire.turns import McpServer, SessionSpec
from workers.runtime.claude_guard import guarded, is_guarded

OWN = McpServer(SERVER, "bridge")


def spec(workdir: Path | str = "/work", *, mode: str = "auto-approve", **fields: Any) -> SessionSpec:
    return SessionSpec(
        "session-1", "Claude", str(workdir), "sonnet", modes={"claudeApprovalMode": mode}, mcp_servers=[OWN], **fields
    )


READ_ONLY = spec(read_only=True, delegated=True)
ISOLATED = spec(delegated=True)


@pytest.mark.parametrize(
    ("tool", "arguments", "kind"),
    [
        ("Read", {}, "allow"),
        ("Glob", {}, "allow"),
        ("Grep", {}, "allow"),
        ("LS", {}, "allow"),
        ("Bash", {"command": "git status && ls src"}, "allow"),
        ("Bash", {"command": "git diff --output=x"}, "refuse"),
        ("Bash", {"command": "cd /other && git status"}, "refuse"),
        ("Bash", {"command": ["ls"]}, "refuse"),
        ("Bash", {}, "refuse"),
        ("Write", {"file_path": "/work/a"}, "refuse"),
        ("PowerShell", {"command": "ls"}, "refuse"),
        ("Task", {}, "refuse"),
        ("something new", {}, "refuse"),
        ("mcp__other__tool", {}, "refuse"),
        (f"mcp__{SERVER}__termal_list_delegations", {}, None),
        (CLAUDE_SUBMIT_TOOL, {}, None),
    ],
)
def test_a_read_only_conversation(tool: str, arguments: Any, kind: str | None) -> None:
    for one in (READ_ONLY, spec(mode="read-only-auto-approve")):
        verdict = guarded(one, tool, arguments)
        assert (verdict.kind if verdict else None) == kind


def test_a_running_review_may_hand_in_its_result() -> None:
    verdict = guarded(spec(read_only=True, submits_review=True), CLAUDE_SUBMIT_TOOL, {})
    assert verdict is not None
    assert verdict.kind == "allow"


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("git commit -m x", "ask"),
        ("make && git push", "ask"),
        ("sh -c 'git push'", "ask"),
        ("git status", None),
        ("make test", None),
        ("", None),
    ],
)
def test_a_delegated_child_needs_a_person_for_what_may_commit_or_push(command: str, kind: str | None) -> None:
    verdict = guarded(ISOLATED, "Bash", {"command": command})
    assert (verdict.kind if verdict else None) == kind
    assert guarded(spec(), "Bash", {"command": command}) is None


def test_a_delegated_child_writes_into_its_worktree_alone(run_dir: Path) -> None:
    tree = run_dir / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / ".git").write_text("gitdir: elsewhere")
    (tree / "out").symlink_to(run_dir)
    child = spec(tree / "sub", delegated=True)
    for tool, key in (("Write", "file_path"), ("Edit", "file_path"), ("NotebookEdit", "notebook_path")):
        for path in ("a", "../b", str(tree / "c" / "d"), str(tree / ".github" / "x")):
            assert guarded(child, tool, {key: path}) is None
        beyond: list[object] = ["../../x", str(run_dir / "x"), str(tree / "out" / "x")]
        for target in (*beyond, "../.git", "../.git/hooks/x", "", None, 7):
            verdict = guarded(child, tool, {key: target})
            assert verdict is not None
            assert verdict.kind == "refuse"
    assert guarded(child, "Read", {"file_path": "/etc/hosts"}) is None


def test_ordinary_conversations_are_not_guarded() -> None:
    assert [is_guarded(one) for one in (spec(), READ_ONLY, ISOLATED, spec(mode="read-only-auto-approve"))] == [
        False,
        True,
        True,
        True,
    ]
    assert guarded(spec(), "Write", {"file_path": "/anywhere"}) is None
