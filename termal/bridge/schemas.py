"""The tools as agents see them: names, input schemas, descriptions, hints. Plain data in the order of the list."""

from typing import Any

from termal.bridge.delegation_tools import AGENTS, MODES, POLICIES
from termal.bridge.descriptor import SUBMIT_DESCRIPTION, SUBMIT_TOOL

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_LINES: Schema = {"type": "array", "items": {"type": "string", "minLength": 1}}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_WAIT_MODE: Schema = {"type": "string", "enum": ["all", "any"]}
_IDS: Schema = {"type": "array", "items": {"type": "string"}}
_ID: Schema = {"type": "string", "description": "A delegationId, as a spawn or termal_list_delegations gave it."}


def _object(properties: Schema, *needed: str) -> Schema:
    return {"type": "object", "properties": properties, **({"required": list(needed)} if needed else {})}


def _strict(properties: Schema, *needed: str) -> Schema:
    return {**_object(properties, *needed), "additionalProperties": False}


_REVIEW = _strict(
    {
        "schemaVersion": {"type": "integer", "const": 1},
        "status": {"type": "string", "enum": ["completed", "failed"]},
        "summary": {"type": "string", "minLength": 1},
        "findings": {
            "type": "array",
            "items": _strict(
                {
                    "severity": {"type": "string", "enum": ["Critical", "High", "Medium", "Low", "Note"]},
                    "file": _TEXT,
                    "line": {"type": "integer", "minimum": 1},
                    "message": {"type": "string", "minLength": 1},
                },
                "severity",
                "message",
            ),
        },
        "commandsRun": {
            "type": "array",
            "items": _strict(
                {
                    "command": {"type": "string", "minLength": 1},
                    "status": {"type": "string", "enum": ["success", "error"]},
                },
                "command",
                "status",
            ),
        },
        "filesInspected": _LINES,
        "notes": _LINES,
        "suggestedTrackerUpdates": _LINES,
    },
    "schemaVersion",
    "status",
    "summary",
    "findings",
    "commandsRun",
    "filesInspected",
    "notes",
    "suggestedTrackerUpdates",
)

SCHEMAS: dict[str, Schema] = {
    "termal_spawn_session": _object(
        {
            "prompt": {"type": "string", "description": "The whole task; the child sees nothing else of this session."},
            "title": _TEXT,
            "cwd": {
                "type": "string",
                "description": "Directory of the child; a slash command in prompt is looked up there as well.",
            },
            "model": _TEXT,
            "agent": {"type": "string", "enum": list(AGENTS)},
            "mode": {"type": "string", "enum": list(MODES)},
            "writePolicy": {"anyOf": [{"type": "string", "enum": list(POLICIES)}, {"type": "object"}]},
        },
        "prompt",
    ),
    "termal_list_delegations": _object({}),
    "termal_get_session_status": _object({"delegationId": _ID}, "delegationId"),
    "termal_get_session_result": _object(
        {
            "delegationId": _ID,
            "outputOffset": {**_COUNT, "description": "First byte of the page; nextOffsetBytes of the page before."},
            "outputLimit": {"type": "integer", "minimum": 256, "maximum": 8192, "description": "Bytes of a page."},
        },
        "delegationId",
    ),
    "termal_cancel_session": _object({"delegationId": _ID}, "delegationId"),
    "termal_wait_delegations": _object(
        {
            "delegationIds": _IDS,
            "mode": _WAIT_MODE,
            "pollIntervalMs": {"type": "integer", "description": "At least 500; 1000 when left out."},
            "timeoutMs": {"type": "integer", "description": "At most 1800000; 300000 when left out."},
        },
        "delegationIds",
    ),
    "termal_resume_after_delegations": _object(
        {"delegationIds": _IDS, "mode": _WAIT_MODE, "title": _TEXT}, "delegationIds"
    ),
    "termal_followup_session": _object({"delegationId": _ID, "message": _TEXT}, "delegationId", "message"),
    SUBMIT_TOOL: _REVIEW,
    "termal_send_to_session": _object(
        {
            "sessionId": {"type": "string", "description": "Exact id, or the name of a root session."},
            "message": _TEXT,
            "idempotencyKey": {"type": "string", "maxLength": 256},
            "topic": _TEXT,
            "stateStamp": _TEXT,
            "class": {"type": "string", "enum": ["routine"]},
        },
        "sessionId",
        "message",
        "idempotencyKey",
    ),
    "termal_list_sessions": _object({}),
    "termal_list_mailboxes": _object({}),
    "termal_read_mailbox": _object(
        {
            "mailboxId": _TEXT,
            "afterSequence": _COUNT,
            "limit": {"type": "integer", "minimum": 1, "maximum": 200},
        },
        "mailboxId",
    ),
    "termal_read_mailbox_message": _object({"messageId": _TEXT}, "messageId"),
    "termal_acknowledge_mailbox": _object(
        {"mailboxId": _TEXT, "expectedProcessedThrough": _COUNT, "processedThrough": _COUNT},
        "mailboxId",
        "expectedProcessedThrough",
        "processedThrough",
    ),
    "termal_board_list": _object(
        {
            "afterKey": _TEXT,
            "limit": {"type": "integer", "minimum": 1, "maximum": 200},
            "snapshotGeneration": _COUNT,
            "knownGeneration": _COUNT,
        }
    ),
    "termal_board_get": _object({"key": _TEXT}, "key"),
    "termal_board_set": _object(
        {
            "key": _TEXT,
            "expectedRevision": _COUNT,
            "idempotencyKey": _TEXT,
            "value": {"description": "Any JSON, null too. Leave it out to delete."},
            "delete": {"type": "boolean"},
            "stateStamp": _TEXT,
        },
        "key",
        "expectedRevision",
        "idempotencyKey",
    ),
}

DESCRIPTIONS = {
    "termal_spawn_session": (
        "Delegate one bounded task to a new child session and return its ids at once. One spawn per task: never use an "
        "earlier child again for a new one. mode defaults to reviewer, which is for Claude and Codex only and not for "
        "children of delegated sessions; Cursor and Gemini take explorer; OpenCode takes explorer with writePolicy "
        "isolatedWorktree and never readOnly. writePolicy defaults to readOnly. A single-line prompt that is a known "
        "slash command is expanded first; cwd also says where that command is looked up. If the answer was lost, call "
        "termal_list_delegations before spawning again."
    ),
    "termal_list_delegations": (
        "List every delegation of this session with ids and status, oldest first. Use it to find ids again after a "
        "lost answer or a truncated context; they go straight into the other tools."
    ),
    "termal_get_session_status": "Look once at one delegation of this session.",
    "termal_get_session_result": (
        "Read what a finished delegation came to: summary, findings, changed files, commands, notes. For the child's "
        "full last text pass outputOffset 0 and repeat with nextOffsetBytes until complete is true."
    ),
    "termal_cancel_session": "Cancel a running delegation. Cancelling one that is over changes nothing.",
    "termal_wait_delegations": (
        "Wait in this turn until all (or any) of up to 10 delegations are over, and return their results. For short "
        "waits; a timeout cancels nothing. For long ones use termal_resume_after_delegations."
    ),
    "termal_resume_after_delegations": (
        "Have this session resumed with the results when all (or any) of the delegations are over. After it succeeds "
        "end your turn at once: do not poll, the results come as your next prompt."
    ),
    "termal_followup_session": (
        "Give the same task of a completed or failed delegation another turn. Refused while it runs, after a cancel "
        "and after its child was removed. A new task is a new spawn."
    ),
    SUBMIT_TOOL: SUBMIT_DESCRIPTION,
    "termal_send_to_session": (
        "Send a durable message to another root session's mailbox. Take exact ids from termal_list_sessions and keep "
        "using them: a name costs a look-up each time. idempotencyKey: a new one for each message; repeat a send whose "
        "answer was lost with the same one. A receipt's notificationDisposition durableButNotWoken means stored, not "
        "lost."
    ),
    "termal_list_sessions": "List the root sessions of all projects, this one included.",
    "termal_list_mailboxes": (
        "List this session's mailboxes with unread counts and, in participants, its own processedThrough cursor."
    ),
    "termal_read_mailbox": (
        "Read messages of a mailbox above afterSequence, oldest first. Reading never moves the cursor. "
        "notificationState changes while a message is delivered; the notificationDisposition of a receipt never does."
    ),
    "termal_read_mailbox_message": (
        "Read one message by its id. Moves no cursor; its notificationState may change later, unlike the "
        "notificationDisposition of a receipt."
    ),
    "termal_acknowledge_mailbox": (
        "Move this session's cursor to the last message that it has processed. expectedProcessedThrough is the cursor "
        "that termal_list_mailboxes showed. Acknowledging at or below the stored cursor succeeds again."
    ),
    "termal_board_list": "List the keys of this project's coordination board with values and revisions.",
    "termal_board_get": "Read one key of this project's coordination board.",
    "termal_board_set": (
        "Write or delete one key of this project's coordination board, against the revision you saw (0 for a new key). "
        "Writes wake nobody. Repeat a write whose answer was lost with the same idempotencyKey."
    ),
}

SUBMIT_HINTS = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
