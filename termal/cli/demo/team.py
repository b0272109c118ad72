"""What sessions do together: a lead that delegates to reviewers and is resumed, mail that wakes, a board.

All of it is done by the agents, with the tools that each of them gets from the daemon.
"""

import json
from typing import Any

from termal.cli.demo.claims import Claims
from termal.cli.demo.role import WAIT_S, Role
from termal.cli.demo.stage import Stage, wait_for
from termal.client.http import Http
from termal.client.routes import board, delegations, mailboxes
from termal.model.delegation import ACTIVE

AGENT = "Demo"
FINDINGS = {
    "Review of the parser": ("parser.py", "An empty line ends the loop too early."),
    "Review of the tests": ("test_parser.py", "No test has an empty line."),
}
PARTING = "My turn ends here; I shall be resumed."
_LETTER = "Two findings, both about empty lines. Please mend parser.py."
_KEY, _VALUE = "review.parser", {"findings": 2, "open": True}


def delegate(lead: Role, http: Http) -> None:
    """The lead spawns two reviewers, asks to be resumed when both are over, and ends its turn."""
    spawns = [
        _tool("termal_spawn_session", prompt=_review(title, *finding), title=title, agent=AGENT, mode="reviewer")
        for title, finding in FINDINGS.items()
    ]
    both = [f"$LAST.delegations.{place}.id" for place in range(len(FINDINGS))]
    wait = _tool("termal_resume_after_delegations", delegationIds=both, mode="all", title="Both reviews are here")
    lead.send(http, "\n".join([*spawns, _tool("termal_list_delegations"), wait, f"say {PARTING}"]), PARTING)
    wait_for(lambda: PARTING in lead.said(), f"{lead.name} to end the turn", WAIT_S)


def at_work(lead: Role, http: Http) -> int:
    """How many of the reviewers are not over yet."""
    reply = http.run(delegations.delegations(lead.session_id))
    return sum(one["status"] in ACTIVE for one in reply.delegations)


def resumed(lead: Role, http: Http, claims: Claims) -> None:
    """The lead gets the prompt that its wait was for, once, with what both reviewers found."""
    prompt = lead.next_prompt().text
    lead.wait_idle()
    missing = [message for _, message in FINDINGS.values() if prompt.count(message) != 1]
    claims.check(f"{lead.name} was resumed with the findings of both reviewers", not missing, f"not in it: {missing}")
    reply = http.run(delegations.delegations(lead.session_id))
    ended = {one["title"]: one["status"] for one in reply.delegations}
    claims.check("both reviews are complete", ended == dict.fromkeys(FINDINGS, "completed"), str(ended))


def write(lead: Role, other: Role, stage: Stage, http: Http, claims: Claims) -> None:
    """The lead writes to the board and to another session while the worker that stores both is killed."""
    entry = _tool("termal_board_set", key=_KEY, value=_VALUE, expectedRevision=0, idempotencyKey="demo")
    letter = _tool("termal_send_to_session", sessionId=other.name, message=_LETTER, idempotencyKey="demo")
    killed = stage.kill("coordination")
    lead.send(http, f"{entry}\n{letter}")
    notice = other.next_prompt()
    claims.tell(f"killed process {killed}; {other.name}, at rest, is told: {notice.text.partition(' in ')[0]}")
    lead.wait_idle()
    other.wait_idle()
    kind = getattr(notice.source, "kind", "person")
    claims.check(f"mail from {lead.name} woke {other.name}", kind == "mailbox", f"woken by {kind}")


def read(lead: Role, other: Role, http: Http, claims: Claims) -> None:
    """The other session reads its mail and the board, and acknowledges."""
    fetch = _tool("termal_read_mailbox", mailboxId="$LAST.mailboxes.0.id")
    done = _tool(
        "termal_acknowledge_mailbox", mailboxId="$LAST.mailboxId", expectedProcessedThrough=0, processedThrough=1
    )
    other.send(http, "\n".join([_tool("termal_list_mailboxes"), fetch, done, _tool("termal_board_get", key=_KEY)]))
    other.wait_idle()
    said = other.said()
    claims.check(f"{other.name} read it: {_LETTER}", _LETTER in said, said[-300:])
    unread = [box.unread_count for box in http.run(mailboxes.mailboxes(other.session_id))]
    claims.check("and acknowledged it: nothing is unread", unread == [0], f"unread: {unread}")
    head = http.run(board.key(other.session_id, _KEY))
    found = (head.revision, head.value, head.author_session_id)
    wanted = (1, _VALUE, lead.session_id)
    claims.check(f"the board says {_KEY} = {json.dumps(_VALUE)}, by {lead.name}", found == wanted, str(found))


def _review(title: str, file: str, message: str) -> str:
    """The task of a reviewer."""
    payload = {
        "schemaVersion": 1,
        "status": "completed",
        "summary": f"{title}: one finding.",
        "findings": [{"severity": "Medium", "file": file, "line": 7, "message": message}],
        "commandsRun": [],
        "filesInspected": [file],
        "notes": [],
        "suggestedTrackerUpdates": [],
    }
    return f"say I look at {file}.\nwait 1\n{_tool('termal_submit_review_result', **payload)}\nsay Done."


def _tool(name: str, **arguments: Any) -> str:
    """A line by which the demo agent calls a tool of its session."""
    return f"tool {name} {json.dumps(arguments)}"
