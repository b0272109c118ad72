"""One run of a supervised process: from its start until it was waited for."""

import os

from supervisor.channel import Channel
from supervisor.output import Output
from supervisor.setting import Setting
from supervisor.tree import Spec
from termal.procs.spawn import Child, spawn
from termal.procs.tree import start_time
from termal.wire.control import Beat
from termal.wire.launch import StartKind


class Run:
    """What is known of it. Times are monotonic seconds. ``waits``: it was not told to begin yet."""

    def __init__(self, child: Child, channel: Channel, now: float, ready_by: float, *, waits: bool) -> None:
        self.child = child
        self.channel = channel
        self.heard_at = now
        self.ready_by = ready_by
        self.waits = waits
        self.ready_at: float | None = None
        self.extended_to = 0.0
        self.kill_at: float | None = None
        self.missed_start = False
        self.why = ""
        """Why the supervisor ended it, or what it refused."""
        self.beat = Beat()
        self.started_s = start_time(child.pid)


def start_run(
    spec: Spec, setting: Setting, output: Output, *, kind: StartKind, running: list[str], now: float, wait: bool
) -> Run:
    """Start the program of ``spec``. Raises OSError when it, or a descriptor for it, cannot be had."""
    channel = Channel()
    try:
        launch = setting.launch(spec.name, kind, channel.worker_fd, running, listens=spec.listens, wait=wait)
        keep = [channel.worker_fd, *([launch.listen_fd] if launch.listen_fd is not None else [])]
        output_fd = output.open()
        try:
            child = spawn(
                spec.argv,
                environment=setting.worker_environment(launch),
                output_fd=output_fd,
                keep_fds=keep,
                portable=setting.portable,
            )
        finally:
            os.close(output_fd)
    except OSError:
        channel.close()
        raise
    channel.handed_over()
    return Run(child, channel, now, now + spec.ready_s, waits=wait)
