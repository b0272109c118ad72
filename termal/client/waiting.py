"""Looking at delegations until they are over: rounds in parallel, each with its own deadline; packets for every end."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from termal.client.packets import TERMINAL, Json, failed_packet, mismatched, mixed_instances, status_groups, summary_of

Fetch = Callable[[str, str], Awaitable[Json]]


async def wait(fetch: Fetch, parent_id: str, ids: list[str], interval_s: float, timeout_s: float) -> Json:
    """The packet of a wait for all of ``ids``. Cancels nothing."""
    waiting = _Waiting(fetch, parent_id, ids)
    end_s = time.monotonic() + timeout_s
    while True:
        left_s = end_s - time.monotonic()
        await waiting.look(min(2 * interval_s, max(left_s, 0.001)))
        if waiting.error is not None or not waiting.open:
            return waiting.packet("completed")
        left_s = end_s - time.monotonic()
        if left_s <= 0:
            return waiting.packet("timeout")
        await asyncio.sleep(min(interval_s, left_s))


class _Waiting:
    """What was seen, of which life of the daemon it was, and what ended it."""

    def __init__(self, fetch: Fetch, parent_id: str, ids: list[str]) -> None:
        self._fetch = fetch
        self._parent_id = parent_id
        self._ids = ids
        self._seen: dict[str, Json] = {}
        self._instance: str | None = None
        self._revision = 0
        self.error: Json | None = None

    @property
    def open(self) -> list[str]:
        """Those that are not known to be over."""
        return [number for number in self._ids if self._seen.get(number, {}).get("status") not in TERMINAL]

    async def look(self, limit_s: float) -> None:
        """One round over what is open. What has not come in time is asked for again in the next."""
        tasks = {asyncio.create_task(self._one(number)): number for number in self.open}
        done: set[asyncio.Task[Json]] = set()
        try:
            done, _late = await asyncio.wait(tasks, timeout=limit_s, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        finished = sorted(done, key=lambda task: self._ids.index(tasks[task]))
        failures = [error for task in finished if (error := task.exception()) is not None]
        answers = {tasks[task]: task.result() for task in finished if task.exception() is None}
        self._judge(answers, failures[0] if failures else None)

    async def _one(self, number: str) -> Json:
        return await self._fetch(self._parent_id, number)

    def packet(self, outcome: str) -> Json:
        shown = [self._seen[number] for number in self._ids if number in self._seen]
        packet = {
            "outcome": outcome if self.error is None else "error",
            "delegations": shown,
            "completed": [record for record in shown if record["status"] in TERMINAL],
            "pending": [record for record in shown if record["status"] not in TERMINAL],
            "revision": self._revision if self._instance is not None else None,
            "serverInstanceId": self._instance,
        }
        return packet if self.error is None else {**packet, "error": self.error}

    def _judge(self, answers: dict[str, Json], failure: BaseException | None) -> None:
        lives = {answer["serverInstanceId"] for answer in answers.values()}
        if failure is not None:
            known = self._instance or (next(iter(lives)) if len(lives) == 1 else None)
            own = {number: answer for number, answer in answers.items() if answer["serverInstanceId"] == known}
            self._take({number: answer for number, answer in own.items() if answer["delegation"]["id"] == number})
            self.error = failed_packet("status-fetch-failed", failure)
            return
        for number, answer in answers.items():
            if answer["delegation"]["id"] != number:
                self.error = mismatched(number, str(answer["delegation"]["id"]))
                return
        before = {self._instance} if self._instance is not None else set()
        if len(lives | before) > 1:
            known = {number: self._seen[number] for number in answers if number in self._seen}
            groups = status_groups(self._ids, self._instance, self._revision, known, answers.values())
            self.error = mixed_instances(groups)
            return
        self._take(answers)

    def _take(self, answers: dict[str, Any]) -> None:
        for number, answer in answers.items():
            self._seen[number] = summary_of(answer["delegation"])
            self._instance = answer["serverInstanceId"]
            self._revision = max(self._revision, answer["revision"])
