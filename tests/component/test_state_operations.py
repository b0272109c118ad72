"""The operations that `state` announces before its store is open are those that it has handlers for."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from termal.bus.loop import PollLoop
from termal.config import Config
from termal.home import Home
from termal.log import Log
from termal.wire.launch import Launch
from termal.worker.process import Process
from termal.worker.stats import Stats
from workers.state.load import load
from workers.state.operations import NAMES, Operations
from workers.state.store_schema import open_store


def test_every_operation_that_is_announced_has_its_handler_and_no_other_has_one(home_dir: Path, run_dir: Path) -> None:
    home_dir.mkdir(mode=0o700)
    loop, log, home = PollLoop(), Log("state", None), Home(home_dir)
    launch = Launch(name="state", home=str(home_dir), run_dir=str(run_dir), control_fd=-1, start="boot", mark="test")
    control = SimpleNamespace(need=lambda worker: None)
    # A process of its own would keep its end of the control line for ever.
    process = SimpleNamespace(
        loop=loop, log=log, home=home, launch=launch, config=Config(), control=control, stats=Stats()
    )
    open_store(home.termal_db, durability="normal")
    operations = Operations(cast("Process", process), load(home.termal_db, log, fresh=True))
    try:
        served = operations._table()
    finally:
        operations.duties.close(time.monotonic() + 5)
        loop.close()
    assert len(set(NAMES)) == len(NAMES)
    assert set(served) == set(NAMES)
