"""Which agents can be used, and which end right after their start: what workers say of them, what a person wants."""

import msgspec

from termal.wire.operation import read, write
from termal.wire.turns import Anything, JsonReply


class AgentTrouble(msgspec.Struct, frozen=True):
    """The last ``exits`` starts of ``agent`` ended before it could take a prompt.

    ``parked``: it is not started again by itself; else not before ``until_s`` of the monotonic clock. ``text`` is for
    people and says what to do. ``alive``: sessions whose process of it runs all the same. ``only``: the one session in
    which it ended, and the only one that it is parked in; empty when there were several.
    """

    agent: str
    exits: int
    parked: bool
    until_s: float
    text: str
    alive: list[str] = []
    only: str = ""


class TellTroubles(msgspec.Struct, frozen=True):
    """All that ``worker`` knows of: what is not among ``agents`` is over."""

    worker: str
    agents: list[AgentTrouble]


class OneAgent(msgspec.Struct, frozen=True):
    agent: str


AGENTS_TROUBLE = write("agents.trouble", TellTroubles, Anything, repeatable=True, timeout_s=None)
"""A runtime worker tells `state`, which keeps it in memory alone."""
AGENT_FORGIVE = write("agent.forgive", OneAgent, Anything, repeatable=True)
"""A runtime worker may start this agent again."""
AGENTS_LIST = read("agents.list", Anything, JsonReply)
AGENT_RETRY = write("agent.retry", OneAgent, JsonReply, repeatable=True)
"""A person wants `state` to have the agent started again with its next prompt."""
