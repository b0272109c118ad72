"""The delegation commands for programs without an event loop: the same packets, each call to its end."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from termal.client.async_http import AsyncHttp
from termal.client.delegating import Delegations, HttpTransport
from termal.client.packets import Json


class BlockingDelegations:
    """The commands of `Delegations` at ``base_url``; not to be used on a running loop."""

    def __init__(self, base_url: str, *, token: str | None = None) -> None:
        self._base_url = base_url
        self._token = token

    def spawn_delegation(self, parent_id: Any, request: Any) -> Json:
        return self._run(lambda commands: commands.spawn_delegation(parent_id, request))

    def spawn_reviewer_batch(self, parent_id: Any, requests: Any, resume_after: Json | None = None) -> Json:
        return self._run(lambda commands: commands.spawn_reviewer_batch(parent_id, requests, resume_after))

    def get_delegation_status(self, parent_id: Any, delegation_id: Any) -> Json:
        return self._run(lambda commands: commands.get_delegation_status(parent_id, delegation_id))

    def get_delegation_result(self, parent_id: Any, delegation_id: Any) -> Json:
        return self._run(lambda commands: commands.get_delegation_result(parent_id, delegation_id))

    def cancel_delegation(self, parent_id: Any, delegation_id: Any) -> Json:
        return self._run(lambda commands: commands.cancel_delegation(parent_id, delegation_id))

    def follow_up_delegation(self, parent_id: Any, delegation_id: Any, message: str) -> Json:
        return self._run(lambda commands: commands.follow_up_delegation(parent_id, delegation_id, message))

    def wait_delegations(
        self, parent_id: Any, ids: Any, *, poll_interval_ms: Any = None, timeout_ms: Any = None
    ) -> Json:
        times = {"poll_interval_ms": poll_interval_ms, "timeout_ms": timeout_ms}
        return self._run(lambda commands: commands.wait_delegations(parent_id, ids, **times))

    def resume_after_delegations(
        self, parent_id: Any, ids: Any, *, mode: str | None = None, title: str | None = None
    ) -> Json:
        return self._run(lambda commands: commands.resume_after_delegations(parent_id, ids, mode=mode, title=title))

    def _run(self, command: Callable[[Delegations], Awaitable[Json]]) -> Json:
        async def carry_out() -> Json:
            async with AsyncHttp(self._base_url, token=self._token) as http:
                return await command(Delegations(HttpTransport(http)))

        return asyncio.run(carry_out())
