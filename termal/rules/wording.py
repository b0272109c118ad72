"""Fixed sentences that people read in previews and transcripts. Clients never branch on them."""

READY = "Ready"
WAITING = "Waiting"
DONE = "Done"
STOPPED = "Stopped by the user."
FAILED_PREFIX = "Turn failed: "
EXPIRED = "Expired"
CANCELED = "Canceled"

NEEDS_APPROVAL = "Needs approval"
NEEDS_INPUT = "Needs input"
NEEDS_MCP_INPUT = "Needs MCP input"
NEEDS_CODEX_ANSWER = "Needs a Codex answer"
HELD = (
    "A read-only delegation is looking at this directory. The mode of this session allows this once it is over; "
    "until then it can only be refused."
)

THREAD_ARCHIVED = "The Codex thread was archived. Unarchive it to go on."
THREAD_UNARCHIVED = "The Codex thread was unarchived."
THREAD_COMPACTED = "Codex was asked to make the conversation shorter for its model. This transcript stays whole."
FORKED = "This session goes on from a copy of another one's Codex thread. Codex did not return its history."

_FORK_NAME_CHARACTERS = 190
"""Of the name that a fork's begins with: the whole has 200 at most."""

HIDDEN_ANSWER = "[secret]"
"""What is stored in place of a secret answer."""

_TURN_CUT = "TermAl restarted during this turn; its last answer may be cut off. Send a prompt to go on."
_REQUEST_EXPIRED = "TermAl restarted while a request was open; that request has expired. Send a prompt to go on."
_DECISIONS = {
    "accepted": "Approved",
    "acceptedForSession": "Approved for this session",
    "rejected": "Rejected",
    "declined": "Declined",
    "submitted": "Submitted",
    "interrupted": EXPIRED,
    "canceled": CANCELED,
    "pending": NEEDS_APPROVAL,
}


def restart_notice(*, request_open: bool, queued: int) -> str:
    """What a transcript says of a turn that a restart cut off; ``queued`` prompts are still saved."""
    text = _REQUEST_EXPIRED if request_open else _TURN_CUT
    if queued == 1:
        return text + " One queued prompt is kept."
    if queued > 1:
        return f"{text} {queued} queued prompts are kept."
    return text


def decided(decision: str, agent: str, *, goes_on: bool) -> str:
    """The preview after a request was settled; ``goes_on``: the turn continues."""
    word = _DECISIONS[decision]
    return f"{word}, {agent} continues" if goes_on else word


def rolled_back(turns: int) -> str:
    """Codex took turns back and did not return what is left."""
    word = "The last turn was" if turns == 1 else f"The last {turns} turns were"
    return f"{word} taken back in the Codex thread. This transcript still shows what Codex does not know any more."


def fork_of(name: str) -> str:
    return f"{name[:_FORK_NAME_CHARACTERS]} (fork)"


def exited(agent: str) -> str:
    """Why a turn failed whose process ended without saying more."""
    return f"the {agent} process ended before the turn did"


def agents_line(running: int, done: int, failed: int) -> str:
    """``2 agents running``; ``3 agents done, 1 failed``."""
    if running:
        return f"{running} {_agents(running)} running"
    total = done + failed
    line = f"{total} {_agents(total)} done"
    return f"{line}, {failed} failed" if failed else line


def images_line(count: int) -> str:
    return "1 image attached" if count == 1 else f"{count} images attached"


def _agents(count: int) -> str:
    return "agent" if count == 1 else "agents"
