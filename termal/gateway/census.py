"""Gathers the figures of the whole daemon: the supervisor's report, psutil, and what each worker says of itself.

A worker that is away or late leaves its part at zero; the answer never waits for it longer than its short deadline.
"""

import asyncio
import os
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple, TypeVar

import termal
from termal.gateway.context import Gateway
from termal.gateway.report import judge, read_report
from termal.model.status import (
    AgentProcess,
    DaemonReport,
    DaemonStatus,
    MailboxCounts,
    OutboxCounts,
    PendingCount,
    ProcessReport,
    ProcessStatus,
    RunningCount,
    SessionCounts,
)
from termal.procs.meter import Meter, TreeUsage, Usage
from termal.wire.coordination_operations import COORDINATION_FACTS, WAKE_FACTS
from termal.wire.errors import TermalError
from termal.wire.facts import CoordinationFacts, OperationCount, StateFacts, WorkerFacts
from termal.wire.operation import Operation
from termal.wire.runtime_operations import AGENT_TREES, AgentTrees
from termal.wire.session_operations import STATE_FACTS
from termal.wire.turns import AgentTree, Anything

FACTS_S = 1.0
ABSENT_S = 0.1
RUNTIME = "runtime-"
_NO_USAGE = Usage(0.0, 0, None, 0, 0)

ReplyT = TypeVar("ReplyT")


class Figures(NamedTuple):
    """``operations`` are the counts of each worker by its name."""

    status: DaemonStatus
    operations: dict[str, list[OperationCount]]


class _Told(NamedTuple):
    """What the workers said; None of those that said nothing in time."""

    state: StateFacts | None
    coordination: CoordinationFacts | None
    wake: WorkerFacts | None
    runtimes: dict[str, AgentTrees]


class Census:
    """One per gateway process: it remembers the last look at each process, for its CPU share."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._processes = Meter()
        self._agents = Meter()
        self._turn = asyncio.Lock()
        self._instance_id = ""

    def forget_instance(self) -> None:
        """State is gone; the next one has another id."""
        self._instance_id = ""

    async def instance_id(self, trace: str) -> str:
        """The id of the state worker's life, "" while none answers."""
        if not self._instance_id and self._gateway.is_up("state"):
            facts = await self._facts("state", STATE_FACTS, trace)
            self._instance_id = facts.server_instance_id if facts is not None else ""
        return self._instance_id

    async def take(self, trace: str) -> Figures:
        report = read_report(self._gateway.home)
        rows = report.processes if report is not None else []
        told = await self._ask_all([row.name for row in rows if row.name.startswith(RUNTIME)], trace)
        trees = [tree for runtime in told.runtimes.values() for tree in runtime.agents]
        # The meters are not made for two at once.
        async with self._turn:
            usage, agents = await asyncio.to_thread(self._measure, rows, trees)
        status = self._status(report, told, [_process(row, usage) for row in rows], agents)
        return Figures(status, _operations(told))

    # -------------------------------------------------------------------- workers

    async def _ask_all(self, runtimes: list[str], trace: str) -> _Told:
        ask_state = self._facts("state", STATE_FACTS, trace)
        ask_coordination = self._facts("coordination", COORDINATION_FACTS, trace)
        ask_wake = self._facts("wake", WAKE_FACTS, trace)
        ask_runtimes = self._trees(runtimes, trace)
        return _Told(*await asyncio.gather(ask_state, ask_coordination, ask_wake, ask_runtimes))

    async def _trees(self, runtimes: list[str], trace: str) -> dict[str, AgentTrees]:
        asked = {}
        for name in runtimes:
            call = self._facts(name, AGENT_TREES, trace)
            asked[name] = asyncio.create_task(call)
        return {name: trees for name, task in asked.items() if (trees := await task) is not None}

    async def _facts(self, worker: str, op: Operation[Anything, ReplyT], trace: str) -> ReplyT | None:
        try:
            return await self._gateway.ask(worker, op, Anything(), trace=trace, timeout_s=FACTS_S, absent_s=ABSENT_S)
        except TermalError:
            return None

    # ------------------------------------------------------------------ processes

    def _measure(
        self, rows: list[ProcessReport], trees: list[AgentTree]
    ) -> tuple[dict[int, Usage], list[AgentProcess]]:
        """Runs on a thread of its own: the figures come from the kernel, one file after the other."""
        usage = self._processes.usage({os.getpid(), *(row.pid for row in rows if row.pid is not None)})
        # The process that the supervisor knows only watches over this one, which does the work.
        mine, parent = os.getpid(), os.getppid()
        if mine in usage and parent in usage:
            usage[parent] = _sum(usage[parent], usage[mine])
        measured = self._agents.tree_usage([tree.pid for tree in trees])
        return usage, [_agent(tree, measured[tree.pid]) for tree in trees if tree.pid in measured]

    def _status(
        self,
        report: DaemonReport | None,
        told: _Told,
        processes: list[ProcessStatus],
        agents: list[AgentProcess],
    ) -> DaemonStatus:
        verdict = judge(report, self._gateway.is_up)
        launch, state = self._gateway.launch, told.state
        databases = [*(state.databases if state else []), *(told.coordination.databases if told.coordination else [])]
        return DaemonStatus(
            state=verdict.state,
            version=report.version if report else termal.__version__,
            home=launch.home,
            url=report.url if report else f"http://{launch.host}:{launch.port}",
            server_instance_id=state.server_instance_id if state else self._instance_id,
            started_at=report.started_at if report else None,
            uptime_seconds=_age_s(report.started_at) if report else 0.0,
            processes=processes,
            databases=databases,
            sessions=state.sessions if state else SessionCounts(),
            agents=agents,
            mailboxes=told.coordination.mailboxes if told.coordination else MailboxCounts(),
            delegations=state.delegations if state else RunningCount(),
            waits=state.waits if state else PendingCount(),
            outbox=state.outbox if state else OutboxCounts(),
            reason=verdict.reason,
        )


def _process(row: ProcessReport, usages: dict[int, Usage]) -> ProcessStatus:
    usage = usages.get(row.pid or 0, _NO_USAGE)
    return ProcessStatus(
        name=row.name,
        pid=row.pid,
        state=row.state,
        started_at=row.started_at,
        uptime_seconds=round(max(0.0, time.time() - row.start_time_s), 1) if row.pid and row.start_time_s else 0.0,
        restarts=row.restarts,
        last_exit=row.last_exit,
        cpu_percent=usage.cpu_percent,
        rss_bytes=usage.rss_bytes,
        uss_bytes=usage.uss_bytes,
        fds=usage.fds,
        threads=usage.threads,
        queue_depth=row.queue_depth,
        op_latency_ms=row.op_latency_ms,
        detail=row.detail,
    )


def _agent(tree: AgentTree, usage: TreeUsage) -> AgentProcess:
    return AgentProcess(
        session_ids=tree.session_ids,
        agent=tree.agent,
        pid=tree.pid,
        processes=usage.processes,
        cpu_percent=usage.cpu_percent,
        rss_bytes=usage.rss_bytes,
    )


def _sum(one: Usage, other: Usage) -> Usage:
    uss = None if one.uss_bytes is None or other.uss_bytes is None else one.uss_bytes + other.uss_bytes
    return Usage(
        round(one.cpu_percent + other.cpu_percent, 1),
        one.rss_bytes + other.rss_bytes,
        uss,
        one.fds + other.fds,
        one.threads + other.threads,
    )


def _operations(told: _Told) -> dict[str, list[OperationCount]]:
    parts: Iterable[tuple[str, StateFacts | CoordinationFacts | WorkerFacts | AgentTrees | None]] = (
        ("state", told.state),
        ("coordination", told.coordination),
        ("wake", told.wake),
        *told.runtimes.items(),
    )
    return {name: facts.operations for name, facts in parts if facts is not None}


def _age_s(started_at: str) -> float:
    try:
        started = datetime.fromisoformat(started_at)
    except ValueError:
        return 0.0
    if started.tzinfo is None:
        started = started.replace(tzinfo=UTC)
    return round(max(0.0, time.time() - started.timestamp()), 1)
