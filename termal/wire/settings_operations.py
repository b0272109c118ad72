"""Settings, preferences, projects, model lists and the commands of agents."""

from typing import Literal

import msgspec

from termal.model.stored import Remote
from termal.wire.operation import WRITE_S, read, write
from termal.wire.runtime_operations import CONFIRM_S, MODELS_S
from termal.wire.session_operations import OneSession
from termal.wire.turns import JsonReply


class ChangeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``settings`` are wire names with text, or a flag for ``codexFastMode``. All of it is taken, or nothing."""

    session_id: str
    name: str | None = None
    model: str | None = None
    settings: dict[str, str | bool] = {}


class ChangePreferences(msgspec.Struct, frozen=True, kw_only=True):
    """``values`` are wire names; ``remotes`` takes the place of the whole list."""

    values: dict[str, str] = {}
    remotes: list[Remote] | None = None


class CreateProject(msgspec.Struct, frozen=True, kw_only=True):
    """The same root on the same remote again is the same project."""

    root_path: str
    name: str | None = None
    remote_id: str = "local"


class OneProject(msgspec.Struct, frozen=True):
    project_id: str


class ResolveCommand(msgspec.Struct, frozen=True, kw_only=True):
    session_id: str
    name: str
    arguments: str | None = None
    note: str | None = None
    cwd: str | None = None
    intent: Literal["send", "delegate"] = "send"


SETTINGS_CHANGE = write("settings.change", ChangeSettings, JsonReply, repeatable=True, timeout_s=CONFIRM_S + WRITE_S)
PREFERENCES_CHANGE = write("preferences.change", ChangePreferences, JsonReply, repeatable=True)
PROJECT_CREATE = write("project.create", CreateProject, JsonReply, repeatable=True)
PROJECT_DELETE = write("project.delete", OneProject, JsonReply, repeatable=False)
MODELS_REFRESH = write("models.refresh", OneSession, JsonReply, repeatable=True, timeout_s=MODELS_S + WRITE_S)
COMMANDS_LIST = read("commands.list", OneSession, JsonReply)
COMMAND_RESOLVE = read("command.resolve", ResolveCommand, JsonReply)
