"""Watches of turns in the test's own process, where the test says what happens between two moments of a turn."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from termal.bus.aio import AioLoop
from termal.bus.client import Client
from termal.config import Config
from termal.procs import folder_notified, inotify
from termal.wire.operation import Operation
from termal.wire.runtime_operations import StartTurn
from termal.wire.turns import SessionSpec, TouchedFile, TurnEnded
from termal.wire.workspace_operations import TURN_TOUCHED, WORKSPACE_CHANGED, TurnTouched, WorkspaceChanged
from workers.runtime import workspaces
from workers.runtime.place import Place
from workers.runtime.reporter import Link
from workers.runtime.workspaces import TurnWatch, Workspaces

END = TurnEnded("completed")
BOTH = pytest.mark.parametrize("portable", [False, True], ids=["notified", "scanned"])


class Told:
    """State's side, and a log: keeps what it is told."""

    def __init__(self) -> None:
        self.late: list[TurnTouched] = []
        self.hints: list[WorkspaceChanged] = []
        self.lines: list[str] = []

    def call(self, op: Operation[Any, Any], body: Any, _: object, **__: object) -> None:
        assert op in (TURN_TOUCHED, WORKSPACE_CHANGED)
        kept: list[Any] = self.late if op is TURN_TOUCHED else self.hints
        kept.append(body)

    def warning(self, event: str, **keys: Any) -> None:
        self.lines.append(f"{event} {keys['why']}")

    repeating = warning


class House:
    def __init__(self, run_dir: Path, *, portable: bool) -> None:
        self.told = Told()
        self.work = run_dir / "work"
        self.work.mkdir()
        place = Place(Config(), {}, run_dir, portable=portable)
        self.loop = AioLoop()
        link = Link(self.loop, cast("Client", self.told), "tests", self.told)
        home = run_dir / "home"
        self.watches = Workspaces(link, lambda: place, home, home / "worktrees", self.told)

    def start(self, turn: str = "turn-1", session: str = "session-1", work: Path | None = None) -> TurnWatch | None:
        spec = SessionSpec(session, "Demo", str(work or self.work), "auto")
        return self.watches.begin(StartTurn(spec, turn, ""))

    async def watched(self, turn: str = "turn-1", session: str = "session-1") -> TurnWatch:
        """A turn whose directory is being watched by now."""
        watch = self.start(turn, session)
        assert watch is not None
        probe = self.work / f"probe-{turn}"
        number = count()

        def seen() -> bool:
            # What is written in the first moment of a turn may be older than it by the clock of files.
            probe.write_text("x" * next(number))
            return probe.name in watch.files

        await until(seen)
        return watch


def named(files: list[TouchedFile]) -> list[TouchedFile]:
    """Without what was made to find out whether somebody looks."""
    return [file for file in files if not file.path.startswith("probe")]


async def until(happened: Callable[[], object]) -> None:
    async with asyncio.timeout(5):
        while not happened():  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def a_house(run_dir: Path, *, portable: bool = False) -> AsyncIterator[House]:
    house = House(run_dir, portable=portable)
    try:
        yield house
    finally:
        house.watches.close()
        house.loop.close()


def play(run_dir: Path, scenario: Callable[[House], Awaitable[None]], *, portable: bool = False) -> None:
    async def body() -> None:
        async with a_house(run_dir, portable=portable) as house:
            await scenario(house)

    asyncio.run(body())


@BOTH
def test_what_changes_right_after_the_end_is_told_apart(run_dir: Path, portable: bool) -> None:
    async def scenario(house: House) -> None:
        watch = await house.watched()
        (house.work / "first").write_text("1")
        if portable:
            await until(lambda: "first" in watch.files)
        end = watch.complete(END)
        (house.work / "second").write_text("2")
        await until(lambda: house.told.late)

        assert named(end.files) == [TouchedFile("first", "created")]
        (late,) = house.told.late
        assert (late.session_id, late.turn_id) == ("session-1", "turn-1")
        assert named(late.files) == [TouchedFile("second", "created")]
        assert house.watches.watched == 0

    play(run_dir, scenario, portable=portable)


@BOTH
def test_what_changes_between_two_turns_that_follow_each_other_belongs_to_the_next(
    run_dir: Path, portable: bool
) -> None:
    async def scenario(house: House) -> None:
        assert named((await house.watched()).complete(END).files) == []
        (house.work / "between").write_text("x")
        second = await house.watched("turn-2")
        assert named(second.complete(END).files) == [TouchedFile("between", "created")]
        second.close()
        assert house.told.late == []
        assert house.watches.watched == 0

    play(run_dir, scenario, portable=portable)


def test_a_quiet_end_is_not_told_of_again(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspaces, "GRACE_S", 0.01)

    async def scenario(house: House) -> None:
        watch = await house.watched()
        watch.complete(END)
        await until(lambda: house.watches.watched == 0)
        assert house.told.late == []

    play(run_dir, scenario)


def test_an_end_that_comes_before_the_folders_are_read_is_told_its_files_later(run_dir: Path) -> None:
    async def scenario(house: House) -> None:
        watch = house.start()
        assert watch is not None
        # The loop has not run since: whatever the thread has read, nobody knows of it.
        (house.work / "early").write_text("x")
        os.utime(house.work / "early", (time.time() + 60.0,) * 2)
        assert watch.complete(END) == END
        await until(lambda: house.told.late)
        assert [file.path for file in house.told.late[0].files] == ["early"]

    play(run_dir, scenario)


def test_an_agent_that_is_ended_for_good_has_its_last_files_told_at_once(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspaces, "GRACE_S", 3600.0)

    async def scenario(house: House) -> None:
        watch = await house.watched()
        watch.complete(END)
        (house.work / "last").write_text("x")
        house.watches.closed("session-1")
        house.watches.closed("session-1")
        assert [named(late.files) for late in house.told.late] == [[TouchedFile("last", "created")]]
        assert house.watches.watched == 0

    play(run_dir, scenario)


def test_a_turn_that_is_dropped_is_not_told_of(run_dir: Path) -> None:
    async def scenario(house: House) -> None:
        watch = await house.watched()
        (house.work / "file").write_text("x")
        watch.close()
        house.watches.closed("session-1")
        assert house.told.late == []
        assert house.watches.watched == 0

    play(run_dir, scenario)


def test_a_path_that_is_too_long_is_counted_and_not_named(run_dir: Path) -> None:
    async def scenario(house: House) -> None:
        watch = await house.watched()
        deep = house.work / "/".join(["d" * 100] * 6)
        deep.mkdir(parents=True)
        (deep / "x").write_text("x")
        (house.work / "y").write_text("y")
        end = watch.complete(END)
        assert (named(end.files), end.more_files) == ([TouchedFile("y", "created")], True)

    play(run_dir, scenario)


def test_a_directory_that_cannot_be_watched_is_left_alone_and_the_log_says_why_once(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_notified, "FOLDERS", 1)

    async def scenario(house: House) -> None:
        (house.work / "src").mkdir()
        watch = house.start()
        assert watch is not None
        await until(lambda: watch.folder.over)
        assert watch.complete(END) == END
        assert house.start("turn-2") is None
        assert house.told.lines == ["workspace.unwatched it has more than 1 folders"]
        monkeypatch.setattr(workspaces, "RETRY_S", 0.0)
        assert house.start("turn-3") is not None

    play(run_dir, scenario)


def test_the_directories_of_a_worker_share_its_part_of_the_watches(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inotify, "watches_allowed", lambda: folder_notified.WATCH_SHARE)
    other = run_dir / "other"
    other.mkdir()

    async def scenario(house: House) -> None:
        await house.watched()
        watch = house.start("turn-2", "session-2", other)
        assert watch is not None
        await until(lambda: watch.folder.over)
        assert house.told.lines == ["workspace.unwatched together with others it has more than 1 folders"]
        house.watches.closed("session-1")
        assert house.start("turn-3", "session-1") is not None

    play(run_dir, scenario)


def test_directories_beyond_the_limit_are_not_watched_until_there_is_room(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspaces, "FOLDERS", 1)
    other = run_dir / "other"
    other.mkdir()

    async def scenario(house: House) -> None:
        watch = await house.watched()
        assert house.start("turn-2", "session-2", other) is None
        assert house.start("turn-3", "session-3") is not None
        watch.close()
        house.watches.closed("session-3")
        assert house.start("turn-4", "session-2", other) is not None

    play(run_dir, scenario)


def test_after_a_storm_the_next_turn_is_watched_anew(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_notified, "TURN_PATHS", 3)

    async def scenario(house: House) -> None:
        watch = await house.watched()
        for number in range(4):
            (house.work / f"{number}").touch()
        end = watch.complete(END)
        assert (named(end.files), end.more_files) == ([], True)
        assert house.told.hints[-1] == WorkspaceChanged(str(house.work), ["session-1"], [], overflow=True)
        second = await house.watched("turn-2")
        (house.work / "calm").touch()
        assert named(second.complete(END).files) == [TouchedFile("calm", "created")]

    play(run_dir, scenario)


def test_a_session_that_moved_is_watched_where_it_is_now(run_dir: Path) -> None:
    other = run_dir / "other"
    other.mkdir()

    async def scenario(house: House) -> None:
        (await house.watched()).complete(END)
        assert house.start("turn-2", work=other) is not None
        assert house.watches.watched == 1

    play(run_dir, scenario)


def test_who_may_not_write_is_not_watched(run_dir: Path) -> None:
    async def scenario(house: House) -> None:
        spec = SessionSpec("session-1", "Demo", str(house.work), "auto")
        assert house.watches.begin(StartTurn(replace(spec, read_only=True), "turn-1", "")) is None
        await asyncio.sleep(0)

    play(run_dir, scenario)
