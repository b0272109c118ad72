"""``termal doctor`` on rows that were set aside: named, listed with their reasons, written out whole, never changed."""

import json
import stat
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from termal.cli import main as cli
from termal.cli.checks import Finding, check_rows
from termal.home import Home, prepare
from tests.support.older_store import Dump, OlderStore, dump, message, session, transcript
from tests.support.state_worker import StateWorker
from workers.state.store_schema import open_store


@pytest.fixture
def home(home_dir: Path) -> Home:
    found = Home(home_dir)
    prepare(found)
    return found


def damaged_home(home: Home) -> None:
    """One healthy session, three damaged ones and a damaged delegation."""
    store = OlderStore(home.termal_db)
    store.add("session-1", session("session-1", transcript(1, 100)))
    store.add("session-2", session("session-2", transcript(2, 100)))
    store.add("session-3", session("session-3", [message(3, id="message-9"), message(4, id="message-9")]))
    store.add("session-4", "{ not json")
    store.close()
    open_store(home.termal_db, durability="normal")
    store = OlderStore.reopen(home.termal_db)
    store.run("UPDATE messages SET value_json = CAST(x'ff' AS TEXT) WHERE session_id = 'session-2' AND position = 99")
    store.run("INSERT INTO session_prompt_histories VALUES ('session-4', '[\"kept\"]')")
    store.run("INSERT INTO delegations VALUES ('delegation-1', '{')")
    store.close()


def doctor(capsys: pytest.CaptureFixture[str], home: Home, *options: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["doctor", "--home", str(home.root), *options])
    output = capsys.readouterr()
    return int(ended.value.code or 0), output.out, output.err


def stored(home: Home) -> Dump:
    """What belongs to sessions and delegations; a running daemon keeps more in the file."""
    found = dump(home.termal_db)
    tables = ("sessions", "messages", "session_overviews", "session_prompt_histories", "delegations")
    return {name: found[name] for name in tables}


def listed(capsys: pytest.CaptureFixture[str], home: Home) -> dict[str, Any]:
    code, out, _ = doctor(capsys, home, "--quarantine", "--json")
    assert code == 0
    return {row["id"]: row for row in json.loads(out)["quarantined"]}


def test_rows_are_listed_with_their_reasons_and_nothing_is_changed(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged_home(home)
    before = dump(home.termal_db)
    rows = listed(capsys, home)
    assert sorted(rows) == ["delegation-1", "session-2", "session-3", "session-4"]
    assert (rows["session-2"]["messages"], rows["session-3"]["messages"]) == (100, 0)
    assert all(row["reason"] for row in rows.values())
    assert dump(home.termal_db) == before


def test_the_table_for_people_names_every_row(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    damaged_home(home)
    code, out, _ = doctor(capsys, home, "--quarantine")
    assert code == 0
    for name in ("delegation-1", "session-2", "session-3", "session-4"):
        assert name in out


@pytest.mark.parametrize("running", [False, True], ids=["daemon down", "daemon up"])
def test_one_row_is_written_out_whole_to_a_new_file_of_its_owner(
    state: StateWorker, tmp_path: Path, capsys: pytest.CaptureFixture[str], running: bool
) -> None:
    home = state.home
    damaged_home(home)
    if running:
        state.start()
    before = stored(home)
    target = tmp_path / "out.jsonl"
    code, _, _ = doctor(capsys, home, "--export", "session-2", str(target))
    assert code == 0
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    lines = [json.loads(line) for line in target.read_text("utf-8").splitlines()]
    assert lines[0]["quarantined"] == "session-2"
    messages = [line for line in lines if line.get("table") == "messages"]
    assert [line["position"] for line in messages] == list(range(100))
    assert [json.loads(line["value"]) for line in messages[:99]] == transcript(2, 100)[:99]
    assert b64decode(messages[99]["valueBase64"]) == b"\xff"
    assert {line["table"] for line in lines[1:]} == {
        "sessions",
        "messages",
        "session_overviews",
        "session_prompt_histories",
    }
    assert stored(home) == before


def test_an_unreadable_row_and_a_transcript_inside_a_row_are_written_out_as_they_are(
    home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged_home(home)
    values = {}
    for name in ("session-4", "session-3", "delegation-1"):
        target = tmp_path / name
        assert doctor(capsys, home, "--export", name, str(target))[0] == 0
        values[name] = [json.loads(line) for line in target.read_text("utf-8").splitlines()][1:]
    assert {line["table"]: line["value"] for line in values["session-4"]} == {
        "sessions": "{ not json",
        "session_prompt_histories": '["kept"]',
    }
    assert len(json.loads(values["session-3"][0]["value"])["session"]["messages"]) == 2
    assert values["delegation-1"] == [{"table": "delegations", "id": "delegation-1", "value": "{"}]


@pytest.mark.parametrize("name", ["session-1", "session-99", "delegation-7"])
def test_a_row_that_is_not_set_aside_is_not_written_out(
    home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    damaged_home(home)
    target = tmp_path / "out"
    code, _, err = doctor(capsys, home, "--export", name, str(target))
    assert code == 1
    assert name in err
    assert not target.exists()


def test_a_file_that_is_there_is_not_overwritten(
    home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged_home(home)
    target = tmp_path / "out"
    target.write_text("mine", "utf-8")
    code, _, err = doctor(capsys, home, "--export", "session-2", str(target))
    assert (code, target.read_text("utf-8")) == (1, "mine")
    assert str(target) in err


def finding(home: Home) -> Finding | None:
    return next(iter(check_rows(home)), None)


def test_the_checks_name_what_is_set_aside_and_say_how_to_look_at_it(home: Home) -> None:
    assert finding(home) is None
    open_store(home.termal_db, durability="normal")
    found = finding(home)
    assert found is not None
    assert found.level == "ok"
    home.termal_db.unlink()
    damaged_home(home)
    found = finding(home)
    assert found is not None
    assert (found.level, "session-4" in found.text, "--quarantine" in found.advice) == ("hint", True, True)


def test_a_file_of_an_older_build_is_no_problem_and_one_of_another_program_is(home: Home) -> None:
    OlderStore(home.termal_db).close()
    found = finding(home)
    assert found is not None
    assert (found.level, "older build" in found.text) == ("ok", True)
    store = OlderStore.reopen(home.termal_db)
    store.run("UPDATE meta SET value = '7'")
    store.close()
    found = finding(home)
    assert found is not None
    assert (found.level, "'7'" in found.text) == ("problem", True)


def test_without_a_database_nothing_is_set_aside(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert listed(capsys, home) == {}
    assert doctor(capsys, home, "--quarantine")[1] == "no row is set aside\n"
    assert doctor(capsys, home, "--export", "session-1", "x")[0] == 1
