"""Packets: what a command on delegations answers an agent or a program with, made from the daemon's answers. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from termal.client.failure import ApiFailed
from termal.client.safe_texts import is_agreed, safe_message
from termal.client.validation import RangeError

Json = dict[str, Any]

TERMINAL = ("completed", "failed", "canceled")
_LISTS = ("findings", "changedFiles", "commandsRun", "notes")
_PRIVATE = ("prompt", "cwd")
_CHILD = ("id", "name", "emoji", "agent", "model", "status", "parentDelegationId")


def summary_of(record: Mapping[str, Any]) -> Json:
    """A delegation without its task and directory; its result as it came."""
    return {name: value for name, value in record.items() if name not in _PRIVATE}


def spawned(answer: Mapping[str, Any]) -> Json:
    """The packet of a created delegation; the child in it may have failed to start."""
    record, child = answer["delegation"], answer["childSession"]
    return {
        "outcome": "completed",
        "delegationId": record["id"],
        "childSessionId": child["id"],
        "delegation": summary_of(record),
        "childSession": {name: child.get(name) for name in _CHILD},
        "revision": answer["revision"],
        "serverInstanceId": answer["serverInstanceId"],
    }


def spawn_error(error: Json) -> Json:
    return {"outcome": "error", "revision": None, "serverInstanceId": None, "error": error}


def status_of(answer: Mapping[str, Any]) -> Json:
    record = answer["delegation"]
    return {
        "delegationId": record["id"],
        "childSessionId": record["childSessionId"],
        "status": record["status"],
        "delegation": summary_of(record),
        "revision": answer["revision"],
        "serverInstanceId": answer["serverInstanceId"],
    }


def result_of(answer: Mapping[str, Any]) -> Json:
    """The flat result; lists that the daemon left out because they are empty are there."""
    result = answer["result"]
    return {
        "delegationId": result["delegationId"],
        "childSessionId": result["childSessionId"],
        "status": result["status"],
        "summary": result.get("summary", ""),
        **{name: result.get(name) or [] for name in _LISTS},
        **{name: answer[name] for name in ("policyEnforcement", "artifacts") if answer.get(name) is not None},
        "revision": answer["revision"],
        "serverInstanceId": answer["serverInstanceId"],
    }


def mixed_instances(groups: list[Json]) -> Json:
    """``groups``: one for each life of the daemon that answered; no command can address one of them."""
    return {
        "kind": "mixed-server-instance",
        "name": "MixedDelegationServerInstanceError",
        "message": "The daemon restarted between answers: what it said before and after cannot be put together.",
        "serverInstanceIds": sorted({group["serverInstanceId"] for group in groups}),
        "recoveryGroups": groups,
    }


def mismatched(requested: str, received: str) -> Json:
    return {
        "kind": "mismatched-delegation-id",
        "name": "MismatchedDelegationIdError",
        "message": "The daemon answered about another delegation than the one that was asked for.",
        "requestedId": requested,
        "receivedId": received,
    }


def group(instance: str, revision: int, records: Iterable[Mapping[str, Any]]) -> Json:
    """One recovery group; ``records`` in the order to be shown."""
    kept = list(records)
    return {
        "serverInstanceId": instance,
        "revision": revision,
        "delegationIds": [record["id"] for record in kept],
        "childSessionIds": [record["childSessionId"] for record in kept],
    }


def status_groups(
    order: list[str],
    instance: str | None,
    revision: int,
    before: Mapping[str, Mapping[str, Any]],
    answers: Iterable[Mapping[str, Any]],
) -> list[Json]:
    """Recovery groups of a look that met two lives of the daemon: one of what was known ``before`` of the asked ones
    (of ``instance``, at ``revision``), and one for each life that answered. Ids stand in ``order``."""
    found: dict[str, tuple[int, dict[str, Mapping[str, Any]]]] = {}
    if instance is not None and before:
        found[instance] = (revision, dict(before))
    for answer in answers:
        life, record = answer["serverInstanceId"], answer["delegation"]
        newest, records = found.get(life, (0, {}))
        found[life] = (max(newest, answer["revision"]), {**records, record["id"]: record})
    groups = [
        group(life, newest, [records[number] for number in order if number in records])
        for life, (newest, records) in found.items()
    ]
    return sorted(groups, key=lambda each: (order.index(each["delegationIds"][0]), each["serverInstanceId"]))


def invalid_packet(error: Exception) -> Json:
    """What a spawn's own check found; a text that is not one of the agreed ones is not passed on."""
    message = str(error) if is_agreed(str(error)) else "Invalid delegation request."
    name = "TypeError" if isinstance(error, TypeError) else "RangeError" if isinstance(error, RangeError) else "Error"
    return {"kind": "validation-failed", "name": name, "message": message}


def failed_packet(kind: str, error: BaseException) -> Json:
    """A failure on the way to the daemon or in it. Its words pass only where they are known to hold no path and no
    secret; status and kind always do."""
    failure = error if isinstance(error, ApiFailed) else None
    return api_packet(kind, failure, safe_message(kind, failure))


def api_packet(kind: str, failure: ApiFailed | None, message: str) -> Json:
    """What became of a request; ``failure`` None: it failed before it was one."""
    return {
        "kind": kind,
        "name": "ApiRequestError" if failure is not None else "Error",
        "message": message,
        "apiErrorKind": None if failure is None else failure.kind,
        "status": None if failure is None else failure.status,
        "restartRequired": None if failure is None else failure.restart_required,
    }
