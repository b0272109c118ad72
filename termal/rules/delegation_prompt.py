"""The first prompt of a child: who it is, what it may do, its task, the form of its answer."""

import re

import msgspec

from termal.model.delegation import REVIEW_SCHEMA_VERSION, DelegationRecord, WritePolicy
from termal.rules.delegation_review import SEVERITIES

MARKER = "TermAl delegation child"
"""Begins the first prompt of every child. A start finds children again by it: never change it without a migration."""
REVIEW_TOKEN = "TERMAL_REVIEW_RESULT_SCHEMA_1"  # noqa: S105 - a word for the agent, no secret
SUBMIT_TOOL = "termal_submit_review_result"
_MARKED = re.compile(rf"{MARKER} `(delegation-[A-Za-z0-9-]+)`\.\n")
_CHILD = re.compile(r"^Child session: `([^`\n]+)`$", re.M)
_DELEGATION_ID = re.compile(r"delegation-[A-Za-z0-9-]+")

_COMPANY = (
    "Other sessions and people may work in the same files at the same time. Changes that are not yours must stay"
    " as they are."
)
_LIMITS = """\
Limits:
- Use no browser and no MCP tools that have nothing to do with the task, unless the task asks for them.
- Do not commit and do not push.
- If you delegate parts of the task yourself, use the mode explorer, not reviewer.
- If a tool that you need is missing, or something asks for an approval or for input, say so in your result instead of\
 waiting: nobody may be looking."""
_ANSWER = """\
End with one final answer of exactly this shape:

## Result

Status: completed

Summary:
A few sentences.

Findings:
- [High] path/to/file.py:12 - one line for each finding

Commands Run:
- command: passed

Files Inspected:
- path/to/file.py

Begin it with the line `## Result`. Write `Status: failed` if you could not do the task. Write `- None` under a heading\
 that has nothing."""
_EXAMPLE = {
    "schemaVersion": REVIEW_SCHEMA_VERSION,
    "status": "completed",
    "summary": "Reviewed the change. One test is missing.",
    "findings": [{"severity": "Low", "file": "src/list.py", "line": 61, "message": "The release path has no test."}],
    "commandsRun": [{"command": "pytest tests/test_list.py", "status": "success"}],
    "filesInspected": ["src/list.py", "tests/test_list.py"],
    "notes": [],
    "suggestedTrackerUpdates": [],
}
_REVIEW = f"""\
{REVIEW_TOKEN}
This review has a structured result. It is handed in by a tool call and read from nowhere else: your prose is never\
 searched for findings.
- Call the tool `{SUBMIT_TOOL}` exactly once, before your closing answer. It belongs to TermAl itself, changes no file\
 and is allowed under a read-only policy.
- Send every key and every array, empty ones too. schemaVersion is {REVIEW_SCHEMA_VERSION}.
- status: completed or failed. A review that found nothing is handed in as completed, with no findings.
- severity of a finding: {", ".join(SEVERITIES)}. file and line may be left out.
- status of a command: success or error.
- If the tool names an error in what you sent, mend it and call it again.
- Do not write to any issue tracker: put what you would write there into suggestedTrackerUpdates.
Example of its arguments:
{msgspec.json.format(msgspec.json.encode(_EXAMPLE), indent=2).decode()}"""


def bootstrap_prompt(record: DelegationRecord) -> str:
    """The whole first prompt. What a required review must do comes last, behind all text that is not ours."""
    parts = [
        f"{MARKER} `{record.id}`.\n{_identity(record)}",
        policy_words(record.write_policy),
        _COMPANY,
        _LIMITS,
        f"Task:\n\n{record.prompt}",
        _ANSWER,
    ]
    if record.review_result_required:
        parts.append(_REVIEW)
    return "\n\n".join(parts)


def followup_prompt(record: DelegationRecord, message: str) -> str:
    """The prompt of a further turn. A review must be handed in anew for it."""
    return f"{message}\n\n{_REVIEW}" if record.review_result_required else message


def policy_words(policy: WritePolicy) -> str:
    """What the child is told of its write policy."""
    if policy.kind == "readOnly":
        return "Write policy: read-only. Do not edit, stage, commit or push anything. Commands must change no file."
    owned = "".join(f"\n- {path}" for path in policy.owned)
    where = f"You own these paths below it; change no others:{owned}" if owned else "No owned paths were declared."
    if policy.kind == "sharedWorktree":
        return f"Write policy: shared worktree. You work in the parent's own files. {where}"
    return (
        f"Write policy: isolated worktree. Work only in `{policy.worktree}`, a copy made for you."
        f" Do not touch the parent's workspace. {where}"
    )


def marked_child(first_prompt: str) -> tuple[str, str] | None:
    """Delegation and child session that the first prompt of a session names; None for any other prompt."""
    marker = _MARKED.match(first_prompt)
    child = _CHILD.search(first_prompt) if marker else None
    return (marker[1], child[1]) if marker and child else None


def is_delegation_id(text: str) -> bool:
    """Whether ``text`` may be the id of a delegation, in whatever build it was made."""
    return _DELEGATION_ID.fullmatch(text) is not None


def _identity(record: DelegationRecord) -> str:
    return (
        f"Mode: {record.mode}\n"
        f"Parent session: `{record.parent_session_id}`\n"
        f"Child session: `{record.child_session_id}`\n"
        f"Working directory: `{record.cwd}`"
    )
