"""A delegation begins: all checks before anything is made, then child, record and card in one commit, then its turn."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from msgspec import UNSET

from termal.bus.server import Handler, Request
from termal.faults import fault
from termal.model import delta
from termal.model.delegation import DelegationRecord, SpawnDelegationResponse, WritePolicy
from termal.model.session import PendingPrompt, Session
from termal.model.stored import LOCAL_REMOTE, QueueEntry
from termal.rules import wording
from termal.rules.delegation_agents import Work, check_agent, check_model, child_settings, enforcement, hidden_from
from termal.rules.delegation_paths import checked_cwd, contains
from termal.rules.delegation_prompt import bootstrap_prompt
from termal.rules.delegation_request import Asked, check_capacity, checked_spawn
from termal.rules.delegation_summary import summary_of
from termal.rules.exported import stored_as
from termal.rules.settings import at_creation, emoji_of
from termal.rules.verdicts import Bad, Refused, Unbuilt
from termal.wire.codec import encode_json
from termal.wire.delegation_operations import SpawnDelegation
from termal.wire.errors import Internal, TermalError
from termal.wire.turns import JsonReply
from termal.wire.verdict_errors import error_of
from workers.state.change import Book
from workers.state.clock import now_text
from workers.state.delegation_access import parent_of
from workers.state.delegation_audit import Audit
from workers.state.delegation_cards import Cards
from workers.state.delegation_files import Files, Isolated
from workers.state.directories import real_directory
from workers.state.projections import full_session
from workers.state.prompts import Again
from workers.state.readiness import Agents
from workers.state.session_record import SessionRecord
from workers.state.sessions import Defaults
from workers.state.turns import Turns

DEMO_REVIEWER = "TERMAL_DEMO_REVIEWER"
"""Lets the bundled agent review, for tests."""


class Plan(NamedTuple):
    """Everything that was checked. ``fields`` are the settings of the child."""

    asked: Asked
    parent: SessionRecord
    agent: str
    cwd: str
    policy: WritePolicy
    fields: dict[str, object]


class Spawns:
    def __init__(
        self,
        book: Book,
        turns: Turns,
        *,
        cards: Cards,
        audit: Audit,
        files: Files,
        agents: Agents,
        defaults: Defaults,
        again: Again,
        unstarted: set[str],
        environ: Mapping[str, str],
    ) -> None:
        """``unstarted``: see `workers.state.delegations.Delegations`."""
        self._unstarted = unstarted
        self._book = book
        self._turns = turns
        self._cards = cards
        self._audit = audit
        self._files = files
        self._agents = agents
        self._defaults = defaults
        self._again = again
        self._environ = environ
        self._preparing: dict[str, list[Callable[[], None]]] = {}

    def table(self) -> dict[str, Handler]:
        return {"delegation.spawn": self.spawn}

    def spawn(self, request: Request, body: SpawnDelegation) -> None:
        """The handler of ``delegation.spawn``: answered once the child is stored and its turn is taken, or could not
        be started, which the answer says."""
        known = self._book.registry.delegations.get(body.delegation_id)
        if known is not None:
            self._book.journal.stored(lambda: self._answer_known(request, known))
            return
        waiting = self._preparing.get(body.delegation_id)
        if waiting is not None:
            waiting.append(lambda: self._again(self.spawn, request, body))
            return
        try:
            plan = self._plan(body)
        except (Refused, TermalError) as refused:
            self._refused(body, refused.reason or "")
            raise
        if plan.policy.kind == "isolatedWorktree":
            self._prepare(request, body, plan)
        else:
            self._create(request, body, plan, None)

    # ----------------------------------------------------------------------- checks

    def _plan(self, body: SpawnDelegation) -> Plan:
        """Raises the first rule that is broken, before anything is made."""
        asked = checked_spawn(
            body.parent_session_id,
            body.prompt,
            title=body.title,
            model=body.model,
            mode=body.mode,
            policy=body.write_policy,
        )
        parent = parent_of(self._book, body.parent_session_id)
        if (parent.stored.remote_id is UNSET) != (parent.stored.remote_session_id is UNSET):
            raise Internal("the session is half a proxy of another daemon's", reason="invalidProxyIdentity")
        if parent.remote or parent.stored.remote_id is not UNSET:
            raise Unbuilt("sessions of other daemons cannot delegate from here", reason="remoteSessionNotImplemented")
        cwd = self._cwd(parent, body.cwd)
        agent = (body.agent or "").strip() or parent.agent
        registry = self._book.registry
        demo = self._environ.get(DEMO_REVIEWER) == "1"
        check_agent(Work(agent, asked.mode, asked.policy.kind, registry.is_child(parent), demo))
        if asked.model is not None:
            check_model(agent, asked.model)
        self._agents.check(agent)
        self._check_limits(parent)
        model, settings = self._defaults(agent)
        fields = at_creation(agent, asked.model or model, {**settings, **child_settings(agent, asked.policy.kind)})
        return Plan(asked, parent, agent, cwd, asked.policy, fields)

    def _cwd(self, parent: SessionRecord, given: str | None) -> str:
        """The canonical directory, within the project or the repository around the parent. Raises `Bad`, `Unbuilt`."""
        folder = canonical(parent.session.workdir if given is None else checked_cwd(given), parent.session.workdir)
        project_id = parent.session.project_id
        if project_id is UNSET:
            root = repository_around(parent.session.workdir) or parent.session.workdir
        else:
            project = self._book.registry.projects.get(project_id)
            if project is None:
                raise Bad("the project of this session is not known", reason="unknownProject")
            if project.remote_id != LOCAL_REMOTE:
                raise Unbuilt("projects of other daemons are not built yet", reason="remoteProjectNotImplemented")
            root = project.root_path
        if not contains(canonical(root, "/"), folder):
            raise Bad("cwd lies outside the project", reason="cwdOutsideProject")
        return folder

    def _check_limits(self, parent: SessionRecord) -> None:
        """Raises `Stale`."""
        delegations = self._book.registry.delegations
        active = sum(record.active for record in delegations.of_parent(parent.id))
        check_capacity(active, delegations.depth(parent.id))

    def _refused(self, body: SpawnDelegation, reason: str) -> None:
        parent_id = body.parent_session_id.strip()
        if parent_id in self._book.registry.sessions:
            self._audit.add("spawn", parent_id, actor=body.actor, outcome="rejected", detail=reason)

    # -------------------------------------------------------------------- worktrees

    def _prepare(self, request: Request, body: SpawnDelegation, plan: Plan) -> None:
        self._preparing[body.delegation_id] = []

        def prepared(isolated: Isolated | None, error: Refused | TermalError | None) -> None:
            repeats = self._preparing.pop(body.delegation_id)
            try:
                if isolated is None:
                    assert error is not None
                    raise error
                fault("state.worktree_prepared")
                self._again_possible(plan)
                self._create(request, body, plan, isolated)
            except (Refused, TermalError) as refused:
                self._refused(body, refused.reason or "")
                if isolated is not None:
                    self._files.discard(isolated)
                request.refuse(error_of(refused))
            for repeat in repeats:
                repeat()

        hidden = hidden_from(plan.agent)
        self._files.prepare(body.delegation_id, plan.cwd, plan.policy, prepared, hidden=hidden)

    def _again_possible(self, plan: Plan) -> None:
        """Time has passed since the checks."""
        parent_of(self._book, plan.parent.id)
        self._check_limits(plan.parent)

    # --------------------------------------------------------------------- creation

    def _create(self, request: Request, body: SpawnDelegation, plan: Plan, isolated: Isolated | None) -> None:
        """Child, record and card in one commit."""
        record, child = self._made(body.delegation_id, plan, isolated)
        self._unstarted.add(record.id)
        change = self._book.change()
        change.create(child)
        self._cards.append(change, plan.parent, record)
        change.delegation(record)
        summary = summary_of(record)
        change.tell(lambda revision: delta.DelegationCreated(revision=revision, delegation=summary))
        self._audit.add("spawn", plan.parent.id, record, actor=body.actor)

        def committed() -> None:
            fault("state.delegation_spawned")
            if isolated is not None:
                self._files.keep(isolated)
            self._start(request, record.id, child)

        change.commit(after=committed)

    def _made(
        self, delegation_id: str, plan: Plan, isolated: Isolated | None
    ) -> tuple[DelegationRecord, SessionRecord]:
        registry, asked, parent = self._book.registry, plan.asked, plan.parent
        now = now_text()
        cwd = plan.cwd if isolated is None else isolated.cwd
        read_only = plan.policy.kind == "readOnly"
        session = Session(
            id=registry.new_session_id(),
            name=asked.title,
            emoji=emoji_of(plan.agent),
            agent=plan.agent,
            workdir=cwd,
            status="idle",
            preview=wording.READY,
            project_id=parent.session.project_id if read_only else UNSET,
            parent_delegation_id=delegation_id,
            **plan.fields,  # type: ignore[arg-type]  # made by the rule that knows the settings of each agent
        )
        required = asked.mode == "reviewer"
        record = DelegationRecord(
            id=delegation_id,
            parent_session_id=parent.id,
            child_session_id=session.id,
            mode=asked.mode,
            status="running",
            title=asked.title,
            agent=plan.agent,
            model=session.model,
            write_policy=plan.policy if isolated is None else isolated.policy,
            policy_enforcement=enforcement(plan.agent, plan.policy.kind, kernel_sandbox=self._files.kernel_sandbox),
            created_at=now,
            started_at=now,
            review_result_required=required,
            prompt=asked.prompt,
            cwd=cwd,
            source_root=UNSET if isolated is None else isolated.source_root,
            base_tree=UNSET if isolated is None else isolated.base_tree,
            review_result_submission_attempt=1 if required else 0,
        )
        return record, SessionRecord(session, stored_as(session))

    def _start(self, request: Request, delegation_id: str, child: SessionRecord) -> None:
        """The first prompt, unless somebody has ended the delegation since."""
        self._unstarted.discard(delegation_id)
        record = self._book.registry.delegations.get(delegation_id)
        if record is None or not record.active or child.removed or child.busy:
            self._answer(request, delegation_id, child)
            return
        prompt = PendingPrompt(
            id=self._book.registry.new_message_id(), timestamp=now_text(), text=bootstrap_prompt(record)
        )
        entry = QueueEntry("user", prompt)
        change = self._book.change()
        turn = self._turns.dispatch(change, child, entry)
        change.commit(after=lambda: self._turns.start(child, turn, entry, request.deadline_s))
        turn.on_taken.append(lambda _: self._answer(request, delegation_id, child))

    def _answer_known(self, request: Request, record: DelegationRecord) -> None:
        child = self._book.registry.sessions.get(record.child_session_id)
        if child is None:
            request.refuse(Internal("the child session is gone", reason="childRemoved"))
        elif child.turn is not None and child.turn.phase in ("starting", "held"):
            child.turn.on_taken.append(lambda _: self._answer(request, record.id, child))
        else:
            self._answer(request, record.id, child)

    def _answer(self, request: Request, delegation_id: str, child: SessionRecord) -> None:
        registry = self._book.registry
        record = registry.delegations.get(delegation_id)
        assert record is not None
        reply = SpawnDelegationResponse(
            revision=registry.revision,
            delegation=record,
            child_session=full_session(child),
            server_instance_id=registry.instance_id,
        )
        encoded = JsonReply(encode_json(reply))
        self._book.journal.stored(lambda: request.reply(encoded))


def canonical(path: str, base: str) -> str:
    """The real directory at ``path``, seen from ``base``. Raises `Bad`."""
    return str(real_directory(Path(base) / path, "cwd is not a directory", "cwdInvalid"))


def repository_around(path: str) -> str | None:
    """The nearest folder at or above ``path`` that has a ``.git``."""
    folder = Path(os.path.realpath(path))
    for candidate in (folder, *folder.parents):
        if (candidate / ".git").exists():
            return str(candidate)
    return None
