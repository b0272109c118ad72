"""Commands of a session: their files read off the loop, never through a link, and the prompts that they become."""

import os
from pathlib import Path
from typing import Any

import pytest

from termal.wire.errors import InvalidRequest, NotFound
from termal.wire.session_operations import OneSession
from termal.wire.settings_operations import COMMAND_RESOLVE, COMMANDS_LIST, PROJECT_CREATE, CreateProject
from termal.wire.settings_operations import ResolveCommand as Resolve
from termal.wire.turns import CommandsKnown
from tests.support.state_worker import Json, StateWorker
from workers.state.command_files import FILE_BYTES, all_commands, one_command


def write(workdir: Path, **files: str) -> Path:
    folder = workdir / ".claude" / "commands"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.md").write_text(text, "utf-8")
    return folder


def listed(state: StateWorker, session_id: str) -> list[Json]:
    commands: list[Json] = state.json(COMMANDS_LIST, OneSession(session_id))["commands"]
    return commands


def resolve(state: StateWorker, session_id: str, name: str, **fields: Any) -> Json:
    return state.json(COMMAND_RESOLVE, Resolve(session_id=session_id, name=name, **fields))


# ----------------------------------------------------------------------------- files


def test_only_plain_files_of_the_folder_itself_are_commands(tmp_path: Path) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("secret")
    work = tmp_path / "work"
    folder = write(work, b="B", A="A", c="C")
    (folder / "link.md").symlink_to(secret)
    (folder / "gone.md").symlink_to(tmp_path / "none")
    (folder / "folder.md").mkdir()
    (folder / "text.txt").write_text("no")
    (folder / ".md").write_text("no name")
    (folder / "new\nline.md").write_text("no")
    (folder / "below").mkdir()
    (folder / "below" / "d.md").write_text("D")
    os.mkfifo(folder / "pipe.md")
    (folder / "exact.md").write_bytes(b"x" * FILE_BYTES)
    (folder / "large.md").write_bytes(b"x" * (FILE_BYTES + 1))
    assert [file.name for file in all_commands(str(work))] == ["A", "b", "c", "exact"]
    for name in ("link", "gone", "folder", "pipe", "large", "below/d", "../secret", "", "."):
        assert one_command(str(work), name) is None


@pytest.mark.parametrize("linked", [".claude", "commands"])
def test_a_folder_behind_a_link_is_not_read(tmp_path: Path, linked: str) -> None:
    write(tmp_path / "other", a="A")
    work = tmp_path / "work"
    work.mkdir()
    if linked == ".claude":
        (work / ".claude").symlink_to(tmp_path / "other" / ".claude")
    else:
        (work / ".claude").mkdir()
        (work / ".claude" / "commands").symlink_to(tmp_path / "other" / ".claude" / "commands")
    assert all_commands(str(work)) == []
    assert one_command(str(work), "a") is None


def test_a_directory_without_commands_or_none_at_all_has_none(tmp_path: Path) -> None:
    assert all_commands(str(tmp_path)) == []
    assert all_commands(str(tmp_path / "none")) == []
    assert all_commands("/\0") == []


def test_a_name_is_found_in_any_case_and_the_exact_one_first(tmp_path: Path) -> None:
    write(tmp_path, Fix="one", fix="two")
    for wanted, text in (("Fix", "one"), ("fix", "two")):
        found = one_command(str(tmp_path), wanted)
        assert found is not None
        assert (found.name, found.text, found.source) == (wanted, text, f".claude/commands/{wanted}.md")
    assert one_command(str(tmp_path), "FIX") is not None


def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    (write(tmp_path) / "a.md").write_bytes(b"a\xffb")
    assert [file.text for file in all_commands(str(tmp_path))] == ["a\ufffdb"]


# ---------------------------------------------------------------------------- worker


def test_the_commands_of_a_session_are_those_of_its_directory(state: StateWorker, tmp_path: Path) -> None:
    write(tmp_path, fix="---\ndescription: Fixes\nargument-hint: '[file]'\n---\nFix $ARGUMENTS", all="All\nof it")
    state.start()
    assert listed(state, state.create(workdir=str(tmp_path))) == [
        {
            "kind": "promptTemplate",
            "name": "all",
            "description": "All",
            "content": "All\nof it",
            "source": ".claude/commands/all.md",
        },
        {
            "kind": "promptTemplate",
            "name": "fix",
            "description": "Fixes",
            "content": "Fix $ARGUMENTS",
            "source": ".claude/commands/fix.md",
            "argumentHint": "[file]",
        },
    ]
    assert listed(state, state.create(workdir=str(state.home.root))) == []
    with pytest.raises(NotFound):
        listed(state, "session-9")


def test_commands_of_the_agent_itself_win_over_files_and_are_its_own_to_expand(
    state: StateWorker, tmp_path: Path
) -> None:
    write(tmp_path, compact="File", fix="Fix")
    write(tmp_path / "other", review="Other")
    state.start()
    session_id = state.create("Claude", workdir=str(tmp_path))
    runtime = state.runtime("runtime-claude")
    known = CommandsKnown([("Compact", "Shorten (bundled)", "[what]"), ("review", "Look (project)", "")])
    for number in (0, 1):
        state.send(session_id, "x")
        runtime.report(runtime.turn(number), known, CommandsKnown([]))
        runtime.end(runtime.turn(number))
    assert state.read(session_id)["agentCommandsRevision"] == 1
    commands = {command.pop("name"): command for command in listed(state, session_id)}
    assert list(commands) == ["Compact", "fix", "review"]
    assert commands["Compact"] == {
        "kind": "nativeSlash",
        "description": "Shorten",
        "content": "/Compact",
        "source": "Claude bundled command",
        "argumentHint": "[what]",
    }
    assert commands["review"]["source"] == "Claude project command"
    assert resolve(state, session_id, "compact", arguments="all") == {
        "name": "Compact",
        "source": "Claude bundled command",
        "kind": "nativeSlash",
        "visiblePrompt": "/Compact all",
        "title": "Shorten",
    }
    with pytest.raises(InvalidRequest) as caught:
        resolve(state, session_id, "compact", note="n")
    assert caught.value.reason == "nativeNoteUnsupported"
    elsewhere = {"cwd": "other", "intent": "delegate"}
    assert resolve(state, session_id, "review", **elsewhere)["kind"] == "promptTemplate"
    assert resolve(state, session_id, "compact", **elsewhere)["kind"] == "nativeSlash"
    state.kill()
    state.start()
    assert state.read(session_id)["agentCommandsRevision"] == 1


def test_resolving_says_what_would_be_sent_and_sends_nothing(state: StateWorker, tmp_path: Path) -> None:
    write(tmp_path, fix="---\ndescription: Fixes\n---\nFix $ARGUMENTS")
    state.start()
    session_id = state.create(workdir=str(tmp_path))
    before = state.state()
    assert resolve(state, session_id, "FIX", arguments=" a.py ", note="soon") == {
        "name": "fix",
        "source": ".claude/commands/fix.md",
        "kind": "promptTemplate",
        "visiblePrompt": "/fix a.py",
        "expandedPrompt": "Fix a.py\n\n## Additional User Note\n\nsoon",
        "title": "Fixes",
    }
    with pytest.raises(NotFound) as caught:
        resolve(state, session_id, "none")
    assert caught.value.reason == "agentCommandNotFound"
    with pytest.raises(InvalidRequest):
        resolve(state, session_id, "fix", note="x" * 65_537)
    assert state.state() == before


def test_a_delegation_may_look_elsewhere_within_its_project(state: StateWorker, tmp_path: Path) -> None:
    inner, outer = tmp_path / "root" / "inner", tmp_path / "outer"
    for folder in (inner, outer):
        folder.mkdir(parents=True)
    write(inner, fix="Inner")
    write(outer, fix="Outer")
    state.start()
    project_id = state.json(PROJECT_CREATE, CreateProject(root_path=str(tmp_path / "root")))["projectId"]
    member, free = state.create(project_id=project_id), state.create(workdir=str(tmp_path))
    for session_id, cwd, text in ((member, "inner", "Inner"), (member, str(inner), "Inner"), (free, "outer", "Outer")):
        assert resolve(state, session_id, "fix", cwd=cwd, intent="delegate")["expandedPrompt"] == text
    with pytest.raises(InvalidRequest) as caught:
        resolve(state, free, "fix", cwd="outer")
    assert caught.value.reason == "cwdOnlyForDelegate"
    (inner / "out").symlink_to(outer)
    for cwd in (str(outer), "../outer", "inner/out", "none", "inner/.claude/commands/fix.md", "", "x" * 4097, "\0"):
        with pytest.raises(InvalidRequest):
            resolve(state, member, "fix", cwd=cwd, intent="delegate")
