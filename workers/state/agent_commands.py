"""Commands that a person can type in a session: listed, and turned into the prompt that they stand for. Sends nothing.

Their files are read on a thread of its own: a slow file system must not hold up the loop.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from msgspec import UNSET, Raw

from termal.bus.loop import Loop
from termal.bus.server import Handler, Request, not_started
from termal.model.agent_command import AgentCommand, AgentCommandsResponse, CommandKind, ResolvedCommand
from termal.model.stored import LOCAL_REMOTE
from termal.rules.size import fitting
from termal.rules.slash_command import (
    CWD_CHARS,
    Native,
    Resolved,
    read_native,
    read_template,
    resolve,
    resolve_native,
)
from termal.rules.verdicts import Bad, Refused
from termal.wire.codec import encode_json
from termal.wire.errors import Internal, NotFound, NotImplementedYet, TermalError
from termal.wire.session_operations import OneSession
from termal.wire.settings_operations import ResolveCommand
from termal.wire.turns import JsonReply
from termal.wire.verdict_errors import error_of
from workers.state.change import Book
from workers.state.command_files import CommandFile, all_commands, one_command
from workers.state.directories import real_directory
from workers.state.session_record import SessionRecord
from workers.state.thread_lane import ThreadLane

Work = Callable[[], JsonReply]


class AgentCommands:
    def __init__(self, book: Book, loop: Loop) -> None:
        self._book = book
        self._loop = loop
        self._lane = ThreadLane("commands")

    def table(self) -> dict[str, Handler]:
        return {"commands.list": self.all, "command.resolve": self.resolve}

    def all(self, request: Request, body: OneSession) -> None:
        """The handler of ``commands.list``."""
        record = self._record(body.session_id)
        workdir, native = record.session.workdir, read_native(record.agent, record.native_commands)
        self._put(request, lambda: _listed(workdir, native))

    def resolve(self, request: Request, body: ResolveCommand) -> None:
        """The handler of ``command.resolve``."""
        record = self._record(body.session_id)
        cwd = body.cwd.strip() if body.cwd is not None else None
        if cwd is not None and body.intent != "delegate":
            raise Bad("cwd is for the intent delegate only", reason="cwdOnlyForDelegate")
        if cwd is not None and not 0 < len(cwd) <= CWD_CHARS:
            raise Bad(f"cwd must have 1 to {CWD_CHARS} characters")
        root = self._root(record) if cwd is not None else None
        workdir = record.session.workdir
        native = read_native(record.agent, record.native_commands)
        self._put(request, lambda: _resolved(body, native, workdir, cwd, root))

    def _record(self, session_id: str) -> SessionRecord:
        record = self._book.registry.find(session_id)
        if record.remote:
            raise NotImplementedYet("commands of other daemons' sessions cannot be read from here")
        return record

    def _root(self, record: SessionRecord) -> str | None:
        """The directory that a project keeps its sessions in."""
        project_id = record.session.project_id
        project = None if project_id is UNSET else self._book.registry.projects.get(project_id)
        if project is not None and project.remote_id != LOCAL_REMOTE:
            raise NotImplementedYet("projects on other daemons cannot be used from here")
        return None if project is None else project.root_path

    # ----------------------------------------------------------------- its thread

    def _put(self, request: Request, work: Work) -> None:
        self._lane.put(partial(self._carry_out, request, work))

    def _carry_out(self, request: Request, work: Work) -> None:
        answer = not_started(request.op) if request.expired() else _outcome(work)
        self._loop.threadsafe(partial(_give, request, answer))


def _outcome(work: Work) -> JsonReply | TermalError:
    try:
        return work()
    except (Refused, TermalError) as refused:
        return error_of(refused)
    except Exception as error:  # noqa: BLE001 - the border of the thread: a fault must not end it and all that waits
        return Internal(f"the command files cannot be read: {type(error).__name__}", reason="commandFiles")


def _give(request: Request, answer: JsonReply | TermalError) -> None:
    if isinstance(answer, TermalError):
        request.refuse(answer)
    else:
        request.reply(answer)


def _listed(workdir: str, native: list[Native]) -> JsonReply:
    known = {command.name.lower() for command in native}
    commands = [_command(file) for file in all_commands(workdir) if file.name.lower() not in known]
    commands += [_native_command(command) for command in native]
    encoded = [Raw(encode_json(command)) for command in sorted(commands, key=lambda command: command.name.lower())]
    fit = fitting([len(raw) for raw in encoded], "start")
    return JsonReply(encode_json(AgentCommandsResponse(encoded[fit])))


def _native_command(command: Native) -> AgentCommand:
    return AgentCommand(
        kind="nativeSlash",
        name=command.name,
        description=command.description,
        content=f"/{command.name}",
        source=command.source,
        argument_hint=command.argument_hint or UNSET,
    )


def _command(file: CommandFile) -> AgentCommand:
    template = read_template(file.text)
    return AgentCommand(
        kind="promptTemplate",
        name=file.name,
        description=template.description,
        content=template.body,
        source=file.source,
        argument_hint=template.argument_hint or UNSET,
    )


def _resolved(body: ResolveCommand, native: list[Native], workdir: str, cwd: str | None, root: str | None) -> JsonReply:
    folder = workdir if cwd is None else _folder(cwd, workdir, root)
    for command in native:
        # What the agent found in its own directory is not there in another one.
        if command.name.lower() == body.name.lower() and not (command.of_project and folder != workdir):
            resolved = resolve_native(command, body.arguments, body.note)
            return _reply(command.name, command.source, "nativeSlash", resolved)
    file = one_command(folder, body.name)
    if file is None:
        raise NotFound(f"there is no command {body.name!r}", reason="agentCommandNotFound")
    resolved = resolve(file.name, read_template(file.text), body.arguments, body.note)
    return _reply(file.name, file.source, "promptTemplate", resolved)


def _reply(name: str, source: str, kind: CommandKind, resolved: Resolved) -> JsonReply:
    return JsonReply(
        encode_json(
            ResolvedCommand(
                name=name,
                source=source,
                kind=kind,
                visible_prompt=resolved.visible,
                expanded_prompt=UNSET if kind == "nativeSlash" else resolved.expanded,
                title=resolved.title,
            )
        )
    )


def _folder(cwd: str, workdir: str, root: str | None) -> str:
    """The canonical ``cwd``, relative to the session's directory. Raises `Bad`."""
    folder = real_directory(Path(workdir) / cwd, "cwd is not a directory")
    if root is not None and not folder.is_relative_to(root):
        raise Bad("cwd is outside the root of the project", reason="cwdOutsideProject")
    return str(folder)
