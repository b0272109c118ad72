"""Makes generated requests meet something: most name a session or message that may exist, most sessions can be made.

The generator's command line loads it. Nothing wrong is mended: a value of a wrong type stays as it is.
"""

import json
import zlib
from typing import Any

import schemathesis

SESSIONS = 16
MESSAGES = 40
KEEP = 4
"""One value of so many stays what was generated."""
COUNTED = {"session_id": ("session", SESSIONS), "message_id": ("message", MESSAGES), "prompt_id": ("message", MESSAGES)}

FITTING: dict[str, dict[str, Any]] = {
    # The demo agent takes no images.
    "sendPrompt": {"attachments": []},
    "createMarker": {"messageId": "message-1", "endMessageId": "message-1", "color": "#aabbcc"},
    "changeMarker": {"messageId": "message-1", "endMessageId": "message-1", "color": "#aabbcc"},
    "setBoardKey": {"key": "a.b"},
    "sendMail": {"targetSessionId": "session-2", "class": "routine"},
    "createProject": {"rootPath": "/", "remoteId": "local"},
}
"""Values that can be accepted, by operation and key, in place of random ones of the same type."""


@schemathesis.hook
def map_path_parameters(context: Any, parameters: dict[str, Any] | None) -> dict[str, Any] | None:
    for name, (word, highest) in COUNTED.items():
        value = (parameters or {}).get(name)
        if parameters is not None and isinstance(value, str):
            number = chance(value)
            if number % KEEP:
                parameters[name] = f"{word}-{1 + number // KEEP % highest}"
    return parameters


@schemathesis.hook
def map_headers(context: Any, headers: dict[str, Any] | None) -> dict[str, Any] | None:
    """Generated keys are few and short: with each of them every request would be the repeat of an earlier one."""
    key = (headers or {}).get("Idempotency-Key")
    if headers is not None and isinstance(key, str) and chance(key) % KEEP:
        return {name: value for name, value in headers.items() if name != "Idempotency-Key"}
    return headers


@schemathesis.hook
def map_body(context: Any, body: Any) -> Any:
    name = context.operation.definition.raw.get("operationId")
    if name == "spawnDelegation" and isinstance(body, dict):
        body = built(body)
    if not isinstance(body, dict) or not chance(repr(sorted(body.items(), key=repr))) % KEEP:
        return body
    if name == "createSession" and isinstance(body.get("agent"), str):
        kept = {key: value for key, value in body.items() if not (distant(key) and isinstance(value, str))}
        return {**kept, "agent": "Demo"}
    for key, fit in FITTING.get(name, {}).items():
        if isinstance(body.get(key), type(fit)):
            body = {**body, key: fit}
    return body


def built(body: dict[str, Any]) -> dict[str, Any]:
    """Without what is answered with 501: the generator takes that for a fault."""
    if body.get("mode") == "worker":
        body = {**body, "mode": "explorer"}
    if "shared" in repr(body.get("writePolicy")).lower():
        body = {**body, "writePolicy": "readOnly"}
    return body


@schemathesis.serializer("application/x-ndjson")
def serialize_lines(context: Any, value: Any) -> bytes:
    return value.encode("utf-8", "replace") if isinstance(value, str) else json.dumps(value).encode()


def distant(key: object) -> bool:
    """Of a new session: of its random values nothing on this machine fits, or no setting of the demo agent."""
    return isinstance(key, str) and key.endswith(("workdir", "projectId", "model", "Mode", "Effort", "Policy"))


def chance(text: str) -> int:
    """A number that looks random and is the same in each run."""
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))
