"""A reviewer's payload: its form, its limits, the envelope that is kept and what the record shows of it."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from termal.model.delegation import DelegationCommandResult, DelegationFinding, DelegationResult
from termal.rules.delegation_review import (
    ENVELOPE_BYTES,
    decode_payload,
    envelope_body,
    idempotency_key,
    read_envelope,
    result_of,
    stamp,
)
from termal.rules.verdicts import Bad, Refused
from termal.wire.verdict_errors import error_of

D, C = "delegation-1", "session-7"
PAYLOAD: dict[str, Any] = {
    "schemaVersion": 1,
    "status": "completed",
    "summary": "  One finding. ",
    "findings": [{"severity": "Medium", "file": "a.py", "line": 3, "message": "boom"}],
    "commandsRun": [{"command": "make test", "status": "success"}],
    "filesInspected": ["a.py"],
    "notes": ["n"],
    "suggestedTrackerUpdates": ["close it"],
}


def status_of(changes: dict[str, Any], *, without: str = "") -> int:
    """202, or the status that the payload with ``changes`` is refused with."""
    payload = {key: value for key, value in {**PAYLOAD, **changes}.items() if key != without}
    try:
        decoded = decode_payload(msgspec.json.encode(payload))
        envelope_body(decoded, delegation_id=D, child_session_id=C, attempt=1)
    except Refused as refused:
        return error_of(refused).status
    return 202


def body(changes: dict[str, Any] | None = None, attempt: int = 1) -> str:
    payload = decode_payload(msgspec.json.encode({**PAYLOAD, **(changes or {})}))
    return envelope_body(payload, delegation_id=D, child_session_id=C, attempt=attempt)


def finding(**changes: Any) -> dict[str, Any]:
    return {"findings": [{**PAYLOAD["findings"][0], **changes}]}


@pytest.mark.parametrize("key", list(PAYLOAD))
def test_every_key_is_required(key: str) -> None:
    assert status_of({}, without=key) == 422


@pytest.mark.case("A46")
@pytest.mark.parametrize(
    ("changes", "status"),
    [
        pytest.param(finding(extra=1), 422, id="extra-nested-field"),
        pytest.param({"commandsRun": [{"command": "x", "status": "maybe"}]}, 422, id="command-status"),
        pytest.param(finding(severity="high"), 400, id="severity-in-another-case"),
        pytest.param(finding(line=0), 400, id="line-0"),
        pytest.param({"findings": PAYLOAD["findings"] * 101}, 400, id="101-findings"),
    ],
)
def test_what_has_another_form_and_what_breaks_a_rule(changes: dict[str, Any], status: int) -> None:
    assert status_of(changes) == status


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"extra": 1}, id="extra-field"),
        pytest.param({"schemaVersion": "1"}, id="version-as-text"),
        pytest.param({"schemaVersion": True}, id="version-as-boolean"),
        pytest.param({"status": "done"}, id="unknown-status"),
        pytest.param({"summary": None}, id="summary-null"),
        pytest.param({"findings": None}, id="findings-null"),
        pytest.param({"findings": {}}, id="findings-object"),
        pytest.param({"findings": [{"severity": "Low"}]}, id="no-message"),
        pytest.param({"commandsRun": [{"command": "x"}]}, id="no-command-status"),
        pytest.param({"commandsRun": [{"command": "x", "status": "running"}]}, id="running-command"),
        pytest.param({"commandsRun": [{"command": "x", "status": "success", "y": 1}]}, id="extra-in-command"),
        pytest.param({"notes": [1]}, id="note-as-number"),
        pytest.param(finding(line="3"), id="line-as-text"),
        pytest.param(finding(line=1.5), id="line-as-fraction"),
    ],
)
def test_forms_that_are_no_payload(changes: dict[str, Any]) -> None:
    assert status_of(changes) == 422


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 5000])
def test_bytes_that_are_no_payload(raw: bytes) -> None:
    with pytest.raises(Refused) as refused:
        decode_payload(raw)
    assert (error_of(refused.value).status, refused.value.reason) == (422, "invalidJson")


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"schemaVersion": 2}, id="version"),
        pytest.param({"status": "running"}, id="running"),
        pytest.param({"status": "queued"}, id="queued"),
        pytest.param({"status": "canceled"}, id="canceled"),
        pytest.param({"summary": " \n"}, id="blank-summary"),
        pytest.param({"summary": "x" * 16385}, id="long-summary"),
        pytest.param(finding(message=" "), id="blank-message"),
        pytest.param(finding(message="x" * 16385), id="long-message"),
        pytest.param(finding(file=""), id="blank-file"),
        pytest.param(finding(file="x" * 16385), id="long-file"),
        pytest.param(finding(line=-1), id="line-below-0"),
        pytest.param(finding(line=2**31), id="line-of-no-file"),
        pytest.param(finding(line=2**70), id="line-that-is-hardly-a-number"),
        pytest.param(finding(severity="Unavailable"), id="severity-of-ours"),
        pytest.param({"commandsRun": [{"command": " ", "status": "error"}]}, id="blank-command"),
        pytest.param({"commandsRun": [{"command": "x", "status": "error"}] * 201}, id="many-commands"),
        pytest.param({"filesInspected": [""]}, id="blank-path"),
        pytest.param({"filesInspected": ["x"] * 201}, id="many-files"),
        pytest.param({"notes": ["x"] * 201}, id="many-notes"),
        pytest.param({"notes": ["x" * 16385]}, id="long-note"),
        pytest.param({"suggestedTrackerUpdates": ["x"] * 201}, id="many-suggestions"),
    ],
)
def test_payloads_that_break_a_rule(changes: dict[str, Any]) -> None:
    assert status_of(changes) == 400


def test_limits_are_inclusive() -> None:
    assert status_of({"summary": "\U0001f600" * 16384}) == 202
    assert status_of({"findings": [{"severity": "Note", "message": "x"}] * 100}) == 202
    assert status_of({"notes": ["x"] * 200, "filesInspected": ["x"] * 200}) == 202
    assert status_of({"findings": [], "commandsRun": [], "filesInspected": [], "notes": []}) == 202
    assert status_of(finding(file=None, line=None)) == 202
    assert status_of({"status": "failed"}) == 202


@pytest.mark.case("A47")
def test_the_whole_envelope_is_bounded() -> None:
    assert status_of({"notes": ["x" * 16384] * 15}) == 202
    payload = decode_payload(msgspec.json.encode({**PAYLOAD, "notes": ["x" * 16384] * 16}))
    with pytest.raises(Bad) as refused:
        envelope_body(payload, delegation_id=D, child_session_id=C, attempt=1)
    assert (error_of(refused.value).status, refused.value.reason) == (400, "reviewTooLarge")
    assert str(ENVELOPE_BYTES) in refused.value.text


# ----------------------------------------------------------------------------- envelope


def test_the_envelope_says_what_it_belongs_to() -> None:
    assert msgspec.json.decode(body(attempt=2)) == {
        **PAYLOAD,
        "summary": "One finding.",
        "kind": "delegationReviewResult",
        "delegationId": D,
        "childSessionId": C,
        "submissionAttempt": 2,
    }
    assert stamp(D, 2) == "delegation-1:2"
    assert idempotency_key(D, 2) == "delegation-review-result-v1-delegation-1-2"


def test_the_same_payload_gives_the_same_text() -> None:
    shuffled = {key: PAYLOAD[key] for key in reversed(PAYLOAD)}
    again = decode_payload(msgspec.json.format(msgspec.json.encode(shuffled), indent=4))
    assert envelope_body(again, delegation_id=D, child_session_id=C, attempt=1) == body()
    assert body({"notes": []}) != body()


def test_the_result_is_what_was_submitted_with_notes_in_their_order() -> None:
    envelope = read_envelope(body(), delegation_id=D, child_session_id=C, attempt=1)
    assert result_of(envelope) == DelegationResult(
        delegation_id=D,
        child_session_id=C,
        status="completed",
        summary="One finding.",
        findings=[DelegationFinding(severity="Medium", message="boom", file="a.py", line=3)],
        changed_files=UNSET,
        commands_run=[DelegationCommandResult(command="make test", status="success")],
        notes=["n", "Inspected a.py", "Suggested tracker update: close it"],
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("not json", id="no-json"),
        pytest.param("{}", id="nothing-in-it"),
        pytest.param(body().replace('"kind"', '"kinds"'), id="another-key"),
        pytest.param(body().replace("delegationReviewResult", "other"), id="another-kind"),
        pytest.param(body().replace('"schemaVersion":1', '"schemaVersion":2'), id="another-version"),
        pytest.param(body().replace(D, "delegation-2"), id="another-delegation"),
        pytest.param(body().replace(C, "session-8"), id="another-child"),
        pytest.param(body(attempt=2), id="another-attempt"),
        pytest.param(body().replace('"completed"', '"running"'), id="another-status"),
    ],
)
def test_an_envelope_that_cannot_be_trusted_says_why(text: str) -> None:
    with pytest.raises(Bad) as refused:
        read_envelope(text, delegation_id=D, child_session_id=C, attempt=1)
    assert refused.value.text


TEXT = st.text(min_size=1, max_size=20).filter(lambda text: bool(text.strip()))
PAYLOADS = st.fixed_dictionaries(
    {
        "schemaVersion": st.just(1),
        "status": st.sampled_from(["completed", "failed"]),
        "summary": TEXT,
        "findings": st.lists(
            st.fixed_dictionaries(
                {"severity": st.sampled_from(["Critical", "High", "Medium", "Low", "Note"]), "message": TEXT},
                optional={"file": TEXT, "line": st.integers(1, 10**6)},
            ),
            max_size=4,
        ),
        "commandsRun": st.lists(
            st.fixed_dictionaries({"command": TEXT, "status": st.sampled_from(["success", "error"])}), max_size=3
        ),
        "filesInspected": st.lists(TEXT, max_size=3),
        "notes": st.lists(TEXT, max_size=3),
        "suggestedTrackerUpdates": st.lists(TEXT, max_size=3),
    }
)


@given(PAYLOADS)
def test_what_is_accepted_comes_back_unchanged(payload: dict[str, Any]) -> None:
    decoded = decode_payload(msgspec.json.encode(payload))
    text = envelope_body(decoded, delegation_id=D, child_session_id=C, attempt=3)
    envelope = read_envelope(text, delegation_id=D, child_session_id=C, attempt=3)
    assert msgspec.to_builtins(envelope.findings) == payload["findings"]
    result = result_of(envelope)
    assert (result.status, result.summary) == (payload["status"], payload["summary"].strip())
    assert isinstance(result.notes, list)
    assert len(result.notes) == sum(len(payload[key]) for key in ("notes", "filesInspected", "suggestedTrackerUpdates"))
