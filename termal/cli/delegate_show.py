"""Delegations on a terminal: a table of many, the lines of one, its result, the progress of a wait."""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from termal.cli.console import one_line, plain_table, printable, say, table_console
from termal.cli.figures import as_count, as_duration
from termal.client.delegation_replies import ResultReply
from termal.model.delegation import ACTIVE

if TYPE_CHECKING:
    from rich.table import Table

Record = Mapping[str, Any]
_POLICIES = {"readOnly": "read-only", "isolatedWorktree": "isolation", "sharedWorktree": "shared worktree"}
_NONE = "  none"


class WaitShow:
    """Shows a wait: on a terminal a table that is drawn anew, elsewhere a line for each change. ``quiet``: nothing."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._live: Any = None
        self._told: dict[str, str] = {}

    def __enter__(self) -> "WaitShow":
        if not self._quiet and sys.stdout.isatty():
            from rich.live import Live  # noqa: PLC0415 - only a wait on a terminal draws

            self._live = Live(console=table_console(), auto_refresh=False)
            self._live.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._live is not None:
            self._live.stop()

    def seen(self, records: Sequence[Record]) -> None:
        if self._live is not None:
            self._live.update(wait_table(records), refresh=True)
        elif not self._quiet:
            for record in records:
                self._line(record)

    def _line(self, record: Record) -> None:
        if self._told.get(record["id"]) != record["status"]:
            self._told[record["id"]] = record["status"]
            say(f"{record['id']} {record['status']}: {one_line(_detail(record))}")


def list_table(records: Sequence[Record]) -> "Table":
    table = plain_table("id", "title", "mode", "agent", "status", "time>", "findings>", "child", "result")
    for record in records:
        table.add_row(
            record["id"],
            printable(record["title"]),
            record["mode"],
            printable(record["agent"]),
            record["status"],
            elapsed(record),
            _findings(record),
            record["childSessionId"],
            one_line(record.get("result", {}).get("summary", "")),
        )
    return table


def wait_table(records: Sequence[Record]) -> "Table":
    running = sum(record["status"] in ACTIVE for record in records)
    table = plain_table(f"{as_count(running, 'delegation')} at work", "status", "time>", "findings>")
    for record in records:
        table.add_row(printable(record["title"]), record["status"], elapsed(record), _findings(record))
    return table


def status_lines(record: Record) -> Iterator[str]:
    policy = record["writePolicy"]
    rows = {
        "id": record["id"],
        "title": record["title"],
        "status": record["status"],
        "mode": record["mode"],
        "agent": " ".join(filter(None, (record["agent"], record.get("model")))),
        "child": record["childSessionId"],
        "directory": record.get("cwd", ""),
        "policy": f"{_POLICIES[policy['kind']]} {record['policyEnforcement']}",
        "owned paths": ", ".join(policy.get("ownedPaths", [])),
        "worktree": policy.get("worktreePath", ""),
        "time": elapsed(record),
        "after the result": record.get("postSubmissionTransportError", ""),
        "set aside": record.get("reviewResultRecoveryError", ""),
        "result": record.get("result", {}).get("summary", ""),
    }
    for key, value in rows.items():
        if value:
            yield f"{key:<16} {value}"


def result_lines(reply: ResultReply) -> Iterator[str]:
    result = reply.result
    yield f"{result['delegationId']} {result['status']} ({reply.policy_enforcement})"
    yield ""
    yield result["summary"]
    yield ""
    yield "findings"
    yield from [f"  [{one['severity']}] {_place(one)}{one['message']}" for one in result.get("findings", [])] or [_NONE]
    for title, lines in (
        ("changed files", result.get("changedFiles", [])),
        ("commands", [f"{one['command']}: {one['status']}" for one in result.get("commandsRun", [])]),
        ("notes", result.get("notes", [])),
        ("artifacts", [f"{one['kind']} {one['id']}" for one in reply.artifacts or []]),
    ):
        if lines:
            yield title
            yield from (f"  {line}" for line in lines)


def elapsed(record: Record) -> str:
    """How long it worked, or works by now."""
    began, ended = _seconds(record.get("startedAt")), _seconds(record.get("completedAt"))
    if began is None:
        return ""
    return as_duration((ended if ended is not None else time.time()) - began)


def _place(finding: Record) -> str:
    place = finding.get("file", "")
    if place and finding.get("line"):
        place += f":{finding['line']}"
    return f"{place} - " if place else ""


def _findings(record: Record) -> str:
    """Their number, ``clean`` for a completed one without any; nothing where nothing can be said."""
    result = record.get("result")
    if result is None:
        return ""
    listed = result.get("findings")
    count = result.get("findingCount", 0)
    if listed is not None:
        count = sum(one["severity"] != "Unavailable" for one in listed)
    if count:
        return str(count)
    return "clean" if record["status"] == "completed" else ""


def _detail(record: Record) -> str:
    summary: str = record.get("result", {}).get("summary", "")
    return summary or record["title"]


def _seconds(text: str | None) -> float | None:
    if not text:
        return None
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
