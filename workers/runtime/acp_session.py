"""An ACP conversation's beginning and its settings: new, loaded or resumed; model, mode and effort.

Shows nothing and knows no turn: what an agent replays of an old conversation while it loads it is not its concern.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from termal.bridge.descriptor import acp_servers
from termal.wire.turns import ModesKnown, SessionSpec
from workers.runtime.acp_agents import AcpAgent, session_effort, session_mode
from workers.runtime.acp_load_times import LoadTimes
from workers.runtime.adapter import AgentFailed
from workers.runtime.json_values import records, text_or_none
from workers.runtime.lines import Refused

OPEN_S = 60.0
"""Starting a conversation starts its MCP servers too."""
SETTING_S = 15.0
_AUTH_REQUIRED = -32000
_HARMLESS_MODES = frozenset({"default", "agent"})
"""What an agent without modes does anyway."""

Request = Callable[[str, dict[str, Any], float], Awaitable[Any]]
ModelList = list[tuple[str, str, str | None]]


class Option(msgspec.Struct):
    """A choice that the agent offers for the session: its present value, and how it is changed."""

    method: str
    key: str
    choices: ModelList
    current: str | None
    config_id: str = ""

    @property
    def values(self) -> list[str]:
        return [value for value, _, _ in self.choices]

    def params(self, session: str, value: str) -> dict[str, Any]:
        params = {"sessionId": session, self.key: value}
        return {**params, "configId": self.config_id} if self.config_id else params


_NO_CHOICE = Option("", "", [], None)


class AcpSession:
    """One conversation with a running agent. Raises `AgentFailed`, and what ``request`` raises."""

    def __init__(self, agent: AcpAgent, capabilities: dict[str, Any], request: Request, times: LoadTimes) -> None:
        self._agent = agent
        self._request = request
        self._times = times
        self._loads = capabilities.get("loadSession") is True
        session = capabilities.get("sessionCapabilities")
        self._resumes = isinstance(session, dict) and session.get("resume") is not None
        self.id = ""
        self.note = ""
        self.models: ModelList = []
        self._options: dict[str, Option] = {}
        self._first_model: str | None = None

    @property
    def current_model(self) -> str | None:
        option = self._options.get("model")
        return option.current if option is not None else None

    @property
    def modes(self) -> ModesKnown | None:
        """None for an agent that offers neither modes nor efforts."""
        if not self._options.keys() & {"mode", "effort"}:
            return None
        mode, effort = self._options.get("mode", _NO_CHOICE), self._options.get("effort", _NO_CHOICE)
        return ModesKnown(mode.choices, mode.current, effort.choices, effort.current)

    async def open(self, spec: SessionSpec) -> None:
        """Resume the conversation of ``spec``, or begin one; then set what the session wants of it."""
        place = {"cwd": spec.workdir, "mcpServers": acp_servers(spec.mcp_servers)}
        answer = await self._continued(spec.external_session_id, place) if spec.external_session_id else None
        if answer is None:
            answer = await self._asked("session/new", place, OPEN_S)
            self.id = str(answer.get("sessionId") or "")
            if not self.id:
                raise AgentFailed(f"{self._agent.name} began a conversation without telling its id")
        self._times.started(self.id)
        self._learn(answer)
        self._first_model = self.current_model
        await self.settle(spec)

    async def settle(self, spec: SessionSpec) -> None:
        """Bring model, mode and effort to what ``spec`` says, where they differ."""
        model = spec.model if spec.model not in ("", "auto") else self._first_model
        await self._set("model", model, needed=spec.model not in ("", "auto"))
        mode = session_mode(self._agent, spec)
        needed = mode is not None and (spec.read_only or mode not in _HARMLESS_MODES)
        await self._set("mode", mode, needed=needed)
        await self._set("effort", session_effort(self._agent, spec), needed=False)

    def notice(self, update: dict[str, Any]) -> bool:
        """The agent changed a setting by itself: what the session wants of it is set again before the next turn.

        Whether ``update`` says so of any.
        """
        kind = update.get("sessionUpdate")
        if kind == "config_option_update":
            self._learn({"configOptions": update.get("configOptions")})
        elif kind == "current_mode_update" and "mode" in self._options:
            self._options["mode"].current = text_or_none(update.get("currentModeId"))
        else:
            return False
        return True

    async def _continued(self, conversation: str, place: dict[str, Any]) -> dict[str, Any] | None:
        """The answer to loading it. None: it cannot be, and a fresh one is to be begun, which ``note`` then says."""
        method = "session/resume" if self._resumes else "session/load" if self._loads else ""
        if not method:
            self.note = f"{self._agent.name} cannot take up an earlier conversation; this is a fresh one."
            return None
        if self._agent.load_needs_new_minute:
            await asyncio.sleep(self._times.wait_s(conversation))
        try:
            answer = await self._asked(method, {"sessionId": conversation, **place}, OPEN_S)
        except Refused as error:
            self.note = (
                f"{self._agent.name} does not have the earlier conversation any more ({error.message}); "
                "this is a fresh one."
            )
            return None
        self.id = conversation
        return answer

    async def _asked(self, method: str, params: dict[str, Any], limit_s: float) -> dict[str, Any]:
        try:
            answer = await self._request(method, params, limit_s)
        except Refused as error:
            if error.code == _AUTH_REQUIRED:
                raise AgentFailed(f"{self._agent.name} is not signed in: {error.message}") from error
            raise
        return answer if isinstance(answer, dict) else {}

    async def _set(self, name: str, value: str | None, *, needed: bool) -> None:
        option = self._options.get(name)
        if value is None or (option is not None and option.current == value):
            return
        if option is None or (name == "mode" and value not in option.values):
            if needed:
                raise AgentFailed(f"{self._agent.name} offers no {name} {value!r}")
            return
        # Until it says yes: without an answer nobody knows which one it has, and the next time it is told again.
        before, option.current = option.current, None
        try:
            answer = await self._asked(option.method, option.params(self.id, value), SETTING_S)
        except Refused as error:
            option.current = before
            raise AgentFailed(f"{self._agent.name} refuses the {name} {value!r}: {error.message}") from error
        option.current = value
        self._learn(answer)

    # ------------------------------------------------------- what the agent offers

    def _learn(self, answer: dict[str, Any]) -> None:
        configs = records(answer.get("configOptions"))
        if configs:
            # They come as a whole: another model may have no efforts.
            self._options = {name: option for name, option in self._options.items() if not option.config_id}
        for config in configs:
            self._learn_config(config)
        models, modes = answer.get("models"), answer.get("modes")
        if isinstance(models, dict):
            self.models = [
                (value, str(record.get("name") or value), text_or_none(record.get("description")))
                for record in records(models.get("availableModels"))
                if (value := str(record.get("modelId") or ""))
            ]
            current = text_or_none(models.get("currentModelId"))
            self._options["model"] = Option("session/set_model", "modelId", self.models, current)
        if isinstance(modes, dict):
            choices = [
                (number, str(record.get("name") or number), text_or_none(record.get("description")))
                for record in records(modes.get("availableModes"))
                if (number := str(record.get("id") or ""))
            ]
            current = text_or_none(modes.get("currentModeId"))
            self._options["mode"] = Option("session/set_mode", "modeId", choices, current)

    def _learn_config(self, config: dict[str, Any]) -> None:
        number = str(config.get("id") or "")
        name = {"thought_level": "effort"}.get(str(config.get("category")), str(config.get("category") or number))
        if name not in ("model", "mode", "effort") or not number:
            return
        choices = _choices(config.get("options"))
        current = text_or_none(config.get("currentValue"))
        self._options[name] = Option("session/set_config_option", "value", choices, current, number)
        if name == "model":
            self.models = choices


def _choices(options: object) -> ModelList:
    out: ModelList = []
    for record in records(options):
        if "options" in record:
            out += _choices(record["options"])
        elif isinstance(record.get("value"), str):
            value = record["value"]
            out.append((value, str(record.get("name") or value), text_or_none(record.get("description"))))
    return out
