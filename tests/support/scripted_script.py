"""The script of a scripted model: chooses answers, counts what was used up, holds the gates, and writes the log."""

import json
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.scripted_requests import Ask, Json, smallest_value


class Gate:
    """A place in an answer where the model waits. ``reached``: an answer got there."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()


class Script:
    """The script file, the log file, and what the answers given so far have used up. Safe for all threads."""

    def __init__(self, script_file: Path, log_file: Path, *, bodies: bool) -> None:
        self._script_file = script_file
        self._log_file = log_file
        self._bodies = bodies
        self._lock = threading.Lock()
        self._fired: dict[tuple[str, int], int] = {}
        self._gates: dict[str, Gate] = {}
        self._count = 0
        self.reader: Callable[[Ask], list[Json] | None] | None = None
        """Asked before the script, where a test has a model that makes its answers of what it is told."""

    def choose(self, ask: Ask) -> tuple[str, list[Json]]:
        """The name of the step that answers ``ask``, and the parts of its turn."""
        read = self.reader(ask) if self.reader is not None else None
        if read is not None:
            return "reader", read
        script: Json = json.loads(self._script_file.read_text("utf-8"))
        for number, step in enumerate(script.get("steps") or []):
            if re.search(step.get("match", ""), ask.user) and (ask.tools or step.get("bare")):
                return step.get("name", f"step{number}"), _turn(step["turns"], ask)
        if not ask.tools:
            schema = ask.wanted_schema()
            return "bare", [{"text": "title" if schema is None else json.dumps(smallest_value(schema))}]
        return "default", _turn(script.get("default") or [[{"text": "ok"}]], ask)

    def fires(self, step: str, turn: int, times: int | None) -> bool:
        """Count one more occasion for an error; False: it has been given ``times`` times."""
        with self._lock:
            self._fired[step, turn] = self._fired.get((step, turn), 0) + 1
            return times is None or self._fired[step, turn] <= times

    def gate(self, name: str) -> Gate:
        with self._lock:
            return self._gates.setdefault(name, Gate())

    def open_all(self) -> None:
        with self._lock:
            for gate in self._gates.values():
                gate.opened.set()

    def log(self, ask: Ask | None = None, **entry: object) -> None:
        if ask is not None:
            entry.update(
                api=ask.format,
                path=ask.path,
                model=ask.model,
                stream=ask.stream,
                user=ask.user[-300:],
                turn=ask.turn,
                tools=ask.tools,
            )
            if self._bodies:
                entry["body"] = ask.body
        with self._lock, self._log_file.open("a", encoding="utf-8") as file:
            self._count += 1
            file.write(json.dumps({"n": self._count, "t": round(time.time(), 3), **entry}) + "\n")

    def entries(self) -> list[Json]:
        with self._lock:
            try:
                lines = self._log_file.read_text("utf-8").splitlines()
            except FileNotFoundError:
                return []
        return [json.loads(line) for line in lines]


def _turn(turns: list[list[Json]], ask: Ask) -> list[Json]:
    return turns[ask.turn] if ask.turn < len(turns) else [{"text": "done"}]
