"""The gateway's small parts: replies, figures, reports, the arbiter's patience."""

import asyncio
import base64

import pytest

from termal.gateway.arbiter import EXITS, EXITS_S, Exits
from termal.gateway.bodies import ImageBody, SessionBody
from termal.gateway.images import IMAGE_BYTES, decode_images
from termal.gateway.meters import BOUNDS_S, Histogram, Meters
from termal.gateway.preferences import PreferencesBody, RemoteBody
from termal.gateway.refusal import MethodNotAllowed, error_headers, error_json
from termal.gateway.reply import accepts_gzip
from termal.gateway.report import judge
from termal.gateway.route import Segment
from termal.gateway.session_settings import SettingsBody
from termal.model.status import DaemonReport, DaemonState, ProcessReport, ProcessState
from termal.wire.errors import Busy, Conflict, InvalidRequest, NotFound, TooMany


def test_an_error_says_what_it_knows_and_leaves_out_what_it_does_not() -> None:
    assert error_json(NotFound("no such session"), "r1") == (
        b'{"error":"no such session","code":"not_found","requestId":"r1"}'
    )
    assert error_json(Conflict("busy", reason="turn", detail={"n": 1}), "r2") == (
        b'{"error":"busy","code":"conflict","reason":"turn","detail":{"n":1},"requestId":"r2"}'
    )


def test_what_may_be_repeated_says_when_and_what_is_not_allowed_says_what_is() -> None:
    assert error_headers(Busy("later")) == {"Retry-After": "1"}
    assert error_headers(TooMany("later")) == {"Retry-After": "1"}
    assert error_headers(MethodNotAllowed("no", "GET")) == {"Allow": "GET"}
    assert error_headers(NotFound("no")) == {}


@pytest.mark.parametrize(
    ("accepted", "answer"),
    [
        (None, False),
        ("", False),
        ("br", False),
        ("gzip", True),
        ("br, gzip;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip; q=0.0, br", False),
        ("gzip;q=0.01", True),
    ],
)
def test_a_reply_is_compressed_only_for_who_accepts_it(accepted: str | None, answer: bool) -> None:
    assert accepts_gzip(accepted) is answer


@pytest.mark.parametrize(
    ("sent", "id_"),
    [("session-1", "session-1"), ("a%2Fb", "a/b"), ("a%252Fb", "a%2Fb"), ("%C3%BC", "ü"), ("%FF", None), ("", None)],
)
def test_a_path_segment_is_decoded_once(sent: str, id_: str | None) -> None:
    assert Segment().convert(sent) == id_


def image(data: bytes, media_type: str = "image/gif") -> ImageBody:
    return ImageBody(data=base64.b64encode(data).decode(), media_type=media_type)


def test_images_are_decoded_and_keep_their_order_types_and_names() -> None:
    named = ImageBody(data="AQI=", media_type="image/png", file_name="a.png")
    first, second = asyncio.run(decode_images([named, image(b"x" * IMAGE_BYTES)]))
    assert (first.data, first.media_type, first.file_name) == (b"\1\2", "image/png", "a.png")
    assert (len(second.data), second.file_name) == (IMAGE_BYTES, None)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(image(b"x" * (IMAGE_BYTES + 1)), "imageSize", id="one byte too much"),
        pytest.param(image(b"x" * (IMAGE_BYTES + 5)), "imageSize", id="longer in base64 as well"),
        pytest.param(image(b"x", "image/tiff"), "imageType", id="tiff"),
        pytest.param(image(b""), "imageEmpty", id="no data"),
        pytest.param(ImageBody(data="AQ", media_type="image/png"), "image_base64", id="no padding"),
        pytest.param(ImageBody(data="A Q=", media_type="image/png"), "image_base64", id="a blank"),
        pytest.param(ImageBody(data="äQ==", media_type="image/png"), "image_base64", id="not ascii"),
    ],
)
def test_an_image_that_no_prompt_can_carry_is_refused(body: ImageBody, reason: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        asyncio.run(decode_images([body]))
    assert refusal.value.reason == reason


def test_only_the_settings_that_were_given_are_passed_on_under_their_wire_names() -> None:
    body = SessionBody(claude_effort="high", cursor_mode="plan", approval_policy="never")
    assert body.settings() == {"approvalPolicy": "never", "cursorMode": "plan", "claudeEffort": "high"}


def test_a_histogram_counts_a_value_up_to_and_including_its_bound() -> None:
    histogram = Histogram()
    for seconds in (BOUNDS_S[0], BOUNDS_S[-1], BOUNDS_S[-1] + 1):
        histogram.observe(seconds)
    assert (histogram.counts[0], histogram.counts[-2], histogram.counts[-1]) == (1, 1, 1)


def test_a_sample_does_not_change_with_the_meters() -> None:
    meters = Meters()
    meters.request("GET", "/api/state", 200, 0.1)
    sample = meters.sample(streams=1, lagged=2)
    meters.request("GET", "/api/state", 200, 0.1)
    assert sample.requests == {("GET", "/api/state", 200): 1}
    assert sum(sample.request_seconds["/api/state"].counts) == 1


def report(daemon: DaemonState, /, **workers: ProcessState) -> DaemonReport:
    return DaemonReport(
        state=daemon,
        version="1",
        home="/home",
        url="http://127.0.0.1:1",
        pid=1,
        started_at="2026-01-01T00:00:00Z",
        written_at="2026-01-01T00:00:00Z",
        serving=True,
        processes=[ProcessReport(name=name, pid=2, state=state) for name, state in workers.items()],
        reason="wake is failed" if daemon == "degraded" else None,
    )


@pytest.mark.parametrize(
    ("seen", "away", "state"),
    [
        pytest.param(report("ok", state="ready", coordination="ready"), "", "ok", id="all well"),
        pytest.param(report("degraded", state="ready", wake="failed"), "", "degraded", id="as the report says"),
        pytest.param(report("ok", state="ready"), "state", "down", id="a death that the report does not know yet"),
        pytest.param(report("ok", coordination="unresponsive"), "", "down", id="there and hanging"),
        pytest.param(report("down", state="ready"), "", "down", id="down for a reason of its own"),
        pytest.param(None, "", "degraded", id="no report"),
        pytest.param(None, "coordination", "down", id="no report and no coordination"),
    ],
)
def test_the_daemon_is_down_exactly_when_an_essential_worker_is_missing(
    seen: DaemonReport | None, away: str, state: str
) -> None:
    verdict = judge(seen, lambda worker: worker != away)
    assert verdict.state == state


def test_the_arbiter_gives_up_on_a_worker_that_ends_again_and_again() -> None:
    exits = Exits()
    assert [exits.too_many(0.1 * number) for number in range(EXITS)] == [False] * (EXITS - 1) + [True]


def test_the_arbiter_is_patient_with_a_worker_that_ends_now_and_then() -> None:
    exits = Exits()
    assert not any(exits.too_many(EXITS_S / (EXITS - 2) * number) for number in range(50))


def test_settings_go_on_under_their_wire_names_and_only_those_that_were_given() -> None:
    session = SessionBody(
        agent="Codex",
        name="n",
        workdir="/w",
        project_id="p",
        model="m",
        approval_policy="never",
        reasoning_effort="high",
        sandbox_mode="read-only",
        cursor_mode="plan",
        claude_approval_mode="plan",
        claude_effort="max",
        gemini_approval_mode="plan",
    )
    assert session.settings() == {
        "approvalPolicy": "never",
        "reasoningEffort": "high",
        "sandboxMode": "read-only",
        "cursorMode": "plan",
        "claudeApprovalMode": "plan",
        "claudeEffort": "max",
        "geminiApprovalMode": "plan",
    }
    changed = SettingsBody(name="n", model="m", codex_fast_mode=False, opencode_effort="high", opencode_mode="build")
    assert changed.settings() == {"codexFastMode": False, "opencodeEffort": "high", "opencodeMode": "build"}
    preferred = PreferencesBody(
        default_codex_model="a",
        default_open_code_model="b",
        remotes=[RemoteBody(id="local")],
        default_claude_effort="max",
    )
    assert preferred.values() == {
        "defaultCodexModel": "a",
        "defaultClaudeEffort": "max",
        "defaultOpenCodeModel": "b",
    }
