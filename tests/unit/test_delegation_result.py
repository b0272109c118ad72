"""The packet at the end of a child's prose: where it begins, its sections, its findings, what makes it no packet."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from termal.model.delegation import DelegationFinding
from termal.rules.delegation_findings import location
from termal.rules.delegation_result import WINDOW_BYTES, Prose, parse_packet, synthesize


def finding(severity: str, message: str, file: str | None = None, line: int | None = None) -> DelegationFinding:
    return DelegationFinding(severity=severity, message=message, file=file, line=line)


def packet(body: str, preamble: str = "") -> Prose | None:
    return parse_packet(f"{preamble}\n## Result\n\nStatus: completed\n\nSummary:\nDone.\n\n{body}")


def found(body: str, preamble: str = "", summary: str = "Done.") -> list[DelegationFinding] | None:
    text = f"{preamble}\n## Result\n\nStatus: completed\n\nSummary:\n{summary}\n\nFindings:\n{body}\n"
    parsed = parse_packet(text)
    return None if parsed is None else parsed.findings


WHOLE = """\
Some words before it.

## Result

Status: completed

Summary:
Reviewed the patch. No blocking issues found.

Findings:
- None

Commands Run:
- npx vitest run src/a.test.tsx: passed

Files Inspected:
- ui/src/a.tsx
- ui/src/a.test.tsx
"""


def test_the_usual_packet() -> None:
    assert parse_packet(WHOLE) == Prose(
        "completed",
        "Reviewed the patch. No blocking issues found.",
        [],
        ["Inspected ui/src/a.tsx", "Inspected ui/src/a.test.tsx"],
    )


# ---------------------------------------------------------------------------- beginning


@pytest.mark.parametrize("heading", ["## Result", "## RESULT", "  ## result\t"])
def test_the_first_heading_of_a_result_begins_the_packet(heading: str) -> None:
    parsed = parse_packet(f"x\n{heading}\nStatus: failed\nSummary: a\n## Result\nStatus: completed\n")
    assert parsed is not None
    assert (parsed.status, parsed.summary) == ("failed", "a\n## Result\nStatus: completed")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("Status: completed\nSummary: x", id="no-heading"),
        pytest.param("### Result\nStatus: completed", id="another-level"),
        pytest.param("## Results\nStatus: completed", id="another-word"),
        pytest.param("## Result\nSummary: x", id="no-status"),
        pytest.param("## Result\nStatus: done\nSummary: x", id="another-status"),
        pytest.param("## Result\nStatus: completed\nStatus: ?\nSummary: x", id="the-last-status-counts"),
        pytest.param("## Result\nSummary: x\nStatus: completed", id="status-behind-an-open-section"),
    ],
)
def test_what_is_no_packet(text: str) -> None:
    assert parse_packet(text) is None


def test_only_the_end_of_a_long_message_is_looked_through() -> None:
    head = "## Result\nStatus: failed\nSummary: old\n"
    filler = "\u20ac" * (WINDOW_BYTES // 3)
    assert parse_packet(head + filler) is None
    tail = "\n## Result\nStatus: completed\nSummary: new\n"
    parsed = parse_packet(head + filler + tail)
    assert parsed is not None
    assert (parsed.status, parsed.summary) == ("completed", "new")


@pytest.mark.parametrize(
    ("line", "status"),
    [("STATUS: Completed", "completed"), ("**Status:** failed", "failed"), ("status:failed.", "failed")],
)
def test_a_status_may_be_written_in_several_ways(line: str, status: str) -> None:
    parsed = parse_packet(f"## Result\n{line}\nSummary: x")
    assert parsed is not None
    assert parsed.status == status


# ----------------------------------------------------------------------------- sections


@pytest.mark.parametrize(
    ("status", "phrase"), [("completed", "Completed without a summary."), ("failed", "Failed without a summary.")]
)
def test_a_packet_without_a_summary_says_so(status: str, phrase: str) -> None:
    for text in (f"Status: {status}", f"Status: {status}\nSummary:\n\n## Findings\n- None"):
        parsed = parse_packet(f"## Result\n{text}")
        assert parsed is not None
        assert parsed.summary == phrase


def test_a_summary_keeps_headings_and_labels_that_are_none_of_the_packet() -> None:
    parsed = parse_packet(
        "## Result\nStatus: completed\nSummary: first\n## Background\nStatus: open\nThe following holds:\n- a\n"
        "Findings:\n- None\n"
    )
    assert parsed is not None
    assert parsed.summary == "first\n## Background\nStatus: open\nThe following holds:\n- a"


def test_a_second_summary_is_ignored_with_its_text() -> None:
    parsed = packet("Summary:\nanother\n\nNotes:\n- kept\n")
    assert parsed is not None
    assert (parsed.summary, parsed.notes) == ("Done.", ["kept"])


@pytest.mark.parametrize("heading", ["## Notes", "**Notes:**", "Notes:", "#### NOTES: all of them:", "# notes"])
def test_a_section_may_be_headed_in_several_ways(heading: str) -> None:
    parsed = packet(f"{heading}\n- one\n* two\nthree\n- None.\n")
    assert parsed is not None
    assert parsed.notes == ["one", "two", "three"]


def test_commands_and_code_reviews_are_left_out() -> None:
    parsed = packet("Notes:\n- a\n\n## Commands Run\n- rm: passed\n\n## Code Review \u2014 x\n- [High] y - z\n")
    assert parsed is not None
    assert (parsed.notes, parsed.findings) == (["a"], [])


def test_a_code_review_title_inside_findings_stays_there() -> None:
    assert found("## Code Review: list\n- [High] a.py:1 - boom") == [finding("High", "boom", "a.py", 1)]


# ----------------------------------------------------------------------------- findings


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("- **[High]** `a.py:12` \u2014 boom", finding("High", "boom", "a.py", 12), id="bold-brackets"),
        pytest.param("* **Low** a.py - boom", finding("Low", "boom", "a.py"), id="bold"),
        pytest.param(
            "[critical] a.py:3-9 \u2013 boom", finding("critical", "boom", "a.py", 3), id="brackets-as-written"
        ),
        pytest.param("- NOTE a.py:1 - boom", finding("NOTE", "boom", "a.py", 1), id="bare"),
        pytest.param(
            "- [High] a-b.py:2 - one \u2014 two", finding("High", "two", "a-b.py:2 - one"), id="the-em-dash-comes-first"
        ),
        pytest.param("- [Medium] only words", finding("Medium", "only words"), id="no-place"),
        pytest.param(
            "- **[High] Lost update** - `a.py:4` is written twice",
            finding("High", "Lost update - `a.py:4` is written twice", "a.py", 4),
            id="title",
        ),
        pytest.param(
            "- **[High] Lost update** - [a.py](src/a.py#L7) twice",
            finding("High", "Lost update - [a.py](src/a.py#L7) twice", "a.py", 7),
            id="title-with-a-link",
        ),
        pytest.param("- **[Low] Alone**", finding("Low", "Alone"), id="title-alone"),
        pytest.param("| High | `a.py:3` | boom |", finding("High", "boom", "a.py", 3), id="row"),
        pytest.param("| **Low** | a.py | x \\| y | more |", finding("Low", "x | y", "a.py"), id="row-with-a-bar"),
    ],
)
def test_forms_of_a_finding(line: str, expected: DelegationFinding) -> None:
    assert found(line) == [expected]


@pytest.mark.parametrize(
    "line",
    [
        "  - [High] a.py - indented",
        "- Highly a.py - no severity",
        "- Low risk overall",
        "- Severe a.py - unknown word",
        "| Severity | Location | Text |",
        "|---|---|---|",
        "| High | a.py |",
        "plain words",
    ],
)
def test_lines_that_are_no_finding(line: str) -> None:
    assert found(f"{line}\n- [High] z.py - one") == [finding("High", "one", "z.py")]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("`a.py:12`", ("a.py", 12)),
        ("a.py:12-15", ("a.py", 12)),
        ("a.py:12:7", ("a.py", 12)),
        ("a.py", ("a.py", None)),
        ("a.py:x", ("a.py:x", None)),
        ("a.py:0", ("a.py:0", None)),
        ("C:\\x\\a.py", ("C:\\x\\a.py", None)),
        ("[a.py:3](b.py#L9)", ("a.py", 3)),
        ("[a.py](b.py:9)", ("a.py", 9)),
        ("[](b.py:9)", ("b.py", 9)),
        ("[a.py](https://x/b.py#L9-L12)", ("a.py", 9)),
        ("", (None, None)),
        ("``", (None, None)),
    ],
)
def test_places(text: str, place: tuple[str | None, int | None]) -> None:
    assert location(text) == place


def test_unknown_headings_end_the_findings_and_severities_do_not() -> None:
    body = "### High severity\n- [High] a - 1\n### Low (2)\n- [Low] b - 2\n### Praise\n- [Low] c - 3\n"
    assert found(body) == [finding("High", "1", "a"), finding("Low", "2", "b")]
    assert found(body + "### Actionable findings\n- [Low] d - 4") == [
        finding("High", "1", "a"),
        finding("Low", "2", "b"),
        finding("Low", "4", "d"),
    ]


def test_repeats_are_dropped_and_the_rest_is_cut() -> None:
    lines = [f"- [High] a.py:{number} - x" for number in range(1, 121)]
    listed = found("\n".join([lines[0], *lines]))
    assert listed is not None
    assert [one.line for one in listed] == list(range(1, 101))


# ------------------------------------------------------------- findings that are elsewhere

EARLIER = "## Actionable\n- **[High]** a.py - early\n\n## Summary of it\n"


@pytest.mark.parametrize(
    "body",
    ["- [High] See the section above", "- See above.", "- **[Low]** As described in the previous section", "whatever"],
)
def test_what_points_back_is_replaced_by_what_stands_there(body: str) -> None:
    assert found(body, EARLIER) == [finding("High", "early", "a.py")]


def test_earlier_findings_come_first() -> None:
    assert found("- [Low] b - own\n- [High] See above", EARLIER) == [
        finding("High", "early", "a.py"),
        finding("Low", "own", "b"),
    ]


def test_a_packet_that_points_nowhere_is_none() -> None:
    assert found("- [High] See above") is None
    assert found("- [High] See above\n- [Low] b - own") == [finding("Low", "own", "b")]


def test_a_bare_severity_means_nothing_outside_of_a_packet() -> None:
    assert found("whatever", "## Findings\n- High a.py - x\n") == []


def test_an_empty_section_is_final() -> None:
    for empty in ("- None", "None.", "* No findings", "- No issues found.", "**None**"):
        assert found(empty, EARLIER) == []


@pytest.mark.parametrize(
    ("summary", "severity"),
    [
        pytest.param("I found one high severity problem.", "High", id="counted-severity"),
        pytest.param("Two issues need work.", "Unspecified", id="counted-noun"),
        pytest.param("One test gap remains.", "Unspecified", id="counted-gap"),
        pytest.param("There are actionable findings.", "Unspecified", id="actionable"),
        pytest.param("A critical race was seen.", "Critical", id="severity-before-the-noun"),
    ],
)
def test_an_empty_section_under_a_summary_that_claims_findings(summary: str, severity: str) -> None:
    assert found("- None", EARLIER, summary) == [finding("High", "early", "a.py")]
    listed = found("- None", "", summary)
    assert listed is not None
    assert [(one.severity, "full output" in one.message) for one in listed] == [(severity, True)]


@pytest.mark.parametrize(
    "summary",
    [
        "No issues found.",
        "No blocking issues found.",
        "Found no high severity problems.",
        "Checked 3 files. Nothing to report.",
        "All 2 issues are fixed.",
        "The one reported bug was resolved.",
        "Zero findings.",
        "0 issues.",
    ],
)
def test_summaries_that_claim_nothing(summary: str) -> None:
    assert found("- None", "", summary) == []


# ---------------------------------------------------------------------------- synthesis


def test_plain_prose_is_a_completed_result_whatever_it_says() -> None:
    text = "  I could not finish: the tests fail.\n"
    assert synthesize(text) == Prose("completed", text.strip(), [], [])


def test_plain_prose_may_hold_findings_under_their_heading() -> None:
    text = "Intro\n- [High] a - not yet\n## Findings\n- [High] a.py:1 - x\n- High b.py - bare\n## Other\n- [Low] c - y"
    assert synthesize(text).findings == [finding("High", "x", "a.py", 1)]


LINES = st.sampled_from(
    [
        *WHOLE.splitlines(),
        *EARLIER.splitlines(),
        "Findings:",
        "- [High] See above",
        "|",
        "**[High",
        "| High |",
        "\ud7ff",
        "[x](",
        ":",
    ]
)


@given(st.lists(LINES | st.text(max_size=20), max_size=25))
def test_no_text_breaks_the_parser(lines: list[str]) -> None:
    for parsed in (parse_packet("\n".join(lines)), synthesize("\n".join(lines))):
        if parsed is None:
            continue
        assert parsed.status in ("completed", "failed")
        assert parsed.summary
        assert len(parsed.findings) <= 100
        for one in parsed.findings:
            assert one.severity
            assert one.message.strip()
            assert one.line is UNSET or isinstance(one.line, int)


@given(
    st.sampled_from(["completed", "failed"]),
    st.lists(
        st.tuples(st.sampled_from(["High", "Low"]), st.integers(1, 99), st.sampled_from(["x", "y z"])), max_size=6
    ),
)
def test_what_a_child_is_told_to_write_is_read_as_it_was_meant(status: str, rows: list[Any]) -> None:
    lines = [f"- [{severity}] src/a.py:{line} - {message}" for severity, line, message in rows] or ["- None"]
    text = f"## Result\n\nStatus: {status}\n\nSummary:\nWords.\n\nFindings:\n" + "\n".join(lines) + "\n"
    expected = dict.fromkeys(finding(severity, message, "src/a.py", line) for severity, line, message in rows)
    assert parse_packet(text) == Prose(status, "Words.", list(expected), [])  # type: ignore[arg-type]
