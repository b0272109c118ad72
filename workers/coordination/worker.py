"""Wiring of the coordination worker: its file, its link to state, its operations. It knows no turns and no queues."""

from termal.bus.client import Call, Client
from termal.bus.server import Handler, Request
from termal.config import Config
from termal.model.status import MailboxCounts
from termal.store.connection import facts
from termal.store.presence import LOOK_S, Presence
from termal.store.reader import Reader
from termal.store.writer import Writer
from termal.wire.coordination_operations import COORDINATION_FACTS, COORDINATION_PING, SCOPE_DELETE
from termal.wire.errors import TermalError
from termal.wire.facts import CoordinationFacts
from termal.wire.mail_operations import SESSION_DEPART
from termal.wire.session_operations import COORDINATION_READY, CoordinationReady
from termal.wire.turns import Anything
from termal.worker.patience import Patience
from termal.worker.process import Duties, Process
from workers.coordination.admission import Admission
from workers.coordination.board import Boards
from workers.coordination.bootstrap import bootstrap
from workers.coordination.departures import Departures
from workers.coordination.mail import Mail
from workers.coordination.repairs import RepairParts, Repairs
from workers.coordination.reviews import Reviews
from workers.coordination.schema import SCHEMA, highest_session
from workers.coordination.scopes import Scopes
from workers.coordination.wake_questions import WakeQuestions

MAIL_READERS = 2
BOARD_READERS = 1
"""With their own connections: a slow reader of one kind never keeps the other waiting."""
BOARD_LINE = 1
"""The second connection of the writer; the first is that of mail."""


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
        self._highest: int | None = None
        self._announced: Call[Anything] | None = None
        self._trouble: str | None = None
        self._writer: Writer | None = None
        self._presence: Presence | None = None
        self._mail_reader: Reader | None = None
        self._board_reader: Reader | None = None
        self._state: Client | None = None
        self._wake: Client | None = None
        admission = Admission(process.loop, self._writing)
        self.scopes = Scopes(admission, line=BOARD_LINE)
        self._repairs = Repairs(
            process.loop,
            RepairParts(mail=self._mailing, admission=admission, writing=self._writing),
            process.log,
        )
        self._mail = Mail(
            process.loop,
            state=self._to_state,
            wake=self._to_wake,
            writer=self._writing,
            reader=self._reading_mail,
            admission=admission,
            repairs=self._repairs,
            log=process.log,
        )
        self._departures = Departures(self._writing, forget=self._mail.boxes.forget, gone=self._repairs.gone)
        self._boards = Boards(self._mail.parties, admission, self._reading_boards, line=BOARD_LINE, log=process.log)
        self._reviews = Reviews(admission, self._mail.store, self._mail.mailbox_changed, self._repairs)
        self._questions = WakeQuestions(self._reading_mail, self._writing, self._mail.pending)

    def handlers(self) -> dict[str, Handler]:
        return {
            COORDINATION_PING.name: self._ping,
            COORDINATION_FACTS.name: self._facts,
            SCOPE_DELETE.name: self.scopes.delete,
            SESSION_DEPART.name: self._departures.depart,
            **self._mail.handlers(),
            **self._boards.handlers(),
            **self._reviews.handlers(),
            **self._questions.table(),
        }

    def open(self) -> None:
        process = self._process
        durability = process.config.durability
        importing = Patience(process.control.extend, "importing mailboxes and boards")
        bootstrap(process.home, durability=durability, log=process.log, going_on=importing.ask)
        self._repairs.load(self._path)
        self._writer = Writer(
            self._path,
            durability=durability,
            notify=self._notify,
            log=process.log,
            on_trouble=self._troubled,
            on_fault=process.loop.fault,
            on_failed=self._mail.boxes.forget,
            others=[self._boards.store.forget],
        )
        self._mail_reader = Reader(self._path, threads=MAIL_READERS, notify=self._mail_read, log=process.log)
        self._board_reader = Reader(self._path, threads=BOARD_READERS, notify=self._board_read, log=process.log)
        self._presence = Presence(self._path)
        process.loop.every(LOOK_S, self._look_at_files)
        self._state = Client(process.loop, process.launch.run_dir, "state", process.launch.name)
        self._state.on_up.append(self._announce)
        self._wake = Client(process.loop, process.launch.run_dir, "wake", process.launch.name)
        self._repairs.begin()
        # Nobody waits for it but a state that starts, and a long look must not keep a restarted worker from serving.
        self._mail_reader.submit(highest_session, self._looked)

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
        for link in (self._state, self._wake):
            if link is not None:
                link.close()
        for reader in (self._mail_reader, self._board_reader):
            if reader is not None:
                reader.close(deadline_s)
        if self._writer is not None:
            self._writer.close(deadline_s)

    # ----------------------------------------------------------------- operations

    @staticmethod
    def _ping(request: Request, _: Anything) -> None:
        request.reply(Anything())

    def _facts(self, request: Request, _: Anything) -> None:
        def answer(mailboxes: MailboxCounts) -> None:
            request.reply(
                CoordinationFacts(
                    databases=[facts(self._path, SCHEMA.current)],
                    mailboxes=mailboxes,
                    operations=self._process.stats.operations(),
                )
            )

        self._questions.counts(request, answer)

    # ---------------------------------------------------------------------- state

    def _announce(self) -> None:
        """Tell each new state the highest session id of ours: until then it writes nothing and gives out no id."""
        assert self._state is not None
        if self._highest is None:
            return
        if self._announced is not None:
            # The bus repeats the open call to the new state by itself; its word would only be an older one.
            self._announced.cancel()
        self._announced = self._state.call(COORDINATION_READY, CoordinationReady(self._highest), self._told)

    def _looked(self, highest: int | None, error: Exception | None) -> None:
        if highest is None:
            self._process.loop.fault(error or RuntimeError("no answer"))
            return
        self._highest = highest
        if self._to_state().up:
            self._announce()

    def _told(self, _: Anything | None, error: TermalError | None) -> None:
        self._announced = None
        if error is not None:
            self._process.log.repeating("coordination.announce_failed", error=str(error))
            self._process.loop.later(0.25, self._announce)
            return
        if self._boot:
            self._boot = False
            self._process.control.boot_done()

    # ---------------------------------------------------- what `open` makes, for those who are made before it

    def _to_state(self) -> Client:
        assert self._state is not None
        return self._state

    def _to_wake(self) -> Client:
        assert self._wake is not None
        return self._wake

    def _mailing(self) -> Mail:
        return self._mail

    def _writing(self) -> Writer:
        assert self._writer is not None
        return self._writer

    def _reading_mail(self) -> Reader:
        assert self._mail_reader is not None
        return self._mail_reader

    def _reading_boards(self) -> Reader:
        assert self._board_reader is not None
        return self._board_reader

    def _mail_read(self) -> None:
        self._process.loop.threadsafe(self._reading_mail().finish)

    def _board_read(self) -> None:
        self._process.loop.threadsafe(self._reading_boards().finish)

    def _look_at_files(self) -> None:
        """Every commit looks too, and saves what it finds taken away; without work there is none."""
        if self._writer is not None and self._presence is not None and self._presence.lost():
            self._writer.submit(lambda _: None, lambda _, error: None)

    def _notify(self) -> None:
        assert self._writer is not None
        self._process.loop.threadsafe(self._writer.finish)

    def _troubled(self, error: Exception | None) -> None:
        self._trouble = None if error is None else str(error)
