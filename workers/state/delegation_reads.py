"""What clients read of delegations: lists, one record, its result, the child's own text by pages, who did what."""

from collections.abc import Callable
from typing import TypeVar, cast

from msgspec import UNSET, Raw
from msgspec.structs import replace

from termal.bus.server import Handler, Request
from termal.log import Log
from termal.model.delegation import (
    PARSER_VERSION,
    Artifact,
    AuditResponse,
    DelegationCapacity,
    DelegationOutputPage,
    DelegationRecord,
    DelegationResultResponse,
    DelegationsResponse,
)
from termal.model.message import Message
from termal.rules.delegation_output import checked_limit, page
from termal.rules.delegation_packet import prose_result
from termal.rules.delegation_request import ACTIVE_LIMIT, DEPTH_LIMIT
from termal.rules.delegation_result import parse_packet
from termal.rules.verdicts import Missing, Refused, Stale
from termal.store.connection import Cursorlike
from termal.store.reader import Reader
from termal.wire.codec import encode_json
from termal.wire.delegation_operations import DelegationsOf, OneDelegation, ReadAudit, ReadOutput, RecordTimeout
from termal.wire.errors import Internal, TermalError
from termal.wire.turns import Anything, JsonReply
from termal.wire.verdict_errors import error_of
from workers.state.change import Book
from workers.state.delegation_access import delegation_of, parent_of, response_of
from workers.state.delegation_audit import Audit
from workers.state.delegation_ends import tell_update
from workers.state.delegation_outcome import change_sets_of, final_text
from workers.state.delegation_summaries import Summaries
from workers.state.delegations import Delegations, ids_of
from workers.state.rows import decode_message

DIFFS = 50
T = TypeVar("T")
_TURN = (
    "SELECT value_json, is_user FROM messages WHERE session_id = ? AND position < ? AND position >= coalesce(("
    "SELECT max(position) FROM messages WHERE session_id = ? AND position < ? AND is_user = 1), 0)"
    " ORDER BY position DESC"
)
_DIFFS = (
    "SELECT value_json FROM messages WHERE session_id = ? AND position < ? AND value_json LIKE '%\"changeSetId\"%'"
    " ORDER BY position DESC LIMIT 200"
)
_AUDIT = "SELECT seq, value_json FROM delegation_audit WHERE parent_session_id = ? AND seq > ? ORDER BY seq LIMIT ?"
_AUDITED = "SELECT 1 FROM delegation_audit WHERE parent_session_id = ? LIMIT 1"


class Reads:
    def __init__(
        self, book: Book, delegations: Delegations, *, summaries: Summaries, audit: Audit, reader: Reader, log: Log
    ) -> None:
        self._book = book
        self._delegations = delegations
        self._summaries = summaries
        self._audit = audit
        self._reader = reader
        self._log = log

    def table(self) -> dict[str, Handler]:
        return {
            "delegation.list": self.all,
            "delegation.status": self.status,
            "delegation.result": self.result,
            "delegation.output": self.output,
            "delegation.capacity": self.capacity,
            "delegation.audit": self.timed_out,
            "delegation.audited": self.audited,
        }

    # ----------------------------------------------------------------------- records

    def all(self, request: Request, body: DelegationsOf) -> None:
        """The handler of ``delegation.list``: each looked at like one that is asked for alone."""
        parent = parent_of(self._book, body.parent_session_id)
        delegations = self._book.registry.delegations
        waiting = [record.id for record in delegations.of_parent(parent.id)]

        def go_on(_: DelegationRecord | None = None) -> None:
            while waiting:
                # What it was when this list was begun may be over by now.
                record = delegations.get(waiting.pop())
                if record is not None and not self._delegations.look(record):
                    self._delegations.fresh(record, request, go_on)
                    return
            self._listed(request, parent.id)

        go_on()

    def _listed(self, request: Request, parent_id: str) -> None:
        registry = self._book.registry
        reply = DelegationsResponse(
            revision=registry.revision,
            delegations=[self._summaries.json(record) for record in registry.delegations.of_parent(parent_id)],
            server_instance_id=registry.instance_id,
        )
        self._reply(request, encode_json(reply))

    def status(self, request: Request, body: OneDelegation) -> None:
        """The handler of ``delegation.status``."""
        record = delegation_of(self._book, body.parent_session_id, body.delegation_id)

        def fresh(newest: DelegationRecord) -> None:
            self._reparsed(request, newest, lambda last: self._reply(request, response_of(self._book, last).json))

        self._delegations.fresh(record, request, fresh)

    def result(self, request: Request, body: OneDelegation) -> None:
        """The handler of ``delegation.result``: a delegation that is not over has none."""
        record = delegation_of(self._book, body.parent_session_id, body.delegation_id)

        def fresh(newest: DelegationRecord) -> None:
            _check_over(newest)
            self._reparsed(request, newest, lambda last: self._with_artifacts(request, body, last))

        self._delegations.fresh(record, request, fresh)

    def _with_artifacts(self, request: Request, body: OneDelegation, record: DelegationRecord) -> None:
        child = self._book.registry.sessions.get(record.child_session_id)
        count = _count(record, 0 if child is None else child.count)

        def diffs(connection: Cursorlike) -> list[str]:
            rows = connection.execute(_DIFFS, (record.child_session_id, count)).fetchall()
            return change_sets_of([decode_message(str(value)) for (value,) in rows])

        def done(found: list[str]) -> None:
            artifacts = [Artifact(kind="transcript", id=record.child_session_id)] if child is not None else []
            artifacts += [Artifact(kind="diff", id=name) for name in reversed(found[:DIFFS])]
            if record.write_policy.worktree:
                artifacts.append(Artifact(kind="worktree", id=record.write_policy.worktree))
            assert record.result
            registry = self._book.registry
            reply = DelegationResultResponse(
                revision=registry.revision,
                result=record.result,
                policy_enforcement=record.policy_enforcement,
                artifacts=artifacts,
                server_instance_id=registry.instance_id,
            )
            self._audit.add("resultRead", record.parent_session_id, record, actor=body.actor)
            self._reply(request, encode_json(reply))

        if child is None:
            done([])
        else:
            self._read(request, diffs, done)

    # ------------------------------------------------------------------------ output

    def output(self, request: Request, body: ReadOutput) -> None:
        """The handler of ``delegation.output``."""
        checked_limit(body.limit_bytes)
        record = delegation_of(self._book, body.parent_session_id, body.delegation_id)

        def fresh(newest: DelegationRecord) -> None:
            _check_over(newest)
            self._reparsed(request, newest, lambda last: self._page(request, body, last))

        if record.active or _is_old(record):
            self._delegations.fresh(record, request, fresh)
        else:
            fresh(record)

    def _page(self, request: Request, body: ReadOutput, record: DelegationRecord) -> None:
        def done(messages: list[Message]) -> None:
            text = final_text(messages, completed=record.status == "completed")
            assert record.result
            try:
                cut = page(record.result.summary if text is None else text, body.offset_bytes, body.limit_bytes)
            except Refused as refused:
                request.refuse(error_of(refused))
                return
            registry = self._book.registry
            reply = DelegationOutputPage(
                revision=registry.revision,
                delegation_id=record.id,
                child_session_id=record.child_session_id,
                output=cut.text,
                offset_bytes=cut.offset,
                next_offset_bytes=UNSET if cut.next_offset is None else cut.next_offset,
                total_bytes=cut.total,
                complete=cut.complete,
                summary_fallback=text is None,
                server_instance_id=registry.instance_id,
            )
            self._reply(request, encode_json(reply))

        self._turn(request, record, done)

    def _turn(self, request: Request, record: DelegationRecord, done: Callable[[list[Message]], None]) -> None:
        """The messages of the turn that made the result, from the newest to the oldest."""
        child = self._book.registry.sessions.get(record.child_session_id)
        count = _count(record, 0 if child is None else child.count)

        def read(connection: Cursorlike) -> list[Message]:
            parameters = (record.child_session_id, count, record.child_session_id, count)
            rows = connection.execute(_TURN, parameters).fetchall()
            return [decode_message(str(value)) for value, is_user in rows if not is_user]

        self._read(request, read, done)

    # ------------------------------------------------------------------------ repair

    def _reparsed(self, request: Request, record: DelegationRecord, then: Callable[[DelegationRecord], None]) -> None:
        """A result that an older parser made of prose is made once more of the transcript that is still there."""
        if not _is_old(record):
            then(record)
            return

        def done(messages: list[Message]) -> None:
            if self._book.registry.delegations.get(record.id) is not record:
                self._delegations.fresh(record, request, then)
                return
            assert record.result
            result = record.result
            text = final_text(messages, completed=True)
            prose = None if text is None else parse_packet(text)
            if prose is not None and prose.status == "completed":
                old = record.result
                fresh = prose_result(ids_of(record), prose, changed=list(old.changed_files or []))
                result = replace(fresh, commands_run=old.commands_run)
            repaired = replace(record, result=result, result_parser_version=PARSER_VERSION)
            change = self._book.change()
            change.delegation(repaired)
            tell_update(change, repaired)
            change.commit()
            then(repaired)

        self._turn(request, record, done)

    # ---------------------------------------------------------------- capacity, audit

    def capacity(self, request: Request, body: DelegationsOf) -> None:
        """The handler of ``delegation.capacity``."""
        parent = parent_of(self._book, body.parent_session_id)
        registry = self._book.registry
        running = sum(record.active for record in registry.delegations.of_parent(parent.id))
        depth = registry.delegations.depth(parent.id)
        reply = DelegationCapacity(
            revision=registry.revision,
            running=running,
            limit=ACTIVE_LIMIT,
            available=max(0, ACTIVE_LIMIT - running) if depth < DEPTH_LIMIT else 0,
            depth=depth,
            depth_limit=DEPTH_LIMIT,
            reviewers=not registry.is_child(parent),
            server_instance_id=registry.instance_id,
        )
        self._reply(request, encode_json(reply))

    def timed_out(self, request: Request, body: RecordTimeout) -> None:
        """The handler of ``delegation.audit``: a waiting client gave up."""
        parent = parent_of(self._book, body.parent_session_id)
        for name in dict.fromkeys(body.delegation_ids[: ACTIVE_LIMIT * 16]):
            record = self._book.registry.delegations.get(name.strip())
            if record is not None and record.parent_session_id == parent.id:
                self._audit.add("timeout", parent.id, record, actor=body.actor, detail=f"timeoutMs {body.timeout_ms}")
        request.reply(Anything())

    def audited(self, request: Request, body: ReadAudit) -> None:
        """The handler of ``delegation.audited``: also of a parent that is gone."""
        name = body.parent_session_id.strip()
        known = name in self._book.registry.sessions

        def read(connection: Cursorlike) -> tuple[list[tuple[int, str]], bool]:
            rows = connection.execute(_AUDIT, (name, body.after, body.limit + 1)).fetchall()
            exists = known or bool(rows) or bool(connection.execute(_AUDITED, (name,)).fetchall())
            return [(int(str(seq)), str(value)) for seq, value in rows], exists

        def done(found: tuple[list[tuple[int, str]], bool]) -> None:
            rows, exists = found
            if not exists:
                request.refuse(error_of(Missing("there is no such session", reason="sessionNotFound")))
                return
            shown = rows[: body.limit]
            reply = AuditResponse(
                events=[Raw(value.encode()) for _, value in shown],
                next_after=shown[-1][0] if len(rows) > len(shown) else UNSET,
            )
            request.reply(JsonReply(encode_json(reply)))

        self._book.journal.flush_audit()
        self._read(request, read, done)

    def _read(self, request: Request, work: Callable[[Cursorlike], T], then: Callable[[T], None]) -> None:
        """Run ``work`` on a reader once everything until now is stored; a failure of it is the answer."""

        def done(value: T | None, error: Exception | None) -> None:
            if error is not None:
                if not isinstance(error, TermalError):
                    self._log.error("delegation.unreadable", error=repr(error))
                    error = Internal("the transcript cannot be read; the log of the daemon says why")
                request.refuse(error)
                return
            try:
                then(cast("T", value))
            except (Refused, TermalError) as refused:
                request.refuse(error_of(refused))

        self._book.journal.stored(lambda: self._reader.submit(work, done, deadline_s=request.deadline_s))

    def _reply(self, request: Request, encoded: bytes) -> None:
        self._book.journal.settle(lambda: request.reply(JsonReply(encoded)))


def _check_over(record: DelegationRecord) -> None:
    """Raises `Stale`."""
    if record.active or not record.result:
        raise Stale("the delegation is not over yet", reason="resultNotAvailable")


def _is_old(record: DelegationRecord) -> bool:
    return (
        record.status == "completed"
        and record.result_parser_version < PARSER_VERSION
        and not record.review_result_required
        and not record.review_result_schema_version
        and bool(record.result)
    )


def _count(record: DelegationRecord, size: int) -> int:
    """How much of the child's transcript belongs to the result."""
    return record.result_message_count if isinstance(record.result_message_count, int) else size
