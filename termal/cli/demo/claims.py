"""What a play claims of itself: each claim with its truth, the figures beside them, and whoever is told of it."""

from typing import Protocol

import msgspec


class Check(msgspec.Struct, frozen=True):
    claim: str
    passed: bool
    detail: str = ""


class Teller(Protocol):
    """Who tells the play: a terminal, or a list in a test."""

    def act(self, title: str) -> None: ...
    def tell(self, line: str) -> None: ...
    def moving(self, line: str) -> None: ...


class Claims:
    """A claim that fails does not end the play."""

    def __init__(self, teller: Teller) -> None:
        self.checks: list[Check] = []
        self.figures: dict[str, int] = {}
        self._teller = teller
        self.act = teller.act
        self.tell = teller.tell
        self.moving = teller.moving

    def check(self, claim: str, passed: bool, detail: str = "") -> None:
        """``detail`` is what was found instead; it is shown of claims that fail."""
        self.checks.append(Check(claim, passed, "" if passed else detail))
        self.tell(f"{'yes:' if passed else 'NO: '} {claim}" + ("" if passed else f" ({detail})"))
