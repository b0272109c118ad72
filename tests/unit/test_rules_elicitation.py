"""Content of a form against its schema: what is taken, what is refused, and schemas that make no sense."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termal.rules.elicitation import check_form
from termal.rules.verdicts import Bad

Json = dict[str, Any]


def form(required: tuple[str, ...] = (), **properties: Any) -> Json:
    return {"type": "object", "properties": properties, "required": list(required)}


SIZE = {"type": "string", "minLength": 2, "maxLength": 3}
COLOUR = {"type": "string", "enum": ["red", "blue"]}
TITLED = {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "b", "title": "Blue"}]}
WEIGHT = {"type": "number", "minimum": 0.5, "maximum": 2}
COUNT = {"type": "integer", "minimum": 1, "maximum": 3}
TAGS = {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string", "enum": ["a", "b", "c"]}}
TITLED_TAGS = {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}}
NESTED: Json = {"type": "object", "properties": {}}

TAKEN = [
    pytest.param(form(), {}, id="nothing asked, nothing given"),
    pytest.param(form(a=SIZE), {}, id="an optional property left out"),
    pytest.param(form(("a",), a=SIZE), {"a": "xy"}, id="the shortest text"),
    pytest.param(form(a=SIZE), {"a": "äöü"}, id="the longest text, in characters and not in bytes"),
    pytest.param(form(a={"type": "string"}), {"a": ""}, id="an empty text"),
    pytest.param(form(a=COLOUR), {"a": "blue"}, id="a choice"),
    pytest.param(form(a=TITLED), {"a": "r"}, id="a choice with a title"),
    pytest.param(form(a=WEIGHT), {"a": 0.5}, id="the smallest number"),
    pytest.param(form(a=WEIGHT), {"a": 2}, id="the largest number"),
    pytest.param(form(a=COUNT), {"a": 3}, id="the largest integer"),
    pytest.param(form(a=COUNT), {"a": 2.0}, id="a whole number with a point"),
    pytest.param(form(a={"type": "boolean"}), {"a": False}, id="a boolean"),
    pytest.param(form(a=TAGS), {"a": ["a", "c"]}, id="a list of choices"),
    pytest.param(form(a=TITLED_TAGS), {"a": ["a", "a"]}, id="a list of choices with titles"),
    pytest.param(form(a={"type": "array", "items": {"type": "string"}}), {"a": []}, id="an empty list"),
    pytest.param(form(a={"type": "string", "minLength": "2", "enum": 7}), {"a": ""}, id="limits that are none"),
    pytest.param({"properties": form(a=SIZE)["properties"], "required": "a"}, {}, id="required that is no list"),
    pytest.param(None, {}, id="no schema"),
]


@pytest.mark.parametrize(("schema", "content"), TAKEN)
def test_content_that_fits_is_taken(schema: Json, content: Json) -> None:
    check_form(schema, content)


REFUSED = [
    pytest.param(form(), None, "contentMissing", id="no content"),
    pytest.param(form(), [], "contentMissing", id="a list"),
    pytest.param(form(), "a", "contentMissing", id="a text"),
    pytest.param(form(("a",), a=SIZE), {}, "required", id="a required property left out"),
    pytest.param(form(("b",), a=SIZE), {"a": "xy"}, "required", id="required and not described"),
    pytest.param(form(a=SIZE), {"b": "xy"}, "unknownProperty", id="an unknown property"),
    pytest.param(None, {"b": 1}, "unknownProperty", id="any property without a schema"),
    pytest.param(form(a=SIZE), {"a": "x"}, "minLength", id="too short"),
    pytest.param(form(a=SIZE), {"a": "wxyz"}, "maxLength", id="too long"),
    pytest.param(form(a=SIZE), {"a": None}, "wrongType", id="null for a text"),
    pytest.param(form(a=COLOUR), {"a": "green"}, "notOffered", id="no choice"),
    pytest.param(form(a=TITLED), {"a": "Red"}, "notOffered", id="the title of a choice"),
    pytest.param(form(a=WEIGHT), {"a": 0.4}, "minimum", id="too small"),
    pytest.param(form(a=WEIGHT), {"a": 2.1}, "maximum", id="too large"),
    pytest.param(form(a=WEIGHT), {"a": "1"}, "wrongType", id="a text for a number"),
    pytest.param(form(a=WEIGHT), {"a": True}, "wrongType", id="a boolean for a number"),
    pytest.param(form(a=COUNT), {"a": 1.5}, "wrongType", id="a broken integer"),
    pytest.param(form(a=COUNT), {"a": True}, "wrongType", id="a boolean for an integer"),
    pytest.param(form(a=COUNT), {"a": 0}, "minimum", id="an integer too small"),
    pytest.param(form(a={"type": "boolean"}), {"a": 1}, "wrongType", id="a number for a boolean"),
    pytest.param(form(a=TAGS), {"a": []}, "minItems", id="too few items"),
    pytest.param(form(a=TAGS), {"a": ["a", "b", "c"]}, "maxItems", id="too many items"),
    pytest.param(form(a=TAGS), {"a": ["d"]}, "notOffered", id="an item that is no choice"),
    pytest.param(form(a=TITLED_TAGS), {"a": ["A"]}, "notOffered", id="the title of an item"),
    pytest.param(form(a=TAGS), {"a": [1]}, "wrongType", id="an item that is no text"),
    pytest.param(form(a=TAGS), {"a": "a"}, "wrongType", id="a text for a list"),
    pytest.param(form(a={"type": "array", "items": {"type": "number"}}), {"a": [1]}, "unknownType", id="numbers"),
    pytest.param(form(a=NESTED), {"a": {}}, "unknownType", id="an object"),
    pytest.param(form(a={"type": "null"}), {"a": None}, "unknownType", id="null"),
    pytest.param(form(a={"type": ["string"]}), {"a": "x"}, "unknownType", id="several types"),
    pytest.param(form(a={}), {"a": "x"}, "unknownType", id="no type"),
    pytest.param(form(a=[]), {"a": "x"}, "unknownType", id="a property that is no object"),
]


@pytest.mark.parametrize(("schema", "content", "reason"), REFUSED)
def test_content_that_does_not_fit_is_refused_by_name(schema: Json, content: object, reason: str) -> None:
    with pytest.raises(Bad) as refused:
        check_form(schema, content)
    assert refused.value.reason == reason


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
KEYWORDS = st.sampled_from(["type", "enum", "oneOf", "items", "minLength", "maximum", "minItems", "anyOf"])
TYPES = st.sampled_from(["string", "number", "integer", "boolean", "array", "object"])
PROPERTY = st.dictionaries(KEYWORDS, JSON | TYPES, max_size=5)


@given(
    st.fixed_dictionaries({"properties": JSON | st.dictionaries(st.just("a"), PROPERTY), "required": JSON}),
    st.dictionaries(st.just("a"), JSON),
)
def test_no_schema_and_no_content_does_more_than_refuse(schema: Json, content: Json) -> None:
    with contextlib.suppress(Bad):
        check_form(schema, content)
