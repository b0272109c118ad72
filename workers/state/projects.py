"""Projects: made, found again under the same root, deleted with what coordination keeps for them."""

import os
from pathlib import Path
from typing import Any, Final

from msgspec import UNSET, Raw
from msgspec.structs import replace

from termal.bus.client import Client
from termal.bus.loop import Loop
from termal.bus.server import Handler, Request
from termal.faults import fault
from termal.log import Log
from termal.model.ids import new_project_id
from termal.model.reply import CreateProjectResponse
from termal.model.stored import LOCAL_REMOTE, Project
from termal.rules.project import project_name, same_place
from termal.rules.verdicts import Bad, Missing
from termal.wire.codec import encode_json
from termal.wire.coordination_operations import SCOPE_DELETE, DeleteScope
from termal.wire.errors import NotImplementedYet
from termal.wire.settings_operations import CreateProject, OneProject
from termal.wire.turns import JsonReply
from workers.state.change import Book
from workers.state.directories import real_directory
from workers.state.links import Links
from workers.state.outbox import Ended, Outbox

_PENDING: Final = "pending_coordination_scope_deletions"


class Projects:
    def __init__(self, book: Book, loop: Loop, links: Links, log: Log) -> None:
        self._book = book
        self._outbox: Outbox[str] = Outbox(
            loop,
            lambda: links.to("coordination"),
            name="scopeDeletions",
            lane=str,
            send=_send,
            confirmed=self._confirmed,
            log=log,
        )

    def table(self) -> dict[str, Handler]:
        return {"project.create": self.create, "project.delete": self.delete}

    def begin(self) -> None:
        """The start is stored: go on with the deletions that an earlier life has committed."""
        self._outbox.put(*self._book.registry.pending(_PENDING))

    def create(self, request: Request, body: CreateProject) -> None:
        """The handler of ``project.create``."""
        book, registry = self._book, self._book.registry
        root = self._root(body)
        known = same_place(registry.projects.values(), body.remote_id, root)
        if known is None:
            name = project_name(body.name, root, (project.name for project in registry.projects.values()))
            known = Project(id=new_project_id(), name=name, root_path=root, remote_id=body.remote_id)
            registry.projects[known.id] = known
            registry.set_metadata(next_project_number=registry.metadata.next_project_number + 1)
            change = book.change()
            change.everything()
            change.commit()
        reply = JsonReply(encode_json(CreateProjectResponse(known.id, Raw(book.projections.state()))))
        book.journal.after(lambda: request.reply(reply))

    def delete(self, request: Request, body: OneProject) -> None:
        """The handler of ``project.delete``: its sessions stay; coordination hears of it after the commit."""
        book, registry = self._book, self._book.registry
        project = registry.projects.pop(body.project_id, None)
        if project is None:
            raise Missing("there is no such project")
        members = [record for record in registry.sessions.values() if record.session.project_id == project.id]
        for record in members:
            record.session = replace(record.session, project_id=UNSET)
        registry.set_metadata(orchestrator_instances=_detached(registry.metadata.orchestrator_instances, project.id))
        local = project.remote_id == LOCAL_REMOTE
        if local:
            registry.set_pending(_PENDING, sorted({*registry.pending(_PENDING), project.id}))
        change = book.change()
        change.everything(*members)
        change.commit(after=(lambda: self._outbox.put(project.id)) if local else None)
        reply = JsonReply(book.projections.state())
        book.journal.after(lambda: request.reply(reply))

    # ----------------------------------------------------------------- its outbox

    def _confirmed(self, project_id: str) -> None:
        fault("state.scope_deleted_before_commit")
        registry = self._book.registry
        registry.set_pending(_PENDING, sorted({*registry.pending(_PENDING)} - {project_id}))
        self._book.journal.touch_metadata()

    def _root(self, body: CreateProject) -> str:
        """The canonical directory. Raises `Bad`."""
        remotes = {remote.id: remote for remote in self._book.registry.metadata.preferences.remotes}
        remote = remotes.get(body.remote_id)
        if remote is None or not remote.enabled:
            raise Bad(f"the remote {body.remote_id!r} is not there, or disabled", reason="noRemote")
        if remote.id != LOCAL_REMOTE:
            raise NotImplementedYet("projects on other daemons cannot be made from here")
        root = body.root_path.strip()
        if not root:
            raise Bad("rootPath must not be blank")
        if not os.path.isabs(root):  # noqa: PTH117 - the text of a request, not a path of ours
            raise Bad("rootPath must be an absolute path")
        return str(real_directory(Path(root), "rootPath is not a directory"))


def _send(client: Client, project_id: str, ended: Ended) -> object:
    return client.call(SCOPE_DELETE, DeleteScope(project_id), ended)


def _detached(instances: Any, project_id: str) -> Any:
    """Workflow instances of other builds, without a reference to the deleted project."""
    if not isinstance(instances, list):
        return instances
    return [
        {key: value for key, value in instance.items() if (key, value) != ("projectId", project_id)}
        if isinstance(instance, dict)
        else instance
        for instance in instances
    ]
