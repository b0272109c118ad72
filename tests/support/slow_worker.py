"""A worker with slow and endless operations, for the tests of a worker's life: ``python -m tests.support.slow_worker``.

``session.stop`` is answered when the folder of ``TERMAL_FAULTS`` holds a file ``answer``; ``session.kill`` never;
``refuse`` as an argument refuses the start, ``break`` breaks it, ``stuck`` breaks the end.
"""

import os
import sys
from pathlib import Path

from termal.bus.server import Request
from termal.config import Config
from termal.wire.session_operations import SESSION_KILL, SESSION_STOP, OneSession
from termal.wire.turns import JsonReply
from termal.worker.process import Duties, Process, main


class NotThisFile(Exception):
    """Stands for what a worker refuses."""


def start(process: Process) -> Duties:
    if "refuse" in sys.argv:
        raise NotThisFile("things.sqlite is of another build")
    if "break" in sys.argv:
        raise ZeroDivisionError("a bug")
    folder = Path(os.environ.get("TERMAL_FAULTS", "."))

    def slow(request: Request, _: OneSession) -> None:
        (folder / "asked").touch()

        def look() -> None:
            if (folder / "answer").exists():
                request.reply(JsonReply(b"{}"))

        process.loop.every(0.01, look)

    def endless(_: Request, __: OneSession) -> None:
        (folder / "asked").touch()

    def close(_: float) -> None:
        process.log.info("slow.closed")
        if "stuck" in sys.argv:
            raise ZeroDivisionError("a bug at the end")

    def reloaded(config: Config) -> None:
        process.log.info("slow.reloaded", durability=config.durability)

    process.serve({SESSION_STOP.name: slow, SESSION_KILL.name: endless})
    process.control.ready()
    return Duties(
        idle=lambda: True,
        close=close,
        depth=lambda: 7,
        facts=lambda: {"things": 3},
        peers=lambda running: process.log.info("slow.peers", running=list(running)),
        reload=reloaded,
    )


if __name__ == "__main__":
    sys.exit(main(start, refusals=(NotThisFile,)))
