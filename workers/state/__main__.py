"""``python -m workers.state``: take the role, open and load `termal.sqlite`, serve."""

import sys

from termal.bus.server import Request
from termal.store.files import StoreRefused
from termal.worker.patience import REMIND_S, Patience
from termal.worker.process import Duties, Process, main
from workers.state.load import load
from workers.state.operations import NAMES, Operations
from workers.state.store_schema import open_store


def start(process: Process) -> Duties:
    """Raises `StoreRefused` for a file that this build must not touch."""
    worker: list[Operations] = []
    process.ends_on_fault = True

    def handle(request: Request, body: object) -> None:
        worker[0].handle(request, body)

    # The role comes first: no second process may read a file that this one is about to change.
    process.serve(dict.fromkeys(NAMES, handle))
    path = process.home.termal_db
    upgrading = Patience(process.control.extend, "upgrading termal.sqlite")
    found = open_store(path, durability=process.config.durability, log=process.log, going_on=upgrading.ask)
    loading = Patience(process.control.extend, "loading termal.sqlite", after_s=REMIND_S)
    registry = load(path, process.log, fresh=found is None, going_on=loading.ask)
    worker.append(Operations(process, registry))
    process.control.ready()
    worker[0].begin()
    return worker[0].duties


if __name__ == "__main__":
    sys.exit(main(start, refusals=(StoreRefused,)))
