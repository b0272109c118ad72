"""What others ask of `coordination` and of `wake`."""

import msgspec

from termal.wire.facts import CoordinationFacts, WorkerFacts
from termal.wire.operation import read, write
from termal.wire.turns import Anything


class DeleteScope(msgspec.Struct, frozen=True):
    """Everything that coordination keeps for a deleted project goes, and nothing of it can be written again."""

    scope_id: str


COORDINATION_PING = read("coordination.ping", Anything, Anything)
COORDINATION_FACTS = read("coordination.facts", Anything, CoordinationFacts)
WAKE_PING = read("wake.ping", Anything, Anything)
WAKE_FACTS = read("wake.facts", Anything, WorkerFacts)
SCOPE_DELETE = write("scope.delete", DeleteScope, Anything, repeatable=True, timeout_s=None)
"""Sent by state until it is confirmed; answered when nothing of the scope is left."""
