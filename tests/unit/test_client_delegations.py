"""The delegation commands of the client: packets for every outcome, sentences that are agreed, nothing sent in vain."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import pytest

from termal.client.delegating import Delegations
from termal.client.failure import ApiFailed
from termal.client.validation import RangeError

T = TypeVar("T")
PARENT = "session-1"
Answer = dict[str, Any] | Exception


def record(number: str, status: str = "running") -> dict[str, Any]:
    return {
        "id": number,
        "childSessionId": f"child-{number}",
        "status": status,
        "prompt": "p",
        "cwd": "/c",
        "title": "t",
    }


def created(number: str, *, life: str = "life-1", revision: int = 1) -> dict[str, Any]:
    return {
        "revision": revision,
        "delegation": record(number),
        "childSession": {"id": f"child-{number}", "name": "n", "emoji": "e", "agent": "Claude", "model": "m"},
        "serverInstanceId": life,
    }


def about(number: str, status: str = "running", *, life: str = "life-1", revision: int = 1) -> dict[str, Any]:
    return {"revision": revision, "delegation": record(number, status), "serverInstanceId": life}


def conflict(text: str = "4 are running", reason: str | None = "activeLimit") -> ApiFailed:
    return ApiFailed(text, kind="request-failed", status=409, reason=reason, restart_required=False)


class Fake:
    """Answers by what is asked about: an iterator of answers for each delegation or prompt, its last one for ever."""

    def __init__(self, **answers: list[Answer]) -> None:
        self.answers = answers
        self.asked: list[tuple[Any, ...]] = []

    def _next(self, name: str) -> dict[str, Any]:
        answers = self.answers[name]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def create_delegation(self, parent_id: str, request: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(("create", parent_id, request))
        return self._next(request["prompt"])

    async def fetch_delegation_status(self, parent_id: str, delegation_id: str) -> dict[str, Any]:
        self.asked.append(("status", parent_id, delegation_id))
        return self._next(delegation_id)

    async def fetch_delegation_result(self, parent_id: str, delegation_id: str) -> dict[str, Any]:
        return self._next(delegation_id)

    async def cancel_delegation(self, parent_id: str, delegation_id: str) -> dict[str, Any]:
        return self._next(delegation_id)

    async def follow_up_delegation(self, parent_id: str, delegation_id: str, message: str) -> dict[str, Any]:
        return self._next(delegation_id)

    async def create_delegation_wait(
        self, parent_id: str, ids: Sequence[str], options: dict[str, Any]
    ) -> dict[str, Any]:
        self.asked.append(("wait", list(ids), options))
        return self._next("wait")


def run(fake: Fake, story: Callable[[Delegations], Awaitable[T]]) -> T:
    async def carry_out() -> T:
        return await story(Delegations(fake))

    return asyncio.run(carry_out())


def requests(*prompts: str) -> list[dict[str, Any]]:
    return [{"prompt": prompt, "title": f" {prompt} "} for prompt in prompts]


WAIT: dict[str, Any] = {
    "revision": 9,
    "wait": {"id": "delegation-wait-1"},
    "resumePromptQueued": False,
    "resumeDispatchRequested": False,
    "serverInstanceId": "life-1",
}


@pytest.mark.case("A80")
def test_a_batch_with_one_refusal_is_partial_and_waits_for_the_others() -> None:
    fake = Fake(a=[created("d-a", revision=3)], b=[conflict()], c=[created("d-c", revision=5)], wait=[WAIT])
    packet = run(fake, lambda each: each.spawn_reviewer_batch(PARENT, requests("a", "b", "c"), {"mode": "all"}))
    assert (packet["outcome"], packet["delegationIds"]) == ("partial", ["d-a", "d-c"])
    failed = packet["failed"][0]
    assert (failed["index"], failed["title"], failed["status"], failed["message"]) == (1, "b", 409, "4 are running")
    assert packet["resumeWait"] == {"outcome": "scheduled", **WAIT}
    assert (packet["revision"], packet["serverInstanceId"]) == (9, "life-1")
    assert ("wait", ["d-a", "d-c"], {"mode": "all"}) in fake.asked
    sent = [request for kind, _, request in fake.asked if kind == "create"]
    assert all((each["mode"], each["writePolicy"]) == ("reviewer", {"kind": "readOnly"}) for each in sent)


@pytest.mark.case("A81")
def test_a_batch_over_a_restart_is_an_error_without_a_wait() -> None:
    fake = Fake(a=[created("d-a", life="life-2", revision=4)], b=[created("d-b", life="life-1", revision=8)])
    packet = run(fake, lambda each: each.spawn_reviewer_batch(PARENT, requests("a", "b"), {}))
    assert (packet["outcome"], packet["error"]["kind"]) == ("error", "mixed-server-instance")
    assert (packet["revision"], packet["serverInstanceId"]) == (None, None)
    assert packet["error"]["serverInstanceIds"] == ["life-1", "life-2"]
    assert [(group["serverInstanceId"], group["delegationIds"]) for group in packet["error"]["recoveryGroups"]] == [
        ("life-1", ["d-b"]),
        ("life-2", ["d-a"]),
    ]
    assert len(packet["spawned"]) == 2
    assert (packet["resumeWait"]["outcome"], packet["resumeWait"]["reason"]) == ("skipped", "mixed-server-instance")


def test_a_batch_of_refusals_is_an_error_and_nothing_is_waited_for() -> None:
    fake = Fake(a=[conflict()], b=[conflict()])
    packet = run(fake, lambda each: each.spawn_reviewer_batch(PARENT, requests("a", "b"), {}))
    assert (packet["outcome"], packet["error"]["kind"]) == ("error", "all-spawns-failed")
    assert packet["resumeWait"]["reason"] == "no-successful-spawns"


def test_a_wait_that_cannot_be_made_leaves_the_batch_as_it_is() -> None:
    unsafe = ApiFailed("/home/me/x is broken", kind="request-failed", status=500, restart_required=False)
    fake = Fake(a=[created("d-a")], wait=[unsafe])
    packet = run(fake, lambda each: each.spawn_reviewer_batch(PARENT, requests("a"), {}))
    assert (packet["outcome"], packet["resumeWait"]["outcome"]) == ("completed", "error")
    error = packet["resumeWait"]["error"]
    assert (error["kind"], error["status"], "/home" in error["message"]) == ("resume-wait-failed", 500, False)


@pytest.mark.parametrize(
    ("batch", "name", "message"),
    [
        ("x", "TypeError", "spawn_reviewer_batch requests must be an array"),
        ([], "RangeError", "spawn_reviewer_batch requires at least one reviewer"),
        (requests(*"abcde"), "RangeError", "spawn_reviewer_batch accepts at most 4 reviewers"),
        ([{"prompt": "a"}, 5], "TypeError", "reviewer request 2 must be an object"),
        ([{"prompt": "a"}, {"prompt": " "}], "RangeError", "prompt must be non-empty"),
    ],
)
def test_a_batch_that_cannot_be_sends_nothing(batch: Any, name: str, message: str) -> None:
    fake = Fake()
    packet = run(fake, lambda each: each.spawn_reviewer_batch(PARENT, batch))
    assert packet["error"] == {"kind": "validation-failed", "name": name, "message": message}
    assert (packet["outcome"], fake.asked) == ("error", [])


@pytest.mark.parametrize(
    ("parent", "request_body", "name", "message"),
    [
        (5, {"prompt": "x"}, "TypeError", "parent session id must be a string"),
        (" ", {"prompt": "x"}, "RangeError", "parent session id must be non-empty"),
        ("a/b", {"prompt": "x"}, "RangeError", "parent session id must not contain /, ?, #, or control characters"),
        (PARENT, {}, "TypeError", "prompt must be a string"),
        (PARENT, {"prompt": "x" * 65537}, "RangeError", "prompt must be no larger than 65536 bytes"),
        (PARENT, {"prompt": "x", "title": None}, "TypeError", "title must be omitted instead of null"),
        (PARENT, {"prompt": "x", "writePolicy": None}, "TypeError", "writePolicy must be omitted instead of null"),
        (PARENT, {"prompt": "x", "title": "t" * 201}, "RangeError", "title must be no longer than 200 characters"),
        (PARENT, {"prompt": "x", "model": "m" * 201}, "RangeError", "model must be no longer than 200 characters"),
        (PARENT, 5, "TypeError", "Invalid delegation request."),
    ],
)
def test_a_spawn_that_cannot_be_is_a_packet_with_an_agreed_sentence(
    parent: Any, request_body: Any, name: str, message: str
) -> None:
    fake = Fake()
    packet = run(fake, lambda each: each.spawn_delegation(parent, request_body))
    assert packet == {
        "outcome": "error",
        "revision": None,
        "serverInstanceId": None,
        "error": {"kind": "validation-failed", "name": name, "message": message},
    }
    assert fake.asked == []


@pytest.mark.case("A85")
@pytest.mark.parametrize("reason", [None, "persistFailed", "activeLimit"])
def test_words_of_the_daemon_that_name_a_path_do_not_pass_and_its_status_does(reason: str | None) -> None:
    fake = Fake(x=[conflict("cannot write /home/me/secret", reason)])
    error = run(fake, lambda each: each.spawn_delegation(PARENT, {"prompt": "x"}))["error"]
    assert error == {
        "kind": "spawn-failed",
        "name": "ApiRequestError",
        "message": "The delegation could not be spawned.",
        "apiErrorKind": "request-failed",
        "status": 409,
        "restartRequired": False,
    }


def test_an_exception_of_another_kind_says_nothing_of_itself() -> None:
    fake = Fake(x=[ValueError("inner detail")])
    error = run(fake, lambda each: each.spawn_delegation(PARENT, {"prompt": "x"}))["error"]
    assert (error["message"], error["status"], error["apiErrorKind"]) == (
        "The delegation could not be spawned.",
        None,
        None,
    )


def test_a_spawn_answers_with_ids_and_summaries() -> None:
    fake = Fake(x=[created("d-1", revision=4)])
    packet = run(fake, lambda each: each.spawn_delegation(f" {PARENT} ", {"prompt": "x", "own": 1}))
    assert (packet["outcome"], packet["delegationId"], packet["childSessionId"]) == ("completed", "d-1", "child-d-1")
    assert not {"prompt", "cwd"} & packet["delegation"].keys()
    assert packet["childSession"]["parentDelegationId"] is None
    assert fake.asked == [("create", PARENT, {"prompt": "x"})]


# ------------------------------------------------------------------------ waits


@pytest.mark.case("A82")
def test_a_failed_look_beside_another_life_of_the_daemon_is_told_as_the_failure() -> None:
    fake = Fake(a=[about("a")], b=[conflict("no", None)], c=[about("c", life="life-2")])

    async def story(each: Delegations) -> Any:
        return await each.wait_delegations(PARENT, ["a", "b", "c"])

    packet = run(fake, story)
    assert (packet["outcome"], packet["error"]["kind"]) == ("error", "status-fetch-failed")
    assert "recoveryGroups" not in packet["error"]
    assert packet["error"]["status"] == 409


@pytest.mark.case("A83")
def test_a_restart_between_looks_names_the_life_before_and_the_one_after(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(_delay_s: float) -> None: ...

    monkeypatch.setattr("termal.client.waiting.asyncio.sleep", at_once)
    fake = Fake(a=[about("a", revision=7), about("a", life="life-2", revision=2)])
    packet = run(fake, lambda each: each.wait_delegations(PARENT, ["a"]))
    assert packet["error"]["kind"] == "mixed-server-instance"
    assert packet["error"]["recoveryGroups"] == [
        {"serverInstanceId": "life-1", "revision": 7, "delegationIds": ["a"], "childSessionIds": ["child-a"]},
        {"serverInstanceId": "life-2", "revision": 2, "delegationIds": ["a"], "childSessionIds": ["child-a"]},
    ]
    assert (packet["serverInstanceId"], packet["revision"]) == ("life-1", 7)


def test_two_lives_in_the_first_look_have_no_life_before() -> None:
    fake = Fake(a=[about("a", life="life-2")], b=[about("b", life="life-1")])
    packet = run(fake, lambda each: each.wait_delegations(PARENT, ["a", "b"]))
    assert [group["serverInstanceId"] for group in packet["error"]["recoveryGroups"]] == ["life-2", "life-1"]
    assert packet["delegations"] == []


@pytest.mark.case("A84")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"poll_interval_ms": 499}, "pollIntervalMs must be at least 500ms"),
        ({"timeout_ms": 1_800_001}, "timeoutMs must be no greater than 1800000ms"),
        ({"timeout_ms": float("inf")}, "timeoutMs must be a finite positive duration"),
        ({"poll_interval_ms": -1}, "pollIntervalMs must be a finite positive duration"),
    ],
)
def test_times_that_cannot_be_are_raised_before_anything_is_asked(options: dict[str, Any], message: str) -> None:
    fake = Fake()
    with pytest.raises(RangeError, match=f"^{message}$"):
        run(fake, lambda each: each.wait_delegations(PARENT, ["a"], **options))
    assert fake.asked == []


@pytest.mark.parametrize(
    ("ids", "kind", "message"),
    [
        ("a", TypeError, "delegation ids must be an array"),
        ([1], TypeError, "delegation id must be a string"),
        ([" "], RangeError, "delegation id must be non-empty"),
        ([], RangeError, "resume_after_delegations requires at least one delegation id"),
        ([f"d{n}" for n in range(11)], RangeError, "resume_after_delegations accepts at most 10 ids"),
    ],
)
def test_ids_that_cannot_be_are_raised_before_anything_is_asked(ids: Any, kind: type[Exception], message: str) -> None:
    fake = Fake()
    with pytest.raises(kind, match=f"^{message}$"):
        run(fake, lambda each: each.resume_after_delegations(PARENT, ids))
    assert fake.asked == []


def test_a_wait_over_what_is_over_looks_once_and_keeps_the_order() -> None:
    fake = Fake(a=[about("a", "completed", revision=2)], b=[about("b", "canceled", revision=3)])
    packet = run(fake, lambda each: each.wait_delegations(PARENT, ["b", "a", "b"]))
    assert (packet["outcome"], packet["revision"]) == ("completed", 3)
    assert [each["id"] for each in packet["completed"]] == ["b", "a"]
    assert len(fake.asked) == 2


def test_a_wait_out_of_time_keeps_what_it_saw() -> None:
    fake = Fake(a=[about("a", "failed")], b=[about("b")])
    packet = run(fake, lambda each: each.wait_delegations(PARENT, ["a", "b"], timeout_ms=5))
    assert packet["outcome"] == "timeout"
    assert ([each["id"] for each in packet["completed"]], [each["id"] for each in packet["pending"]]) == (["a"], ["b"])


def test_an_answer_about_another_delegation_is_told_with_both_ids() -> None:
    fake = Fake(a=[about("z")])
    error = run(fake, lambda each: each.wait_delegations(PARENT, ["a"]))["error"]
    assert (error["kind"], error["requestedId"], error["receivedId"]) == ("mismatched-delegation-id", "a", "z")
    assert error["name"] == "MismatchedDelegationIdError"
