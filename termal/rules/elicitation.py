"""Whether what a person fills in fits the form of an MCP server: the flat subset of JSON Schema that forms have.

The schema comes from a program that nobody vouches for: a part of it that has another shape limits nothing.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from termal.rules.verdicts import Bad

Json = Mapping[str, Any]


def check_form(schema: object, content: object) -> None:
    """``content`` is an object with known properties only, all required ones, each of its type. Raises `Bad`."""
    if not isinstance(content, dict):
        raise Bad("accepting a form needs its content, an object", reason="contentMissing")
    form = _object(schema)
    properties = _object(form.get("properties"))
    for name in _list(form.get("required")):
        if isinstance(name, str) and name not in content:
            raise Bad(f"{name!r} is required", reason="required")
    for name, value in content.items():
        if name not in properties:
            raise Bad(f"the form has no {name!r}", reason="unknownProperty")
        _check(name, value, _object(properties[name]))


def _check(name: str, value: object, schema: Json) -> None:
    kind = schema.get("type")
    check = _CHECKS.get(kind) if isinstance(kind, str) else None
    if check is None:
        raise Bad(f"{name!r} has a type that a form cannot have", reason="unknownType")
    check(name, value, schema)


def _string(name: str, value: object, schema: Json) -> None:
    if not isinstance(value, str):
        raise _wrong(name, "a string")
    _within(name, len(value), schema, _Limits("minLength", "maxLength", " characters"))
    _among(name, value, _choices(schema, "oneOf"))


def _number(name: str, value: object, schema: Json) -> None:
    if not _is_number(value):
        raise _wrong(name, "a number")
    _within(name, value, schema, _Limits("minimum", "maximum"))


def _integer(name: str, value: object, schema: Json) -> None:
    whole = isinstance(value, float) and value.is_integer()
    if not _is_number(value) or not (whole or isinstance(value, int)):
        raise _wrong(name, "an integer")
    _within(name, value, schema, _Limits("minimum", "maximum"))


def _boolean(name: str, value: object, _: Json) -> None:
    if not isinstance(value, bool):
        raise _wrong(name, "true or false")


def _array(name: str, value: object, schema: Json) -> None:
    items = _object(schema.get("items"))
    if items.get("type", "string") != "string":
        raise Bad(f"{name!r} has items of a type that a form cannot have", reason="unknownType")
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _wrong(name, "a list of strings")
    _within(name, len(value), schema, _Limits("minItems", "maxItems", " items"))
    choices = _choices(items, "anyOf")
    for item in value:
        _among(name, item, choices)


_CHECKS: dict[str, Callable[[str, object, Json], None]] = {
    "string": _string,
    "number": _number,
    "integer": _integer,
    "boolean": _boolean,
    "array": _array,
}


class _Limits(NamedTuple):
    """The keys of the two limits; ``unit`` is what they count."""

    lowest: str
    highest: str
    unit: str = ""


def _within(name: str, size: Any, schema: Json, limits: _Limits) -> None:
    """``size`` is a number; limits that are none do not count."""
    low, high = schema.get(limits.lowest), schema.get(limits.highest)
    if _is_number(low) and size < low:
        raise Bad(f"{name!r} must be or have at least {low}{limits.unit}", reason=limits.lowest)
    if _is_number(high) and size > high:
        raise Bad(f"{name!r} must be or have at most {high}{limits.unit}", reason=limits.highest)


def _choices(schema: Json, titled: str) -> list[Any] | None:
    """The values to choose from: plain, or constants with a title of their own; None when anything may be given."""
    if isinstance(schema.get("enum"), list):
        return _list(schema["enum"])
    if isinstance(schema.get(titled), list):
        return [_object(choice).get("const") for choice in _list(schema[titled])]
    return None


def _among(name: str, value: str, choices: list[Any] | None) -> None:
    if choices is not None and value not in choices:
        raise Bad(f"{name!r} takes only one of its choices", reason="notOffered")


def _wrong(name: str, wanted: str) -> Bad:
    return Bad(f"{name!r} must be {wanted}", reason="wrongType")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _object(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
