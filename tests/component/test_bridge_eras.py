"""An agent that tries a newer way of speaking first: served in it, or greeted in the older one on the same pipe."""

import asyncio
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from mcp import Client, ClientSession, MCPError, StdioServerParameters, stdio_client
from mcp_types import UNSUPPORTED_PROTOCOL_VERSION

from tests.support.bridge_kit import OWN, state
from tests.support.bridge_process import COMMAND, INITIALIZE, BridgeProcess
from tests.support.scripted_api import Reply, ScriptedApi, failure

MODERN = "2026-07-28"
UNKNOWN = "2099-01-01"
KEY = "io.modelcontextprotocol"


@pytest.fixture
def api() -> Iterator[ScriptedApi]:
    with ScriptedApi() as api:
        api.on("GET /api/state", state())
        api.on(f"GET {OWN}/mailboxes", Reply(200, []))
        yield api


def enveloped(version: str, **params: Any) -> dict[str, Any]:
    envelope = {f"{KEY}/protocolVersion": version, f"{KEY}/clientInfo": INITIALIZE["clientInfo"]}
    return {**params, "_meta": {**envelope, f"{KEY}/clientCapabilities": {}}}


def command(api: ScriptedApi) -> StdioServerParameters:
    arguments = [*COMMAND[1:], "--parent-session-id", "session-1", "--base-url", api.url]
    return StdioServerParameters(command=sys.executable, args=arguments)


@pytest.mark.parametrize("probes", [[UNKNOWN], [MODERN], [UNKNOWN, MODERN, UNKNOWN]], ids=" ".join)
def test_who_only_probed_may_still_shake_hands(api: ScriptedApi, probes: list[str]) -> None:
    with BridgeProcess(api.url) as bridge:
        for version in probes:
            answer = bridge.ask("server/discover", enveloped(version))
            if version == MODERN:
                assert answer["result"]["supportedVersions"] == [MODERN]
            else:
                assert answer["error"]["code"] == UNSUPPORTED_PROTOCOL_VERSION
                assert answer["error"]["data"] == {"supported": [MODERN], "requested": UNKNOWN}
        assert bridge.greet()["protocolVersion"] == INITIALIZE["protocolVersion"]
        assert len(bridge.ask("tools/list")["result"]["tools"]) == 17
        assert bridge.call("termal_list_mailboxes")["structuredContent"] == {"mailboxes": []}
        assert bridge.close() == 0


def test_the_handshake_may_follow_a_probe_that_nobody_waited_for(api: ScriptedApi) -> None:
    """An agent whose patience ended before a slow start did: both lines are there when the bridge begins to read."""
    with BridgeProcess(api.url) as bridge:
        probe = bridge.request("server/discover", enveloped(MODERN))
        greeting = bridge.request("initialize", INITIALIZE)
        assert bridge.answer(probe)["result"]["supportedVersions"] == [MODERN]
        assert bridge.answer(greeting)["result"]["protocolVersion"] == INITIALIZE["protocolVersion"]
        bridge.notify("notifications/initialized")
        assert len(bridge.ask("tools/list")["result"]["tools"]) == 17


def test_who_went_to_work_in_the_newer_way_stays_with_it(api: ScriptedApi) -> None:
    with BridgeProcess(api.url) as bridge:
        bridge.ask("server/discover", enveloped(MODERN))
        call = enveloped(MODERN, name="termal_list_mailboxes", arguments={})
        assert bridge.ask("tools/call", call)["result"]["structuredContent"] == {"mailboxes": []}
        assert bridge.ask("initialize", INITIALIZE)["error"]["code"] == UNSUPPORTED_PROTOCOL_VERSION
        assert bridge.ask("tools/call", call)["result"]["isError"] is False


def test_an_older_answer_has_no_member_that_only_the_newer_way_knows(api: ScriptedApi) -> None:
    with BridgeProcess(api.url) as bridge:
        bridge.greet()
        assert set(bridge.ask("tools/list")["result"]) == {"tools"}
        assert set(bridge.call("termal_list_mailboxes")) == {"content", "isError", "structuredContent"}


def test_an_agent_of_the_newer_way_that_listed_too_early_asks_again(api: ScriptedApi) -> None:
    api.on("GET /api/state", failure(503, "no_mutation_attempted"), Reply(200, state()))
    with BridgeProcess(api.url) as bridge:
        first, second = (bridge.ask("tools/list", enveloped(MODERN))["result"] for _ in range(2))
        assert (len(first["tools"]), first["ttlMs"], len(second["tools"])) == (8, 0, 17)
        assert bridge.notifications == []


def test_a_probe_that_names_no_version_settles_nothing(api: ScriptedApi) -> None:
    with BridgeProcess(api.url) as bridge:
        assert "error" in bridge.ask("server/discover")
        assert bridge.greet()["protocolVersion"] == INITIALIZE["protocolVersion"]


def test_the_official_client_is_greeted_after_a_probe_that_was_refused(api: ScriptedApi) -> None:
    async def story() -> None:
        async with stdio_client(command(api)) as (reader, writer), ClientSession(reader, writer) as client:
            with pytest.raises(MCPError) as refused:
                await client.send_discover(UNKNOWN)
            assert refused.value.code == UNSUPPORTED_PROTOCOL_VERSION
            await client.initialize()
            assert len((await client.list_tools()).tools) == 17

    asyncio.run(story())


@pytest.mark.parametrize("mode", ["auto", "legacy", MODERN])
def test_the_official_client_finds_its_way_in_every_mode(api: ScriptedApi, mode: str) -> None:
    async def story() -> None:
        async with Client(command(api), mode=mode) as client:
            assert client.protocol_version == (MODERN if mode != "legacy" else "2025-11-25")
            assert len((await client.list_tools()).tools) == 17
            mail = await client.call_tool("termal_list_mailboxes", {})
            assert (mail.is_error, mail.structured_content) == (False, {"mailboxes": []})

    asyncio.run(story())
