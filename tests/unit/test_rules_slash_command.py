"""Prompt templates: front matter, arguments, notes, titles."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termal.rules.slash_command import NOTE_HEADING, TEXT_BYTES, Native, read_native, read_template, resolve
from termal.rules.verdicts import Bad


@pytest.mark.parametrize(
    ("text", "description", "hint", "body"),
    [
        ("Do it", "Do it", None, "Do it"),
        ("\n\n  # Head \nx", "# Head", None, "\n\n  # Head \nx"),
        ("", "", None, ""),
        ("---\ndescription: Says\n---\nBody", "Says", None, "Body"),
        ("---\r\ndescription: Says\r\n---\r\n\r\nBody\r\n", "Says", None, "Body\n"),
        ("---\ndescription: 'a: b' # c\nargument-hint: \"[n]\"\n---\n\n\nB", "a: b", "[n]", "\nB"),
        ("---\ndescription: a # c\n---\nB", "a", None, "B"),
        ("---\nother: x\n---\nB", "---", None, "---\nother: x\n---\nB"),
        ("---\ndescription: x\nB", "---", None, "---\ndescription: x\nB"),
        ("---\ndescription: |\n  block\nargument_hint: h\n---\nB", "B", "h", "B"),
        ("---\ndescription: 'open\nname: n\n---\nB", "B", None, "B"),
        ("---\nmetadata:\n  description: inner\n---\nB", "B", None, "B"),
    ],
)
def test_front_matter_says_what_a_template_is_for(text: str, description: str, hint: str | None, body: str) -> None:
    template = read_template(text)
    assert (template.description, template.argument_hint, template.body) == (description, hint, body)


@given(st.text())
def test_any_text_is_a_template(text: str) -> None:
    resolve("x", read_template(text)._replace(fields={}), "a b", None)


@pytest.mark.parametrize(
    ("body", "arguments", "note", "visible", "expanded"),
    [
        ("Fix $ARGUMENTS now", " a b ", None, "/fix a b", "Fix a b now"),
        ("$ARGUMENTS, $ARGUMENTS", "x", None, "/fix x", "x, x"),
        ("Fix $ARGUMENTS now", None, None, "/fix", "Fix  now"),
        ("Fix", "unused", None, "/fix unused", "Fix"),
        ("Fix $ARGUMENTS", "$ARGUMENTS", None, "/fix $ARGUMENTS", "Fix $ARGUMENTS"),
        ("Fix\n", "", " say $ARGUMENTS ", "/fix", f"Fix\n\n{NOTE_HEADING}\n\nsay $ARGUMENTS"),
        ("Fix", "", "  ", "/fix", "Fix"),
    ],
)
def test_arguments_take_their_place_and_a_note_stands_below(
    body: str, arguments: str | None, note: str | None, visible: str, expanded: str
) -> None:
    resolved = resolve("fix", read_template(body), arguments, note)
    assert (resolved.visible, resolved.expanded) == (visible, expanded)


@pytest.mark.parametrize(("arguments", "note"), [("a" * (TEXT_BYTES + 1), None), (None, "ä" * (TEXT_BYTES // 2 + 1))])
def test_what_is_too_long_is_refused(arguments: str | None, note: str | None) -> None:
    with pytest.raises(Bad):
        resolve("fix", read_template("x"), arguments, note)


@pytest.mark.parametrize(
    ("description", "text", "source", "of_project"),
    [
        ("Does (bundled)", "Does", "Claude bundled command", False),
        ("Does (project) ", "Does", "Claude project command", True),
        ("(user)", "", "Claude user command", False),
        ("Does (other)", "Does (other)", "Claude native command", False),
        ("", "", "Claude native command", False),
    ],
)
def test_a_tag_behind_a_description_is_the_source(description: str, text: str, source: str, of_project: bool) -> None:
    assert read_native("Claude", [(" x ", description, " h "), (" ", "", "")]) == [
        Native("x", text, source, "h", of_project)
    ]


def titled(front: str, arguments: str | None = None) -> str:
    return resolve("fix", read_template(f"---\ndescription: Fixes\n{front}\n---\nBody"), arguments, None).title


NESTED = "metadata:\n  termal:\n    title:\n      strategy: prefixFirstArgument\n      prefix: Review"
DOTTED = "metadata.termal.title.strategy: prefixFirstArgument\nmetadata.termal.title.prefix: Review"


@pytest.mark.parametrize("front", [NESTED, DOTTED], ids=["nested", "dotted"])
def test_a_title_may_be_a_prefix_and_the_first_argument(front: str) -> None:
    assert titled(front, "src/a.py and more") == "Review src/a.py"
    assert titled(front) == "Fixes"


def test_a_title_is_else_the_description_or_what_was_typed_and_has_an_end() -> None:
    assert titled("metadata.termal.title.strategy: default", "x") == "Fixes"
    assert resolve("fix", read_template(""), "x", None).title == "/fix x"
    assert len(resolve("fix", read_template("a" * 999), None, None).title) == 200


@pytest.mark.parametrize(
    "front",
    [
        "metadata.termal.title.strategy: prefixFirstArgument",
        "metadata.termal.title.strategy: other",
        "metadata.termal.title.prefix: Review",
    ],
)
def test_a_title_rule_that_makes_no_sense_is_refused(front: str) -> None:
    with pytest.raises(Bad) as caught:
        titled(front)
    assert caught.value.reason == "titleMetadata"
