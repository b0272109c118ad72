"""The tool calls of the demo agent as the protocol shows them, and the two things that they do: a command, a file."""

import os
import signal
import subprocess
import tempfile
from pathlib import Path

from acp import start_tool_call, text_block, tool_content, tool_diff_content, update_tool_call
from acp.schema import PermissionOption, ToolCallProgress, ToolCallStart, ToolCallUpdate

OUTPUT_BYTES = 1 << 20
_PERMISSIONS = [("allow", "Allow", "allow_once"), ("allow-always", "Allow for this session", "allow_always")]


class Refused(Exception):
    """The agent does not do this; the text says why."""


def open_options() -> list[PermissionOption]:
    options = [*_PERMISSIONS, ("reject", "Reject", "reject_once")]
    return [PermissionOption.model_validate({"optionId": i, "name": name, "kind": kind}) for i, name, kind in options]


class CommandCall:
    """A command as a tool call of kind ``execute``."""

    def __init__(self, number: str, command: str) -> None:
        self._number = number
        self._command = command

    def started(self) -> ToolCallStart:
        return start_tool_call(
            self._number, self._command, kind="execute", status="pending", raw_input={"command": self._command}
        )

    def asked(self) -> ToolCallUpdate:
        return ToolCallUpdate(
            tool_call_id=self._number,
            title=self._command,
            kind="execute",
            status="pending",
            raw_input={"command": self._command},
        )

    def refused(self) -> ToolCallProgress:
        return update_tool_call(self._number, status="failed")

    def progress(self, output: str) -> ToolCallProgress:
        return update_tool_call(self._number, status="in_progress", content=[tool_content(text_block(output))])

    def ended(self, output: str, status: int | None) -> ToolCallProgress:
        return update_tool_call(
            self._number,
            status="failed" if status else "completed",
            content=[tool_content(text_block(output))],
            raw_output={"exitCode": status},
        )


class ChangeCall:
    """A file written anew as a tool call of kind ``edit`` with its diff."""

    def __init__(self, number: str, file: Path, path: str, text: str) -> None:
        self._number = number
        self._file = file
        self._path = path
        self._text = text
        old = file.read_text("utf-8", "replace") if file.exists() else None
        self._content = [tool_diff_content(str(file), text, old)]

    def started(self) -> ToolCallStart:
        return start_tool_call(self._number, f"Edit {self._path}", kind="edit", status="pending", content=self._content)

    def asked(self) -> ToolCallUpdate:
        return ToolCallUpdate(
            tool_call_id=self._number,
            title=f"Edit {self._path}",
            kind="edit",
            status="pending",
            content=list(self._content),
        )

    def refused(self) -> ToolCallProgress:
        return update_tool_call(self._number, status="failed")

    def write(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(self._text, "utf-8")

    def ended(self) -> ToolCallProgress:
        return update_tool_call(self._number, status="completed", content=self._content)


def change_call(number: str, folder: Path, path: str, text: str) -> ChangeCall:
    """Raises `Refused` for a file outside of ``folder``, links followed."""
    file = (folder / path).resolve()
    if not file.is_relative_to(folder.resolve()):
        raise Refused(f"{path} is not in the folder of this session")
    if file.is_dir():
        raise Refused(f"{path} is a folder")
    return ChangeCall(number, file, path, text)


class Command:
    """A shell command that runs in a session of its own, as those of other agents do; its output goes to a file."""

    def __init__(self, command: str, folder: Path) -> None:
        # A file and no pipe: what the command leaves in the background may hold its output open for ever.
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`, after the last look at it
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=self._file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    @property
    def status(self) -> int | None:
        """The exit status, 128 + n after signal n; None while it runs."""
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    def output(self) -> str:
        """The last part of what it wrote so far."""
        size = os.fstat(self._file.fileno()).st_size
        start = max(0, size - OUTPUT_BYTES)
        return os.pread(self._file.fileno(), OUTPUT_BYTES, start).decode("utf-8", "replace")

    def end(self) -> None:
        """End the command with its group if it still runs."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def close(self) -> None:
        self._file.close()
