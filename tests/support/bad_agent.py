"""An ACP agent with one vice, named by its argument: ``python bad_agent.py VICE``. Standard library only."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

CHUNK = b"x" * (1 << 20)
LINE_MIB = 100


def send(record: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", **record}).encode() + b"\n")
    sys.stdout.buffer.flush()


def say(text: str) -> None:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    send({"method": "session/update", "params": {"sessionId": "one", "update": update}})


def garbage() -> None:
    for line in (b"\xff\xfe\x00", b"{", b"[1, 2]", b'{"id": {}}', b'"text"', b"{" * 5000, b'{"method": 7}', b" "):
        sys.stdout.buffer.write(line + b"\n")
    send({"id": 99999, "result": None})
    send({"method": "session/update", "params": {"sessionId": "one", "update": {"sessionUpdate": "unheard_of"}}})
    send({"method": "session/update", "params": 7})


def endless() -> None:
    for _ in range(LINE_MIB):
        sys.stdout.buffer.write(CHUNK)
    sys.stdout.buffer.write(b"\n")


def deaf() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    say("working")
    while True:
        time.sleep(3600)


def dying(folder: str) -> None:
    sys.stderr.write(f"cannot read /etc/agent/key.pem for {folder}\n")
    sys.stderr.flush()
    sys.exit(3)


def leaving(folder: str) -> None:
    """A command that goes on writing: its parents are gone, it has a session of its own, and no mark on it."""
    loop = "echo $$ > pid; while sleep 0.02; do echo x >> tick; done"
    command = f"env -i PATH=$PATH setsid sh -c '{loop}' > /dev/null 2>&1 &"
    subprocess.run(["sh", "-c", command], cwd=folder, check=True)
    while not (Path(folder) / "tick").exists():
        time.sleep(0.01)
    say("done")


def prompted(vice: str, folder: str) -> None:
    if vice == "endless":
        endless()
    elif vice == "garbage":
        garbage()
        say("heard all the same")
    elif vice == "deaf":
        deaf()
    elif vice == "dying":
        dying(folder)
    elif vice == "leaving":
        leaving(folder)


def main(vice: str) -> None:
    folder = ""
    for line in sys.stdin:
        request = json.loads(line)
        method, params = request.get("method"), request.get("params", {})
        if method == "initialize":
            capabilities = {"loadSession": False, "promptCapabilities": {}}
            send({"id": request["id"], "result": {"protocolVersion": 1, "agentCapabilities": capabilities}})
        elif method == "session/new":
            folder = params["cwd"]
            send({"id": request["id"], "result": {"sessionId": "one"}})
        elif method == "session/prompt":
            prompted(vice, folder)
            send({"id": request["id"], "result": {"stopReason": "end_turn"}})


if __name__ == "__main__":
    main(sys.argv[1])
