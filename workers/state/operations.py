"""The worker put together: its handlers on the bus, held until the start is stored, and its duties to the process."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from termal.bus.publisher import Publisher
from termal.bus.server import Handler, Request, not_started
from termal.config import Config
from termal.model.status import OutboxCounts, PendingCount, RunningCount, SessionCounts
from termal.rules.verdicts import Refused
from termal.store.connection import facts
from termal.store.presence import LOOK_S, Presence
from termal.store.reader import Reader
from termal.store.writer import Writer
from termal.wire.codec import encode
from termal.wire.control import EXIT_INTERNAL
from termal.wire.errors import Busy, TermalError
from termal.wire.events import Published
from termal.wire.facts import OperationCount, StateFacts
from termal.wire.session_operations import CoordinationReady, Snapshot
from termal.wire.turns import Anything
from termal.wire.verdict_errors import error_of
from termal.worker.process import Duties, Process
from workers.state.agent_commands import AgentCommands
from workers.state.agent_list import AGENT_OPERATIONS, AgentList
from workers.state.change import Book
from workers.state.codex_account import CODEX_OPERATIONS, CodexAccount
from workers.state.codex_threads import THREADS, CodexThreads
from workers.state.delegated import DELEGATED, Delegated
from workers.state.departures import Departures
from workers.state.endings import Endings
from workers.state.history import History
from workers.state.interactions import Interactions
from workers.state.journal import Journal
from workers.state.links import Links
from workers.state.mail_first import MailFirst
from workers.state.markers import Markers
from workers.state.model_options import ModelOptions
from workers.state.overview import Overview
from workers.state.preferences import Preferences
from workers.state.projections import Projections
from workers.state.projects import Projects
from workers.state.prompts import Prompts
from workers.state.readiness import Agents
from workers.state.recovery import Recovery
from workers.state.registry import Registry
from workers.state.reports import Reports
from workers.state.runtimes import Runtimes
from workers.state.scribe import Scribe
from workers.state.sessions import Sessions
from workers.state.settings import Settings
from workers.state.store_schema import SCHEMA_VERSION
from workers.state.transcripts import TRANSCRIPTS, transcript_handlers
from workers.state.turns import Turns
from workers.state.wake_reports import WakeReports
from workers.state.wakes import Wakes
from workers.state.woken_turns import WokenTurns
from workers.state.workflow_queues import WorkflowQueues
from workers.state.workspace import FILE_OPERATIONS, Workspace

STATE = "state"
HELD = 1000
"""Requests that wait for the start to be stored, at most."""
NAMES = (
    "state.facts",
    "state.snapshot",
    "coordination.ready",
    "session.create",
    "session.read",
    "session.history",
    "session.eligibility",
    "session.stop",
    "session.kill",
    "prompt.send",
    "prompt.cancel",
    "approval.answer",
    "questions.answer",
    "elicitation.answer",
    "apprequest.answer",
    "queue.offer",
    "queue.retract",
    "queue.materialize",
    "queue.wakes",
    "turn.report",
    "lock.read",
    "session.overview",
    "marker.list",
    "marker.create",
    "marker.update",
    "marker.delete",
    "settings.change",
    "preferences.change",
    "project.create",
    "project.delete",
    "models.refresh",
    "commands.list",
    "command.resolve",
    *TRANSCRIPTS,
    *THREADS,
    *FILE_OPERATIONS,
    *CODEX_OPERATIONS,
    *DELEGATED,
    *AGENT_OPERATIONS,
)
_ALWAYS = frozenset({"state.facts", "session.eligibility", "coordination.ready"})
_NEVER_REFUSED = frozenset({"turn.report", "agents.trouble", "coordination.ready", "session.kill", "project.delete"})
"""Writes that are taken also while the disk is stuck: they are slowed down elsewhere, or make room."""


class Operations:
    """Made once the store is loaded; `handle` is what the server calls for every operation."""

    def __init__(self, process: Process, registry: Registry) -> None:
        loop, log, home = process.loop, process.log, process.home
        self._process = process
        self._registry = registry
        self._path = home.termal_db
        self._publisher = Publisher(loop, process.launch.run_dir, STATE, registry.instance_id)
        self._writer = Writer(self._path, durability=process.config.durability, notify=self._notify, log=log)
        self._reader = Reader(self._path, threads=2, notify=self._notify, log=log)
        self._presence = Presence(self._path)
        loop.every(LOOK_S, self._look_at_files)
        self._journal = Journal(loop, self._writer, registry, publish=self._publish, failed=self._failed, log=log)
        self._agents = Agents(process.config, os.environ)
        launch = process.launch
        self._runtimes = Runtimes(loop, launch.run_dir, launch.running, need=process.control.need)
        self._agent_list = AgentList(self._agents, self._runtimes)
        self._projections = Projections(registry, self._agent_list.rows)
        self._book = Book(registry, self._journal, self._projections)
        self._links = Links(loop, process.launch.run_dir)
        self._wake_reports = WakeReports(self._book, loop, self._links, log)
        self._mail = mail = MailFirst(self._book, self._links, self._wake_reports, log, running=process.launch.running)
        woken = WokenTurns(self._book, self._links, mail, self._wake_reports, log)
        self._turns = Turns(self._book, self._runtimes, woken, log)
        self._interactions = Interactions(self._book, self._runtimes, self._reader)
        self._workspace = Workspace(self._book, self._publish)
        self._reports = Reports(self._book, self._turns, Scribe(self._book, self._interactions), self._workspace, log)
        self._departures = Departures(self._book, loop, self._links, log)
        self._endings = Endings(
            self._book,
            self._turns,
            self._reports,
            self._runtimes,
            self._departures,
            loop=loop,
            not_ready=self._agents.problem,
            log=log,
        )
        self._runtimes.on_down.append(self._endings.worker_ended)
        self._recovery = Recovery(self._book, self._turns, self._runtimes, log)
        self._workflows = WorkflowQueues(self._book, self._turns)
        self._delegated = Delegated(
            self._book,
            turns=self._turns,
            endings=self._endings,
            interactions=self._interactions,
            workflows=self._workflows,
            runtimes=self._runtimes,
            links=self._links,
            agents=self._agents,
            reader=self._reader,
            process=process,
        )
        self._recovery.on_known.append(self._go_on)
        self._runtimes.troubles.on_over.append(self._workflows.go_on)
        self._projects = Projects(self._book, loop, self._links, log)
        self._handlers = self._table()
        self._open = False
        self._started = False
        self._waiting: list[tuple[Handler, Request, Any]] = []

    def _table(self) -> dict[str, Handler]:
        prompts = Prompts(self._book, self._turns, self._later)
        preferences = Preferences(self._book, os.environ)
        sessions = Sessions(self._book, self._agents, str(Path.cwd()), preferences.defaults)
        history = History(self._book, self._reader, self._process.log)
        return {
            "state.facts": self._facts,
            "state.snapshot": self._snapshot,
            "coordination.ready": self._coordination_ready,
            "session.create": sessions.create,
            "session.read": history.tail,
            "session.history": history.page,
            "session.eligibility": sessions.eligibility,
            "session.stop": self._endings.stop,
            "session.kill": self._endings.kill,
            "prompt.send": prompts.send,
            "prompt.cancel": prompts.cancel,
            **self._interactions.table(),
            **Wakes(self._book, self._turns, self._wake_reports, self._later).table(),
            "turn.report": self._reports.report,
            **self._workspace.table(),
            **CodexAccount(self._book).table(),
            "session.overview": Overview(self._book, self._reader, self._process.log).overview,
            **Settings(self._book, self._runtimes).table(),
            **preferences.table(),
            **self._agent_list.table(),
            **self._projects.table(),
            **self._delegated.table(preferences.defaults, self._later),
            **ModelOptions(self._book, self._runtimes, self._agents).table(),
            **CodexThreads(self._book, self._runtimes, self._turns, self._agents, self._delegated.rewritten).table(),
            **AgentCommands(self._book, self._process.loop).table(),
            **Markers(self._book, self._reader, self._process.log).table(),
            **transcript_handlers(
                self._book,
                self._reader,
                self._writer,
                loop=self._process.loop,
                default_workdir=str(Path.cwd()),
                log=self._process.log,
            ),
        }

    @property
    def duties(self) -> Duties:
        return Duties(
            idle=lambda: self._journal.idle,
            close=self._close,
            depth=lambda: self._journal.depth + self._writer.depth,
            drain=self._journal.flush_streams,
            facts=self._beat_facts,
            peers=self._peers,
            reload=self._reload,
            serving=self._go_on,
        )

    # --------------------------------------------------------------------- requests

    def handle(self, request: Request, body: Any) -> None:
        """Raises a `TermalError` for what the rules refuse."""
        handler = self._handlers[request.op.name]
        if not self._open and request.op.name not in _ALWAYS:
            if len(self._waiting) >= HELD:
                raise not_started(request.op)
            self._waiting.append((handler, request, body))
            return
        if request.op.kind == "write" and self._journal.full and request.op.name not in _NEVER_REFUSED:
            raise Busy("the disk has not taken writes for a while; nothing was written", reason="diskStuck")
        self._run(handler, request, body)

    def _later(self, handler: Handler, request: Request, body: Any) -> None:
        """A request that was held: as `handle` does it, unless nobody waits for it any more."""
        try:
            if request.expired():
                raise not_started(request.op)
            self._run(handler, request, body)
        except TermalError as error:
            request.refuse(error)

    def _run(self, handler: Handler, request: Request, body: Any) -> None:
        before = self._journal.changes
        try:
            handler(request, body)
        except Refused as error:
            raise error_of(error) from error
        except TermalError:
            raise
        except Exception:
            if self._journal.changes != before:
                # Memory is half-changed: who asked is told of the fault, and a new start reads the truth.
                self._journal.halt()
                self._process.end_after_replies()
            raise

    # ------------------------------------------------------------------------ start

    def begin(self) -> None:
        """Nothing is written at a start of the daemon before coordination said that its file is there too."""
        if self._process.launch.start == "replacement":
            self._start(self._recovery.replacement)

    def _coordination_ready(self, request: Request, body: CoordinationReady) -> None:
        if self._registry.raise_session_number(body.highest_session):
            self._journal.touch_metadata()
        if not self._started:
            self._start(self._recovery.boot)
        self._journal.after(lambda: request.reply(Anything()))

    def _start(self, recover: Callable[[Any], None]) -> None:
        """One commit: the raised revision and counters, and the ends of turns that nobody holds."""
        self._started = True
        busy = [record for record in self._registry.sessions.values() if record.busy]
        change = self._book.change()
        recover(change)
        self._delegated.boot(change)
        if not change.empty or any(not record.busy for record in busy):
            change.commit()
        self._journal.touch_metadata()
        self._journal.after(self._begun)

    def _go_on(self) -> None:
        """Everybody is there: parents are resumed, then queues go on that wait for nobody."""
        self._delegated.begin()
        self._workflows.go_on()

    def _begun(self) -> None:
        self._open = True
        if self._process.launch.start == "boot":
            self._process.control.boot_done()
        else:
            self._recovery.ask()
        self._projects.begin()
        self._departures.begin()
        self._wake_reports.begin()
        waiting, self._waiting = self._waiting, []
        for handler, request, body in waiting:
            self._later(handler, request, body)

    # ----------------------------------------------------------------------- reads

    def _snapshot(self, request: Request, _: Anything) -> None:
        registry = self._registry
        snapshot = Snapshot(self._projections.state(), registry.instance_id, self._publisher.number, registry.revision)
        self._journal.settle(lambda: request.reply(snapshot))

    def _facts(self, request: Request, _: Anything) -> None:
        metadata = self._registry.metadata
        request.reply(
            StateFacts(
                server_instance_id=self._registry.instance_id,
                revision=self._registry.revision,
                databases=[facts(self._path, SCHEMA_VERSION, len(self._registry.quarantined))],
                sessions=self._counts(),
                delegations=RunningCount(sum(d.status == "running" for d in self._registry.delegations.values())),
                waits=PendingCount(len(metadata.delegation_waits or [])),
                outbox=OutboxCounts(
                    scope_deletions=len(metadata.pending_coordination_scope_deletions or []),
                    departures=len(metadata.pending_mailbox_departures or []),
                    wake_reports=len(metadata.pending_wake_reports or []),
                ),
                operations=[
                    OperationCount(operation, outcome, count)
                    for (operation, outcome), count in self._process.stats.counts.items()
                ],
            )
        )

    def _counts(self) -> SessionCounts:
        states = [record.status for record in self._registry.sessions.values()]
        return SessionCounts(
            total=len(states),
            active=states.count("active"),
            idle=states.count("idle"),
            approval=states.count("approval"),
            error=states.count("error"),
        )

    def _beat_facts(self) -> dict[str, int | float | str | None]:
        return {
            "sessions": len(self._registry.sessions),
            "quarantined": len(self._registry.quarantined),
            "revision": self._registry.revision,
            "commitMs": round(self._writer.commit_ms, 3),
        }

    # ---------------------------------------------------------------------- process

    def _notify(self) -> None:
        """From a database thread: its results are ready."""
        self._process.loop.threadsafe(self._finish)

    def _finish(self) -> None:
        self._writer.finish()
        self._reader.finish()

    def _look_at_files(self) -> None:
        if self._presence.lost():
            # Every commit looks too, and saves what it finds taken away; without work there is none.
            self._writer.submit(lambda _: None, lambda _, error: None)

    def _publish(self, event: Published) -> None:
        self._publisher.publish(encode(event))

    def _failed(self, error: Exception) -> None:
        """Memory is not what is stored: the next start of this worker reads the truth."""
        self._process.log.error("journal.failed", error=repr(error))
        os._exit(EXIT_INTERNAL)

    def _peers(self, running: Sequence[str]) -> None:
        self._mail.peers(running)
        self._runtimes.peers(running)
        self._recovery.peers(running)

    def _reload(self, config: Config) -> None:
        self._agents.reload(config)
        self._writer.set_durability(config.durability)

    def _close(self, deadline_s: float) -> None:
        self._reader.close(deadline_s)
        self._writer.close(deadline_s)
        self._runtimes.close()
        self._links.close()
        self._publisher.close()
