"""An ACP agent that speaks at a steady pace: each piece of its text is the moment at which it was written.

A prompt is ``<pieces> <pieces per second>``; a piece is the monotonic clock in microseconds and a blank.
"""

import json
import sys
import time
from typing import Any


def _say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def _speak(session_id: str, pieces: int, per_s: float) -> None:
    began = time.monotonic()
    for number in range(pieces):
        time.sleep(max(0.0, began + number / per_s - time.monotonic()))
        text = f"{time.monotonic_ns() // 1000} "
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
        _say({"method": "session/update", "params": {"sessionId": session_id, "update": update}})


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        method, params = request.get("method"), request.get("params") or {}
        result: dict[str, Any] = {}
        if method == "initialize":
            result = {"protocolVersion": 1, "agentCapabilities": {}}
        elif method == "session/new":
            result = {"sessionId": "speaking"}
        elif method == "session/prompt":
            pieces, per_s = params["prompt"][0]["text"].split()
            _speak(params["sessionId"], int(pieces), float(per_s))
            result = {"stopReason": "end_turn"}
        if "id" in request:
            _say({"id": request["id"], "result": result})


if __name__ == "__main__":
    main()
