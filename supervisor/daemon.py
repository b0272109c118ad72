"""The supervisor's loop: one thread that waits for signals and control lines and then does what is due."""

import contextlib
import os
import select
import sys
import time
from collections.abc import Callable
from typing import TextIO

from supervisor.boot import Ground
from supervisor.health import judge_daemon
from supervisor.report import Reports, remove_announcement
from supervisor.setting import VERSION
from supervisor.shutdown import Shutdown
from supervisor.spare import Spare
from supervisor.tree import Limits, Spec
from supervisor.worker import Worker
from termal.config import ConfigRefused, read_config
from termal.model.status import DaemonState, ProcessReport
from termal.procs.notify import Notifier
from termal.procs.orphans import Orphans
from termal.procs.port import PortInUse, listen
from termal.procs.signals import HANG_UP, INTERRUPT, TERMINATE, Signals
from termal.procs.tree import sweep
from termal.wire.control import EXIT_INTERNAL, EXIT_OK, EXIT_PORT, Peers, Reload, Serving

BACKLOG = 2048
_LONGEST_WAIT_S = 1.0
_PAUSE_S = 2.0
"""A pass that comes this much too late means that we stood still ourselves."""
_CLEANUP_S = 3.0
_SLOW_START_S = 1.0
"""A start that takes longer (a migration) says on the terminal what it waits for."""


class Daemon:
    """All workers of one daemon. Raises OSError where not even its address can be written."""

    def __init__(self, ground: Ground, specs: list[Spec], limits: Limits, signals: Signals) -> None:
        self._limits, self._signals = limits, signals
        self._setting, self._log = ground.setting, ground.log
        self._workers = {spec.name: Worker(spec, self._setting, limits, self._log) for spec in specs}
        self._roles = {spec.name: spec.role for spec in specs}
        self._wanted = {spec.name for spec in specs if spec.restart == "permanent"}
        self._notifier = Notifier(self._setting.environment)
        self._orphans = Orphans(portable=self._setting.portable, grace_s=limits.orphan_grace_s)
        self._reports = Reports(self._setting, self._log, limits.report_s)
        self._reports.announce()
        self._shutdown: Shutdown | None = None
        self._exit_code, self._end_reason = EXIT_OK, "stopped"
        self._began = time.monotonic()
        self._serving = False
        self._listening = False
        self._told_running: list[str] = []
        self._told_health: tuple[DaemonState, str | None] | None = None
        self._due: dict[str, float] = {}
        """When each of the recurring duties comes up again, in monotonic seconds."""

    def serve(self) -> int:
        """Start the workers and keep them; the exit status, when every one of them has ended."""
        self._log.info("daemon.starting", version=VERSION, home=str(self._setting.home.root), url=self._setting.url)
        now = time.monotonic()
        while not self._advance(now):
            expected = self._next_due(now)
            self._wait(max(0.0, expected - now))
            now = time.monotonic()
            if now - expected > _PAUSE_S:
                self._forgive(now - expected)
        self._end()
        return self._exit_code

    # -- one pass

    def _wait(self, wait_s: float) -> None:
        """Wait for signals and lines, at most ``wait_s``, and take them."""
        poller = select.poll()
        poller.register(self._signals.fd, select.POLLIN)
        by_fd: dict[int, Worker] = {}
        for worker in self._workers.values():
            if worker.run is not None and not worker.run.channel.closed and not worker.run.channel.broken:
                by_fd[worker.run.channel.fd] = worker
                poller.register(worker.run.channel.fd, select.POLLIN)
        for fd, _ in poller.poll(int(wait_s * 1000) + 1):
            if fd in by_fd:
                by_fd[fd].listen(time.monotonic())
        for number in self._signals.read():
            self._obey(number)

    def _advance(self, now: float) -> bool:
        """Do what is due; whether everything has ended."""
        died = [worker for worker in self._workers.values() if worker.poll(now)]
        for worker in self._workers.values():
            worker.watch(now)
            while worker.needed:
                self._want(worker.needed.pop(), now)
        if self._shutdown is None:
            self._start_what_is_due(now)
            self._keep_spares(now)
            self._judge_failures(now)
        if self._shutdown is not None:
            again_at = self._shutdown.advance(now)
            if again_at is None:
                return True
            self._due["shutdown"] = again_at
        if died:
            self._due["orphans"] = now
        self._do("orphans", now, self._look_for_orphans)
        if self._notifier.watchdog_s is not None:
            self._do("watchdog", now, self._feed_watchdog)
        self._tell_peers()
        self._tell_health(now)
        return False

    def _next_due(self, now: float) -> float:
        due = [at for worker in self._workers.values() for at in worker.next_due()] if self._shutdown is None else []
        if self._serving and self._shutdown is None:
            due += [worker.spare_due_at for worker in self._workers.values()]
        return max(now, min([*due, *self._due.values(), now + _LONGEST_WAIT_S]))

    def _do(self, duty: str, now: float, action: Callable[[float], float]) -> None:
        if now >= self._due.get(duty, 0.0):
            self._due[duty] = action(now)

    def _forgive(self, gap_s: float) -> None:
        self._log.warning("daemon.stood_still", seconds=round(gap_s, 1))
        for worker in self._workers.values():
            worker.forgive(gap_s)

    # -- starting

    def _start_what_is_due(self, now: float) -> None:
        for worker in self._workers.values():
            if worker.run is not None or worker.gave_up is not None or worker.name not in self._wanted:
                continue
            if self._shutdown is not None:
                return
            if worker.starts == 0:
                worker.due_at = now
            if worker.due_at is not None and now >= worker.due_at:
                # The interpreters of a starting daemon come up side by side; their work begins in order.
                wait = not self._may_start(worker.spec)
                if wait or self._open_port(worker.spec):
                    worker.start([name for name in self._running() if name != worker.name], now, wait=wait)
        self._let_go(now)

    def _keep_spares(self, now: float) -> None:
        if self._serving:
            for worker in self._workers.values():
                worker.keep_spare(self._running(), now)

    def _let_go(self, now: float) -> None:
        for worker in self._workers.values():
            if worker.run is not None and worker.run.waits and self._may_start(worker.spec):
                if not self._open_port(worker.spec):
                    return
                worker.go([name for name in self._running() if name != worker.name], now)

    def _may_start(self, spec: Spec) -> bool:
        """Whether everything that it needs has been there, or is something that the daemon can do without."""
        needed = [self._workers[name] for name in spec.after]
        return all(
            other.was_ready or (other.spec.role == "optional" and other.failing_since is not None) for other in needed
        )

    def _open_port(self, spec: Spec) -> bool:
        if not spec.listens or self._listening:
            return True
        try:
            listen(self._setting.bound, BACKLOG)
        except PortInUse as error:
            self._refuse(EXIT_PORT, str(error))
            return False
        self._listening = True
        return True

    def _want(self, name: str, now: float) -> None:
        worker = self._workers.get(name)
        if worker is None or worker.spec.restart != "transient":
            self._log.repeating("daemon.unknown_worker_wanted", worker=name[:100])
        elif self._shutdown is None:
            self._wanted.add(name)
            if worker.run is None and worker.due_at is None and worker.gave_up is None:
                worker.due_at = now

    def _running(self) -> list[str]:
        return [worker.name for worker in self._workers.values() if worker.run is not None]

    # -- failing and ending

    def _judge_failures(self, now: float) -> None:
        for worker in self._workers.values():
            if worker.spec.role == "optional" or worker.failing_since is None:
                continue
            if worker.gave_up is not None and not self._serving:
                self._refuse(worker.gave_up, f"{worker.name} refused to start: {worker.detail}")
                return
            if worker.gave_up is None and now - worker.failing_since >= self._limits.give_up_s:
                self._refuse(EXIT_INTERNAL, f"{worker.name} keeps failing: {worker.detail}")
                return

    def _refuse(self, code: int, message: str) -> None:
        """End the daemon with ``code``, in order."""
        self._exit_code, self._end_reason = code, message
        self._log.error("daemon.ends", code=code, message=message)
        _say(sys.stderr, f"termal: {message}")
        self._begin_shutdown()

    def _obey(self, number: int) -> None:
        if number == HANG_UP:
            self._reload()
        elif number in (TERMINATE, INTERRUPT):
            if self._shutdown is None:
                self._log.info("daemon.stopping", signal=number)
                self._begin_shutdown()
            else:
                self._log.warning("daemon.killing", signal=number)
                self._shutdown.kill_all()

    def _begin_shutdown(self) -> None:
        self._notifier.stopping()
        deadline = time.monotonic() + self._limits.stop_s
        self._shutdown = Shutdown(list(self._workers.values()), self._log, deadline)

    def _reload(self) -> None:
        self._notifier.reloading()
        try:
            read_config(self._setting.home.config)
        except ConfigRefused as error:
            # Everybody keeps what they read last: it was right.
            self._log.error("config.refused", error=str(error))
        else:
            self._log.info("config.reloaded")
            for worker in self._workers.values():
                worker.tell(Reload())
        if self._serving:
            self._notifier.ready(self._status_line())

    def _end(self) -> None:
        """No worker is left: end whatever they left behind, and say so."""
        if not self._orphans.end_all(_CLEANUP_S):
            self._log.error("daemon.orphans_left")
        if self._setting.portable:
            swept = sweep(self._setting.home.mark, portable=True)
            if swept.ended or swept.left:
                self._log.warning("daemon.leftovers", ended=swept.ended, left=swept.left)
        rows = self._process_reports(ended=True)
        self._reports.write(("down", self._end_reason), rows, time.monotonic(), serving=False, at_once=True)
        remove_announcement(self._setting.home)
        self._log.info("daemon.ended", code=self._exit_code)

    # -- telling others

    def _tell_peers(self) -> None:
        running = self._running()
        if running == self._told_running:
            return
        self._told_running = running
        for worker in self._workers.values():
            worker.tell(Peers(running))

    def _tell_health(self, now: float) -> None:
        processes = self._process_reports()
        if not self._serving and self._shutdown is None and self._all_ready_once():
            self._serving = True
            self._announce()
        state = judge_daemon(processes, self._roles, serving=self._serving)
        if state != self._told_health:
            self._told_health = state
            self._log.info("daemon.health", state=state[0], reason=state[1])
            if not self._serving and self._shutdown is None and now - self._began >= _SLOW_START_S:
                _say(sys.stderr, f"termal: {state[1]}")
            self._notifier.status(self._status_line())
        self._due["report"] = self._reports.write(state, processes, now, serving=self._serving)

    def _process_reports(self, *, ended: bool = False) -> list[ProcessReport]:
        own = ProcessReport(
            name="supervisor",
            pid=None if ended else os.getpid(),
            state="stopped" if ended else "ready",
            started_at=self._setting.started_at,
            start_time_s=None if ended else self._setting.start_time_s,
        )
        spares = [row for spare in self._spares() if (row := spare.report()) is not None]
        return [own, *(worker.report() for worker in self._workers.values() if worker.starts), *spares]

    def _spares(self) -> list[Spare]:
        return [worker.spare for worker in self._workers.values() if worker.spare is not None]

    def _all_ready_once(self) -> bool:
        return all(worker.was_ready for worker in self._workers.values() if worker.spec.role != "optional")

    def _announce(self) -> None:
        home, url = self._setting.home.root, self._setting.url
        self._log.info("daemon.serving", url=url)
        _say(sys.stdout, f"TermAl {VERSION} serving {url} (home {home})")
        self._notifier.ready("serving")
        for worker in self._workers.values():
            worker.tell(Serving())

    def _status_line(self) -> str:
        state, reason = self._told_health or ("down", "starting")
        return f"{state}: {reason}" if reason else f"{state}, {self._setting.url}"

    def _look_for_orphans(self, now: float) -> float:
        known = {worker.pid for worker in self._workers.values() if worker.pid is not None}
        known |= {spare.pid for spare in self._spares() if spare.pid is not None}
        again_s = self._orphans.look(known, now)
        if self._orphans.ended:
            self._log.warning("daemon.orphans_ended", pids=self._orphans.ended)
            self._orphans.ended = []
        return now + again_s

    def _feed_watchdog(self, now: float) -> float:
        self._notifier.watchdog()
        return now + (self._notifier.watchdog_s or _LONGEST_WAIT_S)


def _say(stream: TextIO, line: str) -> None:
    """To the terminal, or to whoever started us; a closed pipe there is no reason to end."""
    with contextlib.suppress(OSError, ValueError):
        stream.write(line + "\n")
        stream.flush()
