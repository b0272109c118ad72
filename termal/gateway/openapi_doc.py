"""The words of the interface description: what one operation takes and answers, and the schemas of plain values."""

from dataclasses import dataclass, field
from typing import Any

from termal.gateway.refusal import JSON
from termal.model.message import Record

Schema = dict[str, Any]
SESSION = "/api/sessions/{session_id}"
"""The path of one session, as the description shows it."""


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One query parameter."""

    name: str
    schema: Schema
    description: str
    required: bool = False


@dataclass(frozen=True, kw_only=True)
class Doc:
    """One method of one path.

    ``reply``: the record that a success answers with, None for another media type than JSON.
    ``refusals``: statuses beside those that follow from the rest (guards, body, path, worker).
    ``asks``: it waits for a worker, which can be away. ``keyed``: it takes an ``Idempotency-Key``.
    ``gives``: path parameters of other operations that the reply holds, each with its JSON pointer there.
    """

    operation: str
    tag: str
    summary: str
    description: str = ""
    reply: Any = None
    status: int = 200
    media: str = JSON
    body: Any = None
    body_media: str = JSON
    body_required: bool = True
    query: tuple[Parameter, ...] = ()
    refusals: tuple[int, ...] = ()
    asks: bool = True
    keyed: bool = False
    example: dict[str, Any] | None = None
    gives: dict[str, str] = field(default_factory=dict)
    also: dict[int, str] = field(default_factory=dict)
    """Other statuses that answer with the reply's record."""
    events: dict[str, Any] = field(default_factory=dict)
    """What the events of a stream carry, by their names."""


class Described(Record, frozen=True):
    """This document."""

    openapi: str
    info: dict[str, Any]
    paths: dict[str, Any]
    components: dict[str, Any]


def number(
    name: str, description: str, lowest: int, highest: int = 10**15 - 1, default: int | None = None
) -> Parameter:
    """A whole number within its range, both ends included."""
    schema: Schema = {"type": "integer", "minimum": lowest, "maximum": highest}
    if default is not None:
        schema["default"] = default
    return Parameter(name=name, schema=schema, description=description)


def words(name: str, description: str, *, pattern: str = r"\S", required: bool = False) -> Parameter:
    """A text that is not blank."""
    return Parameter(
        name=name, schema={"type": "string", "pattern": pattern}, description=description, required=required
    )


def choice(name: str, description: str, *values: str) -> Parameter:
    return Parameter(name=name, schema={"type": "string", "enum": list(values)}, description=description)
