"""The bounded wait of an agent for its delegations: looks again and again, reports progress, cancels nothing."""

import contextlib
from collections.abc import Awaitable, Callable

from termal.bridge.arguments import Arguments, path_problem
from termal.bridge.backend import Backend
from termal.bridge.failures import NOTHING, ToolFailed, pretty, sentence
from termal.client.failure import ApiFailed
from termal.client.packets import (
    TERMINAL,
    Json,
    api_packet,
    group,
    mismatched,
    mixed_instances,
    result_of,
    status_groups,
    summary_of,
)
from termal.client.routes import delegations
from termal.client.validation import delegation_ids, wait_times

Report = Callable[[int, int, str], Awaitable[None]]
"""Takes how many delegations are over, of how many, and a line about it."""


async def wait(backend: Backend, arguments: Arguments, report: Report) -> Json:
    """Raises `ToolFailed`: plain for arguments that cannot be, with the packet for a wait that failed."""
    try:
        ids = delegation_ids(arguments.get("delegationIds"), "wait_delegations")
        interval_ms, timeout_ms = wait_times(arguments.get("pollIntervalMs"), arguments.get("timeoutMs"))
    except (TypeError, ValueError) as error:
        raise ToolFailed(str(error)) from error
    for number in ids:
        if path_problem(number):
            raise ToolFailed(f"delegation id {path_problem(number)}")
    mode = arguments.get("mode", "all")
    if mode not in ("all", "any"):
        raise ToolFailed("mode must be all or any")
    watch = _Watch(backend, ids, mode)
    await watch.run(interval_ms / 1e3, timeout_ms / 1e3, report)
    packet = watch.packet()
    if watch.error is not None:
        raise ToolFailed(pretty(packet), packet=packet)
    return packet


class _Watch:
    """One wait: what was seen of each delegation, and of which life of the daemon."""

    def __init__(self, backend: Backend, ids: list[str], mode: str) -> None:
        self._backend = backend
        self._ids = ids
        self._mode = mode
        self._seen: dict[str, Json] = {}
        self._instance: str | None = None
        self._revision: int | None = None
        self._results: list[Json] = []
        self.error: Json | None = None
        self.timed_out = False

    async def run(self, interval_s: float, timeout_s: float, report: Report) -> None:
        clock = self._backend.clock
        end_s = clock() + timeout_s
        while await self._look():
            over = len(self._over())
            await report(over, len(self._ids), f"{over} of {len(self._ids)} delegations are over")
            if over == len(self._ids) or (over and self._mode == "any"):
                break
            left_s = end_s - clock()
            if left_s <= 0:
                self.timed_out = True
                await self._record_timeout(timeout_s)
                break
            await self._backend.sleep(min(interval_s, left_s))
        if self.error is None:
            await self._fetch_results()

    def packet(self) -> Json:
        over = self._over()
        shown = [self._seen[number] for number in self._ids if number in self._seen]
        packet = {
            "outcome": "error" if self.error is not None else "timeout" if self.timed_out else "completed",
            "delegations": shown,
            "completed": [record for record in shown if record["id"] in over],
            "pending": [record for record in shown if record["id"] not in over],
            "revision": self._revision,
            "serverInstanceId": self._instance,
            "mode": self._mode,
            "timedOut": self.timed_out,
            "results": self._results,
        }
        return packet if self.error is None else {**packet, "error": self.error}

    def _over(self) -> list[str]:
        return [number for number, record in self._seen.items() if record["status"] in TERMINAL]

    async def _look(self) -> bool:
        """One round. False: it failed, and what it got is not mixed into what was there."""
        answers: list[Json] = []
        for number in self._ids:
            try:
                answer = await self._backend.ask(delegations.status(self._backend.session_id, number))
            except ApiFailed as error:
                self._take(answers)
                self.error = api_packet("status-fetch-failed", error, sentence(error, NOTHING))
                return False
            record = answer["delegation"]
            if record.get("id") != number or "status" not in record or "childSessionId" not in record:
                self.error = mismatched(number, str(record.get("id")))
                return False
            answers.append(answer)
            known = self._instance or answers[0]["serverInstanceId"]
            if answer["serverInstanceId"] != known:
                self.error = mixed_instances(self._groups(answers))
                return False
        self._take(answers)
        return True

    def _take(self, answers: list[Json]) -> None:
        for answer in answers:
            self._seen[answer["delegation"]["id"]] = summary_of(answer["delegation"])
            self._instance = answer["serverInstanceId"]
            self._revision = max(self._revision or 0, answer["revision"])

    def _groups(self, answers: list[Json]) -> list[Json]:
        asked = [answer["delegation"]["id"] for answer in answers]
        before = {number: self._seen[number] for number in asked if number in self._seen}
        return status_groups(self._ids, self._instance, self._revision or 0, before, answers)

    async def _fetch_results(self) -> None:
        for number in [each for each in self._ids if each in self._over()]:
            try:
                answer = await self._backend.ask(delegations.result(self._backend.session_id, number))
                self._results.append({"delegationId": number, "result": result_of(answer)})
            except ApiFailed as error:
                self._results.append({"delegationId": number, "error": sentence(error, NOTHING)})
                continue
            except (KeyError, TypeError):
                self._results.append({"delegationId": number, "error": "the result could not be used"})
                continue
            if answer["serverInstanceId"] != self._instance:
                record = self._seen[number]
                known = group(str(self._instance), self._revision or 0, list(self._seen.values()))
                self.error = mixed_instances([known, group(answer["serverInstanceId"], answer["revision"], [record])])
                self._results.pop()
                return

    async def _record_timeout(self, timeout_s: float) -> None:
        pending = [number for number in self._ids if number not in self._over()]
        call = delegations.record_timeout(self._backend.session_id, pending, round(timeout_s * 1e3))
        # A record of what happened: the wait itself has ended as it should, whether or not it is kept.
        with contextlib.suppress(ApiFailed):
            await self._backend.ask(call)
