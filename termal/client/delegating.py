"""Delegation commands for programs: spawn, batch, look, read, cancel, follow up, wait, resume. Packets in, no prose.

What a caller got wrong and what the daemon refused come back as packets where the command says so; else it raises
TypeError, `termal.client.validation.RangeError` or `termal.client.failure.ApiFailed`.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from termal.client import validation
from termal.client.async_http import AsyncHttp
from termal.client.call import Call
from termal.client.errors import Unreachable
from termal.client.failure import lost, refused
from termal.client.packets import (
    Json,
    failed_packet,
    group,
    invalid_packet,
    mixed_instances,
    result_of,
    spawn_error,
    spawned,
    status_of,
)
from termal.client.routes import delegations
from termal.client.transport import REPLY_S, read_answer
from termal.client.waiting import wait


class DelegationTransport(Protocol):
    """How the commands reach the daemon. Each answer is the route's own JSON; failures raise `ApiFailed`."""

    async def create_delegation(self, parent_id: str, request: Json) -> Json: ...

    async def fetch_delegation_status(self, parent_id: str, delegation_id: str) -> Json:
        """May be cancelled at any time."""

    async def fetch_delegation_result(self, parent_id: str, delegation_id: str) -> Json: ...

    async def cancel_delegation(self, parent_id: str, delegation_id: str) -> Json: ...

    async def create_delegation_wait(self, parent_id: str, ids: Sequence[str], options: Json) -> Json: ...

    async def follow_up_delegation(self, parent_id: str, delegation_id: str, message: str) -> Json: ...


class HttpTransport:
    """The daemon over HTTP."""

    def __init__(self, http: AsyncHttp) -> None:
        self._http = http

    async def create_delegation(self, parent_id: str, request: Json) -> Json:
        return await self._ask(delegations.create(parent_id, request))

    async def fetch_delegation_status(self, parent_id: str, delegation_id: str) -> Json:
        return await self._ask(delegations.status(parent_id, delegation_id))

    async def fetch_delegation_result(self, parent_id: str, delegation_id: str) -> Json:
        return await self._ask(delegations.result(parent_id, delegation_id))

    async def cancel_delegation(self, parent_id: str, delegation_id: str) -> Json:
        return await self._ask(delegations.cancel(parent_id, delegation_id))

    async def create_delegation_wait(self, parent_id: str, ids: Sequence[str], options: Json) -> Json:
        return await self._ask(delegations.create_wait(parent_id, ids, **options))

    async def follow_up_delegation(self, parent_id: str, delegation_id: str, message: str) -> Json:
        return await self._ask(delegations.follow_up(parent_id, delegation_id, message))

    async def _ask(self, call: Call[Any]) -> Json:
        limit_s = call.limit_s or REPLY_S
        try:
            answer = await self._http.exchange(call, limit_s=limit_s)
            if not 200 <= answer.status < 300:
                raise refused(answer)
            found: Json = read_answer(call_for_json(call), answer, self._http.base_url)
        except Unreachable as error:
            raise lost(call, error, limit_s) from error
        return found


def call_for_json(call: Call[Any]) -> Call[Json]:
    """The same call with its answer left as it is."""
    return Call(method=call.method, path=call.path, reply=Json, accept=tuple(range(200, 300)))


class Delegations:
    """The commands of one transport."""

    def __init__(self, transport: DelegationTransport) -> None:
        self._transport = transport

    async def spawn_delegation(self, parent_id: Any, request: Any) -> Json:
        """A ``completed`` packet means that the delegation was made; the one inside may have failed to start."""
        try:
            parent, body = validation.parent_id(parent_id), validation.spawn_request(request)
        except (TypeError, ValueError) as error:
            return spawn_error(invalid_packet(error))
        return await self._spawn(parent, body)

    async def spawn_reviewer_batch(self, parent_id: Any, requests: Any, resume_after: Json | None = None) -> Json:
        """Up to four read-only reviewers at once; with ``resume_after`` one wait over those that were made."""
        try:
            parent, bodies = validation.parent_id(parent_id), validation.reviewer_requests(requests)
        except (TypeError, ValueError) as error:
            return {**_batch([], []), "outcome": "error", "error": invalid_packet(error)}
        answers = await asyncio.gather(*(self._spawn(parent, body) for body in bodies))
        made = [answer for answer in answers if answer["outcome"] == "completed"]
        failed = [
            {**answer["error"], "index": index, "title": _title(bodies[index])}
            for index, answer in enumerate(answers)
            if answer["outcome"] == "error"
        ]
        batch = _judged(made, failed)
        if resume_after is None:
            return batch
        return await self._with_wait(parent, batch, resume_after)

    async def get_delegation_status(self, parent_id: Any, delegation_id: Any) -> Json:
        parent, number = _both(parent_id, delegation_id)
        return status_of(await self._transport.fetch_delegation_status(parent, number))

    async def get_delegation_result(self, parent_id: Any, delegation_id: Any) -> Json:
        parent, number = _both(parent_id, delegation_id)
        return result_of(await self._transport.fetch_delegation_result(parent, number))

    async def cancel_delegation(self, parent_id: Any, delegation_id: Any) -> Json:
        parent, number = _both(parent_id, delegation_id)
        return status_of(await self._transport.cancel_delegation(parent, number))

    async def follow_up_delegation(self, parent_id: Any, delegation_id: Any, message: str) -> Json:
        parent, number = _both(parent_id, delegation_id)
        return status_of(await self._transport.follow_up_delegation(parent, number, message))

    async def wait_delegations(
        self, parent_id: Any, ids: Any, *, poll_interval_ms: Any = None, timeout_ms: Any = None
    ) -> Json:
        """Look until all are over. Bad input raises before anything is asked; all else comes back as a packet."""
        parent = validation.parent_id(parent_id)
        numbers = validation.delegation_ids(ids, "wait_delegations")
        interval_ms, limit_ms = validation.wait_times(poll_interval_ms, timeout_ms)
        return await wait(self._transport.fetch_delegation_status, parent, numbers, interval_ms / 1e3, limit_ms / 1e3)

    async def resume_after_delegations(
        self, parent_id: Any, ids: Any, *, mode: str | None = None, title: str | None = None
    ) -> Json:
        """Have the daemon resume the parent when any or all are over. The parent's turn should end after it."""
        parent = validation.parent_id(parent_id)
        numbers = validation.delegation_ids(ids, "resume_after_delegations")
        return await self._transport.create_delegation_wait(parent, numbers, _options(mode, title))

    async def _spawn(self, parent: str, body: Json) -> Json:
        try:
            return spawned(await self._transport.create_delegation(parent, body))
        except Exception as error:  # noqa: BLE001 - a packet whatever the transport does; its text is not passed on
            return spawn_error(failed_packet("spawn-failed", error))

    async def _with_wait(self, parent: str, batch: Json, options: Json) -> Json:
        if batch["spawned"] and "error" in batch:
            return {**batch, "resumeWait": _skipped("mixed-server-instance", batch["error"]["message"])}
        if not batch["spawned"]:
            return {**batch, "resumeWait": _skipped("no-successful-spawns", "No reviewer could be started.")}
        try:
            made = await self.resume_after_delegations(
                parent, batch["delegationIds"], mode=options.get("mode"), title=options.get("title")
            )
        except Exception as error:  # noqa: BLE001 - as above
            return {**batch, "resumeWait": {"outcome": "error", "error": failed_packet("resume-wait-failed", error)}}
        return {**batch, "revision": made["revision"], "resumeWait": {"outcome": "scheduled", **made}}


def _both(parent_id: Any, delegation_id: Any) -> tuple[str, str]:
    return validation.parent_id(parent_id), validation.checked_id(delegation_id, "delegation id")


def _options(mode: str | None, title: str | None) -> Json:
    return {name: value for name, value in (("mode", mode), ("title", title)) if value is not None}


def _title(body: Json) -> str | None:
    title = body.get("title")
    return title.strip() if isinstance(title, str) and title.strip() else None


def _skipped(reason: str, message: str) -> Json:
    return {"outcome": "skipped", "reason": reason, "message": message}


def _batch(made: list[Json], failed: list[Json]) -> Json:
    return {
        "spawned": made,
        "failed": failed,
        "delegationIds": [each["delegationId"] for each in made],
        "childSessionIds": [each["childSessionId"] for each in made],
        "revision": None,
        "serverInstanceId": None,
    }


def _judged(made: list[Json], failed: list[Json]) -> Json:
    batch = _batch(made, failed)
    lives = sorted({each["serverInstanceId"] for each in made})
    if not made:
        error = {
            "kind": "all-spawns-failed",
            "name": "SpawnReviewerBatchError",
            "message": "No reviewer of the batch could be spawned.",
        }
        return {**batch, "outcome": "error", "error": error}
    if len(lives) > 1:
        groups = [_spawn_group(life, made) for life in lives]
        return {**batch, "outcome": "error", "error": mixed_instances(groups)}
    revision = max(each["revision"] for each in made)
    outcome = "partial" if failed else "completed"
    return {**batch, "outcome": outcome, "revision": revision, "serverInstanceId": lives[0]}


def _spawn_group(life: str, made: list[Json]) -> Json:
    own = {each["delegationId"]: each for each in made if each["serverInstanceId"] == life}
    records = [{"id": each["delegationId"], "childSessionId": each["childSessionId"]} for each in own.values()]
    return group(life, max(each["revision"] for each in own.values()), records)
