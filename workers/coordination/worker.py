"""Wiring of the coordination worker: its file, its link to state, its operations. It knows no turns and no queues."""

from termal.bus.client import Call, Client
from termal.bus.server import Handler, Request
from termal.config import Config
from termal.model.status import MailboxCounts
from termal.store.connection import facts
from termal.store.presence import LOOK_S, Presence
from termal.store.writer import Writer
from termal.wire.coordination_operations import COORDINATION_FACTS, COORDINATION_PING, SCOPE_DELETE
from termal.wire.errors import TermalError
from termal.wire.facts import CoordinationFacts
from termal.wire.session_operations import COORDINATION_READY, CoordinationReady
from termal.wire.turns import Anything
from termal.worker.process import Duties, Process
from workers.coordination.schema import SCHEMA, highest_session
from workers.coordination.scopes import Scopes


def start(process: Process) -> Duties:
    """Take the role, open the file, serve. Raises `StoreRefused` for a file that is not for this build."""
    process.ends_on_fault = True
    worker = Coordination(process)
    process.serve(worker.handlers())
    worker.open()
    process.control.ready()
    return Duties(
        idle=lambda: worker.depth() == 0,
        close=worker.close,
        depth=worker.depth,
        facts=worker.beat_facts,
        drain=worker.scopes.stop,
        reload=worker.reload,
    )


class Coordination:
    """The owner of ``coordination.sqlite``. `open` comes after the role is taken: two lives never open one file."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._path = process.home.coordination_db
        self._boot = process.launch.start == "boot"
        self._highest = 0
        self._announced: Call[Anything] | None = None
        self._trouble: str | None = None
        self._writer: Writer | None = None
        self._presence: Presence | None = None
        self.scopes = Scopes(self._writing)
        self._state: Client | None = None

    def handlers(self) -> dict[str, Handler]:
        return {
            COORDINATION_PING.name: self._ping,
            COORDINATION_FACTS.name: self._facts,
            SCOPE_DELETE.name: self.scopes.delete,
        }

    def open(self) -> None:
        process = self._process
        durability = process.config.durability
        SCHEMA.apply(self._path, durability=durability)
        self._highest = highest_session(self._path)
        self._writer = Writer(
            self._path,
            durability=durability,
            notify=self._notify,
            log=process.log,
            on_trouble=self._troubled,
        )
        self._presence = Presence(self._path)
        process.loop.every(LOOK_S, self._look_at_files)
        self._state = Client(process.loop, process.launch.run_dir, "state", process.launch.name)
        self._state.on_up.append(self._announce)

    def depth(self) -> int:
        return self._writer.depth if self._writer is not None else 0

    def beat_facts(self) -> dict[str, int | float | str | None]:
        now = facts(self._path, SCHEMA.current)
        commit_ms = round(self._writer.commit_ms, 3) if self._writer is not None else 0.0
        return {
            "databaseBytes": now.bytes,
            "walBytes": now.wal_bytes,
            "commitMs": commit_ms,
            "trouble": self._trouble,
        }

    def reload(self, config: Config) -> None:
        if self._writer is not None:
            self._writer.set_durability(config.durability)

    def close(self, deadline_s: float) -> None:
        if self._state is not None:
            self._state.close()
        if self._writer is not None:
            self._writer.close(deadline_s)

    # ----------------------------------------------------------------- operations

    @staticmethod
    def _ping(request: Request, _: Anything) -> None:
        request.reply(Anything())

    def _facts(self, request: Request, _: Anything) -> None:
        # No mail is served by this build: the counts are those of no mailbox.
        request.reply(
            CoordinationFacts(
                databases=[facts(self._path, SCHEMA.current)],
                mailboxes=MailboxCounts(),
                operations=self._process.stats.operations(),
            )
        )

    # ---------------------------------------------------------------------- state

    def _announce(self) -> None:
        """Tell each new state the highest session id of ours: until then it writes nothing and gives out no id."""
        assert self._state is not None
        if self._announced is not None:
            # The bus repeats the open call to the new state by itself; its word would only be an older one.
            self._announced.cancel()
        self._announced = self._state.call(COORDINATION_READY, CoordinationReady(self._highest), self._told)

    def _told(self, _: Anything | None, error: TermalError | None) -> None:
        self._announced = None
        if error is not None:
            self._process.log.repeating("coordination.announce_failed", error=str(error))
            self._process.loop.later(0.25, self._announce)
            return
        if self._boot:
            self._boot = False
            self._process.control.boot_done()

    def _writing(self) -> Writer:
        assert self._writer is not None
        return self._writer

    def _look_at_files(self) -> None:
        """Every commit looks too, and saves what it finds taken away; without work there is none."""
        if self._writer is not None and self._presence is not None and self._presence.lost():
            self._writer.submit(lambda _: None, lambda _, error: None)

    def _notify(self) -> None:
        assert self._writer is not None
        self._process.loop.threadsafe(self._writer.finish)

    def _troubled(self, error: Exception | None) -> None:
        self._trouble = None if error is None else str(error)
