"""An ACP agent for tests: a program that follows a JSON script, well-behaved or not. ``python acp_agent.py SCRIPT``.

``answers``: result or error by method. ``prompt``: steps of a turn (`_step`). ``behaviour``: ``silent`` reads and says
nothing, ``exits`` ends at once, ``stubborn`` stays when its input ends and ignores SIGTERM. ``log``: what it received.
``silent``: methods that it never answers.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

_DEFAULTS: dict[str, Any] = {
    "initialize": {"result": {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}},
    "session/new": {"result": {"sessionId": "conversation-1"}},
    "session/load": {"result": {}},
    "session/set_model": {"result": {}},
    "session/set_mode": {"result": {}},
    "session/set_config_option": {"result": {}},
}


class Agent:
    def __init__(self, script: dict[str, Any]) -> None:
        self._script = script
        self._answers = {**_DEFAULTS, **script.get("answers", {})}
        self._asked = 100

    def serve(self) -> None:
        behaviour, silent = self._script.get("behaviour", ""), self._script.get("silent", [])
        if behaviour == "exits":
            sys.stderr.write("starting\n\x1b[31mcannot read its settings\x1b[0m\n")
            sys.exit(3)
        if behaviour == "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while (message := self._read()) is not None:
            if behaviour != "silent" and "id" in message and message.get("method") not in (None, *silent):
                self._serve(message)
        while behaviour == "stubborn":
            time.sleep(3600)

    def _serve(self, message: dict[str, Any]) -> None:
        method, number = message["method"], message["id"]
        if method == "session/prompt":
            for step in self._script.get("prompt", []):
                self._step(step, number)
            return
        for update in self._script.get("replay", []) if method == "session/load" else ():
            self._update(update)
        answer = self._answers.get(method, {"error": {"code": -32601, "message": "method not found"}})
        self._write({"id": number, **answer})

    def _step(self, step: dict[str, Any], number: int) -> None:
        (kind, value), *_ = step.items()
        if kind == "update":
            self._update(value)
        elif kind == "ask":
            self._asked += 1
            self._write({"id": self._asked, "method": "session/request_permission", "params": value})
        elif kind == "request":
            self._write({"id": 1, "method": value, "params": {}})
        elif kind == "wait_for":
            while (message := self._read()) is not None and value not in (message.get("method"), message.get("id")):
                pass
        elif kind == "line":
            sys.stdout.write(value + "\n")
            sys.stdout.flush()
        elif kind == "long_line":
            for _ in range(value >> 20):
                sys.stdout.write("x" * (1 << 20))
            sys.stdout.write("\n")
            sys.stdout.flush()
        elif kind == "stderr":
            sys.stderr.write(value)
            sys.stderr.flush()
        elif kind == "die":
            os._exit(value)
        else:
            self._write({"id": number, kind: value})

    def _update(self, update: dict[str, Any]) -> None:
        self._write({"method": "session/update", "params": {"sessionId": "conversation-1", "update": update}})

    def _read(self) -> dict[str, Any] | None:
        line = sys.stdin.readline()
        if not line:
            return None
        with Path(self._script["log"]).open("a") as file:
            file.write(line)
        message: dict[str, Any] = json.loads(line)
        return message

    @staticmethod
    def _write(message: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    Agent(json.loads(Path(sys.argv[1]).read_text())).serve()
