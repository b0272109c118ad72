"""What a runtime worker reports of a turn: numbered events, applied once, confirmed after the commit that has them."""

from collections import deque

from termal.bus.server import Request
from termal.log import Log
from termal.wire.turns import AnyTurnEvent, TurnConfirmed, TurnEnded, TurnReport
from workers.state.change import Book
from workers.state.scribe import Scribe
from workers.state.session_record import SessionRecord
from workers.state.turn import Turn
from workers.state.turns import Turns
from workers.state.workspace import Workspace, end_among


class Reports:
    def __init__(self, book: Book, turns: Turns, scribe: Scribe, workspace: Workspace, log: Log) -> None:
        self._workspace = workspace
        self._book = book
        self._turns = turns
        self._scribe = scribe
        self._log = log
        self._held: deque[tuple[Request, TurnReport]] = deque()
        book.journal.on_room.append(self._go_on)

    def report(self, request: Request, report: TurnReport) -> None:
        """The handler of ``turn.report``. A report of a turn that nobody waits for is answered as unknown."""
        record = self._book.registry.sessions.get(report.session_id)
        turn = record.turn if record is not None else None
        if record is None or turn is None or turn.id != report.turn_id:
            self._not_running(request, report, record)
        elif turn.phase == "ended":
            turn.on_drained.append(lambda: confirm_all(request, report))
        elif turn.phase == "stopping":
            turn.deferred.append((request, report))
        elif self._held or self._book.journal.crowded:
            self._held.append((request, report))
        else:
            self._apply(request, report, record, turn)

    def replay(self, turn: Turn) -> None:
        """A stop failed: what came meanwhile is applied in the order in which it came."""
        deferred, turn.deferred = turn.deferred, []
        for request, report in sorted(deferred, key=lambda entry: entry[1].first):
            self.report(request, report)

    def _not_running(self, request: Request, report: TurnReport, record: SessionRecord | None) -> None:
        last = record.last_turn if record is not None else None
        if record is not None and last is not None and last.turn_id == report.turn_id:
            # Of a turn that was stopped the end may come when the stop is done.
            end = end_among([report])
            self._workspace.late(record, report.turn_id, end.files, end.more_files)
            confirm_all(request, report)
            return
        self._log.info("turn.unknown", sessionId=report.session_id, turnId=report.turn_id)
        request.reply(TurnConfirmed(report.turn_id, 0, known=False))

    def _apply(self, request: Request, report: TurnReport, record: SessionRecord, turn: Turn) -> None:
        self._turns.took(record, turn)
        journal = self._book.journal
        before = turn.last_event
        known = turn.last_event + 1 - report.first
        # After a gap nothing is applied: the answer says from where to report again.
        for event in report.events[known:] if known >= 0 else []:
            if journal.crowded:
                self._held.appendleft((request, report))
                return
            turn.last_event += 1
            self._event(record, turn, event)
        if turn.phase == "ended" or record.turn is not turn:
            turn.on_drained.append(lambda: confirm_all(request, report))
            return
        through = turn.last_event
        record.confirms.append(lambda: request.reply(TurnConfirmed(turn.id, through)))
        if turn.last_event == before:
            # Nothing new, and maybe not on disk yet: the answer waits for a commit of its own.
            journal.touch(record)
        else:
            journal.stream(record, 0)

    def _event(self, record: SessionRecord, turn: Turn, event: AnyTurnEvent) -> None:
        if isinstance(event, TurnEnded):
            self._turns.end(record, turn, event.outcome, event.detail, event)
        else:
            self._scribe.write(record, turn, event)

    def _go_on(self) -> None:
        held, self._held = self._held, deque()
        while held:
            request, report = held.popleft()
            self.report(request, report)
            if self._held:
                self._held.extend(held)
                return


def confirm_all(request: Request, report: TurnReport) -> None:
    """Every event of ``report`` is done with."""
    request.reply(TurnConfirmed(report.turn_id, report.first + len(report.events) - 1))
