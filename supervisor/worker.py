"""One supervised process over all its runs: what it said, how it ended, when it starts again."""

import math
import random
import time

from supervisor.health import judge_silence
from supervisor.output import Output, one_line
from supervisor.policy import Ended, GiveUp, History, Hold, RestartAt, RestartNow, Verdict, next_restart, remember
from supervisor.run import Run, start_run
from supervisor.setting import Setting
from supervisor.spare import SETTLED_S, Spare
from supervisor.tree import Limits, Spec
from termal.clock import millisecond_text
from termal.log import Log
from termal.model.status import LastExit, Latency, ProcessReport, ProcessState
from termal.procs.signals import ABORT, KILL, TERMINATE
from termal.procs.spawn import Exit
from termal.wire.control import Beat, BootDone, Extend, Go, Need, Ready, Refused, Stop, ToSupervisor, ToWorker
from termal.wire.launch import StartKind

EXIT_CANNOT_RUN = 127
_MESSAGE_CHARACTERS = 1000
_LAST_READS = 16
"""What a worker wrote right before its end is still read, but a flood is not."""
_AGAIN_S = 1.0


class Worker:
    """``due_at``: when it wants to be started, None for not at all. ``failing_since``: held or given up since then."""

    def __init__(self, spec: Spec, setting: Setting, limits: Limits, log: Log) -> None:
        self.spec = spec
        self.state: ProcessState = "stopped"
        self.run: Run | None = None
        self.due_at: float | None = None
        self.was_ready = False
        self.failing_since: float | None = None
        self.gave_up: int | None = None
        self.spare: Spare | None = None
        self.detail: str | None = None
        self.needed: list[str] = []
        """Other workers that it asked for; whoever reads it empties it."""
        self._setting, self._limits, self._log = setting, limits, log
        self._output = Output(setting.home.logs / f"{spec.name}.stderr.log")
        if spec.spare:
            self.spare = Spare(spec, setting, self._output, log)
        self._history = History()
        self._boot_done = False
        self.starts = 0
        self._started_at: str | None = None
        self._last_exit: LastExit | None = None
        self._stopping = False

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def pid(self) -> int | None:
        return self.run.child.pid if self.run else None

    # -- starting

    def start(self, running: list[str], now: float, *, wait: bool = False) -> None:
        """Start a run; with ``wait`` it only comes up and begins with `go`. A program that cannot be started counts as
        one that ended at once."""
        self.due_at = None
        self.starts += 1
        self._started_at = now_rfc3339()
        try:
            first = not self._boot_done if self.spec.has_boot else not self.was_ready
            kind: StartKind = "boot" if first else "replacement"
            self.run = self._stand_in(kind, running, now) or start_run(
                self.spec, self._setting, self._output, kind=kind, running=running, now=now, wait=wait
            )
        except OSError as error:
            self._log.error("worker.cannot_start", worker=self.name, error=str(error))
            self._over(Exit(EXIT_CANNOT_RUN, None), now, None, why=f"cannot be started: {error.strerror}")
            return
        self.state = "starting"
        self._log.info("worker.started", worker=self.name, child=self.pid, starts=self.starts)

    def go(self, running: list[str], now: float) -> None:
        """What it waited for is there."""
        if self.run is not None and self.run.waits:
            _let_go(self.run, "boot", running, now + self.spec.ready_s)

    def keep_spare(self, running: list[str], now: float) -> None:
        """Have a second interpreter waiting, once the first has settled."""
        settled = self.run is not None and self.run.ready_at is not None and now - self.run.ready_at >= SETTLED_S
        if self.spare is not None and settled:
            self.spare.keep(now, running)

    @property
    def spare_due_at(self) -> float:
        """When `keep_spare` has something to do."""
        if self.spare is None or self.spare.pid is not None or self.run is None or self.run.ready_at is None:
            return math.inf
        return max(self.run.ready_at + SETTLED_S, self.spare.due_at)

    @property
    def gone(self) -> bool:
        """No process of it is left."""
        return self.run is None and (self.spare is None or self.spare.pid is None)

    def _stand_in(self, kind: StartKind, running: list[str], now: float) -> Run | None:
        run = self.spare.take() if self.spare is not None and kind == "replacement" else None
        if run is not None:
            run.heard_at = now
            _let_go(run, kind, running, now + self.spec.ready_s)
        return run

    # -- while it runs

    def listen(self, now: float) -> None:
        """Take what it said."""
        run = self.run
        if run is None:
            return
        for line in run.channel.receive(now):
            run.heard_at = now
            self._take(run, line, now)
        if run.channel.broken and run.kill_at is None:
            self._end(run, now, run.channel.broken)

    def watch(self, now: float) -> None:
        """Act on what it did not say in time."""
        run = self.run
        if run is None:
            return
        run.channel.flush()
        if run.kill_at is not None:
            if now >= run.kill_at:
                run.child.signal_group(KILL)
                run.kill_at = now + _AGAIN_S
        elif run.waits:
            return
        elif run.ready_at is None:
            if now >= run.ready_by:
                run.missed_start = True
                self._end(run, now, "was not ready in time")
        else:
            self._watch_silence(run, now)
            if now - run.ready_at >= self._limits.rules.healthy_s:
                self._history, self.failing_since = History(), None

    def tell(self, line: ToWorker) -> None:
        if self.run is not None:
            self.run.channel.send(line)

    def forgive(self, gap_s: float) -> None:
        """The supervisor itself stood still for ``gap_s`` seconds (a paused machine): nobody is late for that."""
        if self.run is not None:
            self.run.heard_at += gap_s
            self.run.ready_by += gap_s

    def next_due(self) -> list[float]:
        """When something is to be done here unless the worker says something first."""
        due = [] if self.due_at is None else [self.due_at]
        if (run := self.run) is not None:
            if run.kill_at is not None:
                due.append(run.kill_at)
            elif run.waits:
                return due
            elif run.ready_at is None:
                due.append(run.ready_by)
            else:
                last = max(run.heard_at, run.extended_to)
                due.append(last + (self._limits.abort_s if self.state == "unresponsive" else self._limits.late_s))
        return due

    def _take(self, run: Run, line: ToSupervisor, now: float) -> None:
        if isinstance(line, Beat):
            run.beat = line
        elif isinstance(line, Ready):
            run.ready_at = now if run.ready_at is None else run.ready_at
            # What a long start asked for is over with it.
            run.extended_to = 0.0
            self.was_ready = True
            self.detail = None
            self._log.info("worker.ready", worker=self.name, child=run.child.pid)
        elif isinstance(line, Extend):
            run.extended_to = now + min(max(line.seconds, 0.0), self._limits.longest_extension_s)
            run.ready_by = max(run.ready_by, run.extended_to)
            self.detail = one_line(line.why)[:_MESSAGE_CHARACTERS] or self.detail
        elif isinstance(line, Need):
            self.needed.append(line.worker)
        elif isinstance(line, BootDone):
            self._boot_done = True
        elif isinstance(line, Refused):
            run.why = one_line(line.message)[:_MESSAGE_CHARACTERS]
        if run.ready_at is not None and run.kill_at is None:
            self.state = "ready"

    def _watch_silence(self, run: Run, now: float) -> None:
        verdict = judge_silence(now - max(run.heard_at, run.extended_to), self._limits)
        if verdict == "fine":
            return
        if self.state != "unresponsive":
            self.state = "unresponsive"
            self._log.warning("worker.unresponsive", worker=self.name, child=run.child.pid)
        if verdict == "abort":
            self._end(run, now, f"no heartbeat for {self._limits.abort_s:g} s")

    def _end(self, run: Run, now: float, why: str) -> None:
        """Have it write its stacks and end; SIGKILL a little later unless it is gone by then."""
        run.why = run.why or why
        run.kill_at = now + self._limits.kill_s
        self._log.warning("worker.ended_by_supervisor", worker=self.name, child=run.child.pid, why=why)
        # The group: of the gateway, the process that hangs is not the one that we know.
        run.child.signal_group(ABORT)

    # -- its end

    def poll(self, now: float) -> bool:
        """Whether the run has ended since the last call."""
        if self.spare is not None:
            self.spare.poll()
        run = self.run
        if run is None or (how := run.child.poll()) is None:
            return False
        for _ in range(_LAST_READS):
            if run.channel.closed or run.channel.broken:
                break
            self.listen(now)
        run.channel.close()
        self.run = None
        self._over(how, now, run)
        return True

    def stop(self, deadline: float) -> None:
        """Let it drain and end before ``deadline``; it is not started again."""
        self._stopping, self.due_at = True, None
        if self.spare is not None:
            self.spare.end()
        if self.run is None:
            # What it failed of is why the daemon ends, perhaps.
            self.state = self.state if self.state == "failed" else "stopped"
            return
        self.run.channel.send(Stop(deadline))
        if self.spec.listens:
            self.run.child.signal(TERMINATE)

    def kill(self) -> None:
        self._stopping, self.due_at = True, None
        if self.spare is not None:
            self.spare.end()
        if self.run is not None:
            self.run.child.signal_group(KILL)
            # One that stands still (SIGSTOP) or sits in another group of its own session is not passed over.
            self.run.child.signal(KILL)

    def report(self) -> ProcessReport:
        beat = self.run.beat if self.run else Beat()
        return ProcessReport(
            name=self.name,
            pid=self.pid,
            state=self.state,
            started_at=self._started_at,
            start_time_s=self.run.started_s if self.run else None,
            restarts=max(0, self.starts - 1),
            last_exit=self._last_exit,
            queue_depth=beat.queue_depth,
            op_latency_ms=Latency(p50=beat.p50_ms, p99=beat.p99_ms),
            detail=self.detail,
            facts=beat.facts,
        )

    def _over(self, how: Exit, now: float, run: Run | None, why: str = "") -> None:
        self._last_exit = LastExit(code=how.code, signal=how.signal, at=now_rfc3339())
        if self._stopping or (self.spec.restart == "transient" and how.code == 0):
            self.state, self.detail = "stopped", None
            self._log.info("worker.stopped", worker=self.name, code=how.code, signal=how.signal)
            return
        served_s = now - run.ready_at if run is not None and run.ready_at is not None else None
        ended = Ended(how.code, served_s, run is not None and run.missed_start)
        self._history = remember(self._history, ended, now, self._limits.rules)
        rules = self._limits.rules
        verdict = next_restart(self._history, ended, now, jitter=random.uniform(-1, 1), rules=rules)  # noqa: S311
        words = why or (run.why if run is not None else "") or self._output.last_words()
        self._obey(verdict, now)
        how_text = f"exit {how.code}" if how.signal is None else f"signal {how.signal}"
        again = f", tried again every {rules.hold_s:g} s" if isinstance(verdict, Hold) else ""
        self.detail = f"{how_text}{again}" + (f": {words}" if words else "")
        self._log.warning("worker.died", worker=self.name, detail=self.detail, verdict=type(verdict).__name__)

    def _obey(self, verdict: Verdict, now: float) -> None:
        self.state = "failed" if isinstance(verdict, Hold | GiveUp) else "restarting"
        if isinstance(verdict, RestartNow):
            self.due_at = now
        elif isinstance(verdict, RestartAt):
            self.due_at = verdict.at
        else:
            self.failing_since = self.failing_since if self.failing_since is not None else now
            if isinstance(verdict, GiveUp):
                self.gave_up = verdict.code
            else:
                self.due_at = verdict.until


def _let_go(run: Run, kind: StartKind, running: list[str], ready_by: float) -> None:
    run.waits, run.ready_by = False, ready_by
    run.channel.send(Go(kind, running))


def now_rfc3339() -> str:
    return millisecond_text(time.time_ns())
