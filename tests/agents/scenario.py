"""Steps that tests with a running agent share."""

import asyncio
import signal
from pathlib import Path

import msgspec
import psutil

from termal.wire.turns import ApprovalAsked
from tests.agents.kit import Scene
from tests.agents.recorder import AGENT_LIMIT_S, Recorder
from tests.support.waiting import wait_until
from workers.runtime.adapter import Adapter


async def prompt(adapter: Adapter, text: str) -> Recorder:
    turn = Recorder()
    await adapter.prompt(text, [], turn)
    return turn


def option(asked: ApprovalAsked, decision: str) -> str:
    """The id of the offered answer that stands for ``decision``."""
    return next(option.id for option in asked.options if option.decision == decision)


def sent(scene: Scene) -> str:
    """Everything that the newest request for an answer told the model, as JSON."""
    with_tools = [entry for entry in scene.model.asked() if entry["tools"]]
    return msgspec.json.encode(with_tools[-1]["body"]).decode()


def kill_agent(adapter: Adapter) -> None:
    """SIGKILL to the agent's own process, the one below the shim."""
    assert adapter.pid is not None
    (child,) = psutil.Process(adapter.pid).children()
    child.send_signal(signal.SIGKILL)


async def written_pid(file: Path) -> int:
    def read() -> str:
        return file.read_text().strip() if file.exists() else ""

    return int(await asyncio.to_thread(wait_until, read, f"a pid in {file.name}", AGENT_LIMIT_S))


async def gone(process: psutil.Process) -> None:
    def is_gone() -> bool:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE

    await asyncio.to_thread(wait_until, is_gone, f"the end of process {process.pid}")
