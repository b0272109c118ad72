"""What git does for delegations, on threads of its own: worktrees made and given up, the files that a child changed.

git may take long; the loop goes on answering meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from msgspec.structs import replace

from termal.bus.loop import Loop
from termal.log import Log
from termal.model.delegation import DelegationRecord, WritePolicy
from termal.rules.verdicts import Refused
from termal.wire.errors import Internal, TermalError
from workers.state.thread_lane import ThreadLane

if TYPE_CHECKING:
    from termal.procs.worktree import Shelf
    from termal.procs.worktree_make import Unfinished


T = TypeVar("T")
Prepared = Callable[["Isolated | None", "Refused | TermalError | None"], None]


class Isolated(NamedTuple):
    """A worktree that belongs to no stored delegation yet. ``cwd``: the child's directory in it."""

    policy: WritePolicy
    cwd: str
    source_root: str
    base_tree: str
    unfinished: Unfinished


class Files:
    """``kernel_sandbox``: whether the kernel can keep an agent's sandbox here; False until that was tried."""

    def __init__(self, loop: Loop, root: Path, log: Log) -> None:
        self.kernel_sandbox = False
        self._loop = loop
        self._root = root
        self._log = log
        self._making = ThreadLane("worktrees")
        self._looking = ThreadLane("worktree-files")
        self._clean = False
        self._held: list[Callable[[], None]] = []

    # -------------------------------------------------------------------- worktrees

    def prepare(
        self, delegation_id: str, cwd: str, policy: WritePolicy, then: Prepared, *, hidden: tuple[str, ...] = ()
    ) -> None:
        """Make the worktree of a delegation; ``then`` gets it, or why there is none. Waits for `clean`: a repeat
        finds what a crash has left of the first attempt. ``hidden``: what the child's agent must not find there."""
        if not self._clean:
            self._held.append(lambda: self.prepare(delegation_id, cwd, policy, then, hidden=hidden))
            return

        def work() -> Isolated:
            # Only worktrees need git and all that is behind it.
            from termal.procs.worktree_make import Wanted, prepare  # noqa: PLC0415

            wanted = Wanted(delegation_id, Path(cwd), policy.worktree or None, tuple(policy.owned), hidden)
            made, unfinished = prepare(self._shelf(), wanted)
            kept = replace(policy, worktree_path=str(made.path), owned_paths=made.owned_paths)
            return Isolated(kept, str(made.cwd), str(made.source_root), made.base_tree, unfinished)

        def done(made: Isolated | None, error: Exception | None) -> None:
            if error is not None and not isinstance(error, Refused | TermalError):
                self._log.error("worktree.failed", delegationId=delegation_id, error=repr(error))
                error = Internal("the worktree could not be made; the log says why", reason="worktreeCreateFailed")
            then(made, error)

        self._run(work, done)

    def keep(self, isolated: Isolated) -> None:
        """Its delegation is stored: only a person removes the worktree now."""
        self._run(isolated.unfinished.keep, self._logged)

    def discard(self, isolated: Isolated) -> None:
        self._run(isolated.unfinished.discard, self._logged)

    def look(self) -> None:
        """Find out what the kernel can do."""

        def work() -> bool:
            from termal.procs.kernel_sandbox import works  # noqa: PLC0415

            return works()

        def done(found: bool | None, error: Exception | None) -> None:
            self.kernel_sandbox = bool(found)
            self._logged(None, error)

        self._read(work, done)

    def clean(self, named: Collection[str]) -> None:
        """Remove what a crash left of delegations that were never stored; ``named``: the ids of all that are."""
        if not (self._root / ".termal").is_dir():
            self._cleaned()
            return

        def work() -> list[str]:
            from termal.procs.worktree_list import clean_leftovers  # noqa: PLC0415

            return clean_leftovers(self._shelf(), named)

        def done(removed: list[str] | None, error: Exception | None) -> None:
            if removed:
                self._log.info("worktree.removed", paths=removed)
            self._logged(None, error)
            self._cleaned()

        self._run(work, done)

    def _cleaned(self) -> None:
        self._clean = True
        held, self._held = self._held, []
        for prepare in held:
            prepare()

    # ------------------------------------------------------------------------ files

    def changed(self, record: DelegationRecord, then: Callable[[list[str] | None], None]) -> None:
        """The files that differ in the worktree from what the child was handed; None when git cannot say."""

        def work() -> list[str] | None:
            from termal.procs.worktree_index import changed_files  # noqa: PLC0415

            note = self._shelf().read_note(record.id)
            base = record.base_tree if isinstance(record.base_tree, str) else None
            return None if note is None else changed_files(self._shelf(), note, base_tree=base)

        def done(paths: list[str] | None, error: Exception | None) -> None:
            if error is not None:
                self._log.warning("worktree.unreadable", delegationId=record.id, error=str(error))
            then(paths)

        self._read(work, done)

    def _shelf(self) -> Shelf:
        from termal.procs.worktree import Shelf  # noqa: PLC0415

        return Shelf(self._root)

    # ---------------------------------------------------------------------- threads

    def _run(self, work: Callable[[], T], done: Callable[[T | None, Exception | None], None]) -> None:
        """One after the other: git refuses to make two worktrees of a repository at once."""
        self._making.put(_job(self._loop, work, done))

    def _read(self, work: Callable[[], T], done: Callable[[T | None, Exception | None], None]) -> None:
        """What only reads; it does not wait for what is made."""
        self._looking.put(_job(self._loop, work, done))

    def _logged(self, _: object, error: Exception | None) -> None:
        if error is not None:
            self._log.warning("worktree.failed", error=repr(error))


def _job(loop: Loop, work: Callable[[], T], done: Callable[[T | None, Exception | None], None]) -> Callable[[], None]:
    def run() -> None:
        value: T | None = None
        failure: Exception | None = None
        try:
            value = work()
        except Exception as error:  # noqa: BLE001 - the border of the thread: its owner hears of it
            failure = error
        loop.threadsafe(lambda: done(value, failure))

    return run
