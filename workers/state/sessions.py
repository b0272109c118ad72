"""Sessions as such: made once per key, told about to other workers, their shared facts."""

import os
from collections.abc import Callable
from pathlib import Path

from msgspec import UNSET

from termal.bus.server import Request
from termal.model.session import Session
from termal.model.stored import Project
from termal.rules import wording
from termal.rules.exported import stored_as
from termal.rules.settings import at_creation, checked_name, emoji_of
from termal.rules.verdicts import Bad
from termal.wire.session_operations import AskEligibility, CreateSession, Eligibilities, Eligibility
from termal.wire.turns import JsonReply
from workers.state.change import Book
from workers.state.directories import real_directory
from workers.state.mail_first import MailFirst
from workers.state.readiness import Agents
from workers.state.session_record import SessionRecord

Defaults = Callable[[str], tuple[str | None, dict[str, str]]]
"""The model (None: the agent's own) and the settings that new sessions of an agent begin with."""


class Sessions:
    def __init__(self, book: Book, agents: Agents, default_workdir: str, defaults: Defaults) -> None:
        self._book = book
        self._defaults = defaults
        self._agents = agents
        self._default_workdir = default_workdir

    def create(self, request: Request, body: CreateSession) -> None:
        """The handler of ``session.create``: answered once the session is stored; a repeated key finds the first."""
        registry = self._book.registry
        known = registry.created_by_key.get(body.key)
        if known is not None:
            record = registry.sessions[known]
        else:
            record = self._new(body)
            change = self._book.change()
            change.create(record)
            change.commit()
        reply = JsonReply(self._book.projections.created(record))
        answer = self._book.journal.settle if record.committed else self._book.journal.after
        answer(lambda: request.reply(reply))

    def _new(self, body: CreateSession) -> SessionRecord:
        """Everything is checked before a number is taken. Raises `Bad`."""
        registry = self._book.registry
        self._agents.check(body.agent)
        project = registry.project(body.project_id) if body.project_id is not None else None
        workdir = self._workdir(body.workdir, project)
        model, settings = self._defaults(body.agent)
        fields = at_creation(body.agent, model if body.model is None else body.model, {**settings, **body.settings})
        name = checked_name(body.name) if body.name and body.name.strip() else ""
        number = registry.next_session_number
        session = Session(
            id=registry.new_session_id(),
            name=name or f"{body.agent} {number}",
            emoji=emoji_of(body.agent),
            agent=body.agent,
            workdir=workdir,
            status="idle",
            preview=wording.READY,
            project_id=UNSET if project is None else project.id,
            **fields,
        )
        record = SessionRecord(session, stored_as(session, body.key))
        record.mail_due = False
        return record

    def _workdir(self, asked: str | None, project: Project | None) -> str:
        """The canonical directory. Raises `Bad` for what is no directory, or outside the project's root."""
        wanted = asked or (project.root_path if project is not None else self._default_workdir)
        if not os.path.isabs(wanted):  # noqa: PTH117 - the text of a request, not a path of ours
            raise Bad("workdir must be an absolute path")
        folder = real_directory(Path(wanted), "workdir is not a directory")
        if project is not None and not folder.is_relative_to(project.root_path):
            raise Bad("workdir is outside the root of the project")
        return str(folder)

    def eligibility(self, request: Request, body: AskEligibility) -> None:
        """The handler of ``session.eligibility``: from live records, whether or not the disk works."""
        for session_id in body.session_ids:
            record = self._book.registry.sessions.get(session_id)
            if record is not None:
                MailFirst.expected(record)
        request.reply(Eligibilities([self._eligibility(session_id) for session_id in body.session_ids]))

    def _eligibility(self, session_id: str) -> Eligibility:
        registry = self._book.registry
        record = registry.sessions.get(session_id)
        if record is None or not record.committed:
            return Eligibility(session_id, "hidden" if session_id in registry.hidden else "unknown")
        session = record.session
        project = None if session.project_id is UNSET else registry.projects.get(session.project_id)
        verdict = ""
        if record.remote or record.stored.remote_id is not UNSET:
            verdict = "remote"
        elif registry.is_child(record):
            verdict = "delegated"
        return Eligibility(
            session_id,
            verdict,
            name=session.name,
            project_id=None if session.project_id is UNSET else session.project_id,
            project_kind=None if project is None else "local" if project.remote_id == "local" else "remote",
        )
