"""A second interpreter of a worker, everything imported, owning nothing: it takes over when the worker dies.

A restart costs then what the worker's own work costs (open, load, bind) and not the 100 ms of its imports.
"""

from supervisor.output import Output
from supervisor.run import Run, start_run
from supervisor.setting import Setting
from supervisor.tree import Spec
from termal.log import Log
from termal.model.status import ProcessReport
from termal.procs.signals import KILL

SETTLED_S = 0.25
"""Started this long after its worker was ready: a recovering daemon needs the processor for itself."""
_AGAIN_S = 5.0
"""A spare that died by itself is replaced after this time."""


class Spare:
    """Nothing waits for a spare and nothing breaks without one."""

    def __init__(self, spec: Spec, setting: Setting, output: Output, log: Log) -> None:
        self._spec, self._setting, self._output, self._log = spec, setting, output, log
        self._run: Run | None = None
        self.due_at = 0.0

    @property
    def pid(self) -> int | None:
        return self._run.child.pid if self._run else None

    def keep(self, now: float, running: list[str]) -> None:
        """Start one if there is none."""
        if self._run is not None or now < self.due_at:
            return
        self.due_at = now + _AGAIN_S
        try:
            self._run = start_run(
                self._spec, self._setting, self._output, kind="replacement", running=running, now=now, wait=True
            )
        except OSError as error:
            self._log.repeating("spare.cannot_start", worker=self._spec.name, error=str(error))

    def poll(self) -> None:
        """Notice its end."""
        if self._run is not None and self._run.child.poll() is not None:
            self._run.channel.close()
            self._run = None

    def take(self) -> Run | None:
        """The waiting run, which is the caller's from now on."""
        self.poll()
        run, self._run = self._run, None
        return run

    def end(self) -> None:
        """It owns nothing that would have to be closed."""
        if self._run is not None:
            self._run.child.signal_group(KILL)

    def report(self) -> ProcessReport | None:
        if self._run is None:
            return None
        return ProcessReport(
            name=f"{self._spec.name}-spare", pid=self.pid, state="ready", start_time_s=self._run.started_s
        )
