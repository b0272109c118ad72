"""Query parameters: one value each, plain decimal numbers, every refusal naming the query and its parameter."""

import re

from falcon.asgi import Request

from termal.wire.errors import InvalidRequest

_NUMBER = re.compile(r"[0-9]{1,15}")


class Query:
    """The query of one request. ``what`` is what a client asks for; every method raises `InvalidRequest`."""

    def __init__(self, req: Request, what: str) -> None:
        self._parameters = req.params
        self._what = what

    def one(self, name: str) -> str | None:
        """The value of ``name``, None without it; more than one is refused."""
        value = self._parameters.get(name)
        if isinstance(value, list):
            raise self.refusal(f"{name} is given more than once")
        return value

    def number(self, name: str, lowest: int, highest: int | None = None) -> int | None:
        """The number ``name`` within its range, None without it."""
        text = self.one(name)
        if text is None:
            return None
        value = int(text) if _NUMBER.fullmatch(text) else -1
        if value < lowest or (highest is not None and value > highest):
            bounds = f"of {lowest} or more" if highest is None else f"from {lowest} to {highest}"
            raise self.refusal(f"{name} must be a number {bounds}")
        return value

    def count(self, name: str, lowest: int, highest: int | None = None, *, default: int) -> int:
        """As `number`, ``default`` without it."""
        value = self.number(name, lowest, highest)
        return default if value is None else value

    def words(self, name: str) -> str | None:
        """The text of ``name``, None without it; a blank one is refused."""
        text = self.one(name)
        if text is not None and not text.strip():
            raise self.refusal(f"{name} is blank")
        return text

    def refusal(self, why: str) -> InvalidRequest:
        return InvalidRequest(f"in the {self._what} query: {why}", reason="query")
