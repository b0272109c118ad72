"""What a person does with a thread, over the scripted app-server."""

import json

import pytest

from termal.wire.thread_operations import ThreadAction, ThreadCommand, ThreadDone
from termal.wire.turns import TextDelta
from tests.support.codex_kit import CodexKit
from workers.runtime.adapter import AgentFailed, CommandRefused
from workers.runtime.codex import CodexAdapter


class Talk:
    """A session whose thread has turns."""

    def __init__(self, codex: CodexKit) -> None:
        self.codex = codex
        self.adapter: CodexAdapter = codex.make()
        self.thread = ""

    async def begin(self, *prompts: str) -> None:
        started = await self.adapter.start(self.codex.spec())
        self.thread = started.external_session_id or ""
        for prompt in prompts:
            assert (await (await self.codex.prompt(self.adapter, prompt)).end()).outcome == "completed"

    async def order(self, action: ThreadAction, turns: int = 1) -> ThreadDone:
        spec = self.codex.spec(external_session_id=self.thread)
        return await self.adapter.thread(ThreadCommand(spec, action, turns), lambda _: None)

    async def goes_on(self, text: str = "say on") -> None:
        if not self.adapter.alive:
            await self.adapter.start(self.codex.spec(external_session_id=self.thread))
        assert (await (await self.codex.prompt(self.adapter, text)).end()).outcome == "completed"


@pytest.fixture
def talk(codex: CodexKit) -> Talk:
    return Talk(codex)


def test_an_archived_thread_is_let_go_and_comes_back(codex: CodexKit, talk: Talk) -> None:
    async def scenario() -> None:
        await talk.begin("say one")
        await talk.order("archive")
        assert not talk.adapter.alive
        await talk.order("archive")
        with pytest.raises(AgentFailed, match="is archived"):
            await codex.make().start(codex.spec(external_session_id=talk.thread))
        await talk.order("unarchive")
        await talk.order("unarchive")
        await talk.goes_on()

    codex.run(scenario)


def test_a_rollback_returns_what_is_left(codex: CodexKit, talk: Talk) -> None:
    async def scenario() -> None:
        await talk.begin("say one", "run ls\nsay two", "say three", "say four")
        done = await talk.order("rollback", 2)
        assert done.items is not None
        assert [(item.kind, item.text) for item in done.items] == [
            ("prompt", "say one"),
            ("text", "one"),
            ("prompt", "run ls\nsay two"),
            ("command", "ls"),
            ("text", "two"),
        ]
        assert done.items[3].output == "one\ntwo\n"
        done = await talk.order("rollback", 99)
        assert done.items == []
        with pytest.raises(AgentFailed, match="no turn"):
            await talk.order("rollback")
        await talk.goes_on()

    codex.run(scenario)


@pytest.mark.parametrize("prompt", ["say one", "say silent"], ids=["returned", "asked-for"])
def test_a_fork_has_the_history_and_leaves_the_thread(codex: CodexKit, talk: Talk, prompt: str) -> None:
    async def scenario() -> None:
        await talk.begin(prompt)
        done = await talk.order("fork")
        assert done.thread_id not in (None, talk.thread)
        assert [item.kind for item in done.items or []] == ["prompt", "text"]
        fork = codex.make()
        started = await fork.start(codex.spec(session_id="session-2", external_session_id=done.thread_id))
        assert (started.external_session_id, started.note) == (done.thread_id, "")
        await talk.goes_on()

    codex.run(scenario)


def test_a_prompt_waits_for_the_end_of_a_compaction(codex: CodexKit, talk: Talk) -> None:
    async def scenario() -> None:
        await talk.begin("say one")
        await talk.order("compact")
        turn = await codex.prompt(talk.adapter, "say after")
        assert (await turn.end()).outcome == "completed"
        assert [event.text for event in turn.of(TextDelta)] == ["after"], "nothing of the compaction is shown"

    codex.run(scenario)


def test_servers_are_listed_by_name_without_secrets(codex: CodexKit, talk: Talk) -> None:
    async def scenario() -> None:
        await talk.begin("say one")
        done = await talk.order("servers")
        assert json.loads(done.servers) == [
            {
                "name": "alpha",
                "authStatus": "bearerToken",
                "tools": [{"name": "a", "title": "First"}, {"name": "b", "description": "second"}],
            },
            {"name": "zulu", "authStatus": "unsupported", "tools": []},
        ]
        assert codex.requests("mcpServerStatus/list")[0]["params"]["limit"] == 100
        (codex.home / "circles").touch()
        with pytest.raises(AgentFailed, match="circles"):
            await talk.order("servers")

    codex.run(scenario)


def test_a_thread_that_codex_does_not_know_refuses_everything(codex: CodexKit, talk: Talk) -> None:
    async def scenario() -> None:
        talk.thread = "5e1f0c3a-0000-4000-8000-000000000001"
        for action in ("archive", "unarchive", "fork", "rollback", "compact", "servers"):
            with pytest.raises(CommandRefused):
                await talk.order(action)

    codex.run(scenario)
