"""What the interface description says of each route: one row per method and path. A route without its row fails a test.

Shapes come from the records that the gateway decodes and state encodes; what is said here is only what no record
knows. Rows of a subject may stand in a module of their own.
"""

from functools import reduce
from operator import or_
from typing import Any

from termal.gateway.bodies import PromptBody, SessionBody
from termal.gateway.health import HealthReply
from termal.gateway.openapi_agents import AGENT_DOCS
from termal.gateway.openapi_board import BOARD_DOCS
from termal.gateway.openapi_codex import CODEX_DOCS
from termal.gateway.openapi_delegations import DELEGATION_DOCS
from termal.gateway.openapi_doc import SESSION, Described, Doc, choice, number, words
from termal.gateway.openapi_imports import IMPORT_DOCS
from termal.gateway.openapi_mail import MAIL_DOCS
from termal.gateway.openapi_transcripts import TRANSCRIPT_DOCS
from termal.model import delta
from termal.model.files import FilesChanged
from termal.model.reply import CreateSessionResponse, HistoryResponse, SessionResponse, StateResponse
from termal.model.status import DaemonStatus
from termal.rules.history_page import PAGE_MESSAGES, RESIDENT_MESSAGES, TAIL_MESSAGES


def _leaves(kind: type[Any]) -> list[type[Any]]:
    """The subclasses of ``kind`` that have none of their own."""
    below = kind.__subclasses__()
    return [leaf for inner in below for leaf in _leaves(inner)] if below else [kind]


DELTAS: Any = reduce(or_, _leaves(delta.AnyDelta))
"""Every delta of the catalogue."""

DOCS: dict[tuple[str, str], Doc] = {
    # ---------------------------------------------------------------- daemon
    ("GET", "/api/health"): Doc(
        operation="readHealth",
        tag="daemon",
        summary="Whether the daemon can read and write",
        reply=HealthReply,
        also={503: "Nothing can be read or written now."},
        asks=False,
    ),
    ("GET", "/api/status"): Doc(
        operation="readStatus",
        tag="daemon",
        summary="Processes, databases, agents and counts",
        reply=DaemonStatus,
        asks=False,
    ),
    ("GET", "/metrics"): Doc(
        operation="readMetrics",
        tag="daemon",
        summary="The figures of the daemon for Prometheus",
        media="text/plain",
        asks=False,
    ),
    ("GET", "/api/openapi.json"): Doc(
        operation="readDescription",
        tag="daemon",
        summary="This description",
        reply=Described,
        asks=False,
    ),
    # ----------------------------------------------------------------- state
    ("GET", "/api/state"): Doc(
        operation="readState",
        tag="state",
        summary="Everything but transcripts",
        description="Sessions are summaries without messages. It is what a client repairs a gap of its events with.",
        reply=StateResponse,
    ),
    ("GET", "/api/events"): Doc(
        operation="followEvents",
        tag="state",
        summary="The stream of server-sent events",
        description=(
            "It begins with a `state`; after it come the changes in the order of their revisions. A client that is too "
            "slow gets `lagged` and a fresh `state`. A comment line comes at least every 15 s. There are no event ids: "
            "whoever connects again starts from a snapshot. `workspaceFilesChanged` is a hint, with its own counter, "
            "and may get lost. `x-events` has the schema of each event's data."
        ),
        media="text/event-stream",
        refusals=(429,),
        asks=False,
        events={"state": StateResponse, "delta": DELTAS, "workspaceFilesChanged": FilesChanged, "lagged": int},
    ),
    # -------------------------------------------------------------- sessions
    ("POST", "/api/sessions"): Doc(
        operation="createSession",
        tag="sessions",
        summary="Make a session",
        description="A setting of another agent is refused; one that is left out gets its default.",
        body=SessionBody,
        reply=CreateSessionResponse,
        status=201,
        keyed=True,
        example={"agent": "Demo", "name": "First"},
        gives={"session_id": "/sessionId"},
    ),
    ("GET", SESSION): Doc(
        operation="readSession",
        tag="sessions",
        summary="A session with its newest messages",
        query=(number("tail", "How many of the newest messages", 1, RESIDENT_MESSAGES, default=TAIL_MESSAGES),),
        reply=SessionResponse,
    ),
    ("GET", f"{SESSION}/history"): Doc(
        operation="readHistory",
        tag="sessions",
        summary="A page of the transcript, ascending",
        description="At most one of `before`, `after`, `around` and `from`; without one the newest page.",
        query=(
            words("before", "The id of a message: the page that ends before it"),
            words("after", "The id of a message: the page that begins after it"),
            number("around", "A position: the page with it in its middle", 0),
            choice("from", "The page at the start", "start"),
            number("limit", "How many messages", 1, PAGE_MESSAGES, default=PAGE_MESSAGES),
        ),
        reply=HistoryResponse,
        refusals=(409,),
    ),
    ("POST", f"{SESSION}/messages"): Doc(
        operation="sendPrompt",
        tag="sessions",
        summary="Send a prompt",
        description=(
            "It starts a turn, or waits in the queue while one runs. 500 with the reason `runtimeRefused`: the prompt "
            "is in the transcript, and the agent did not take it."
        ),
        body=PromptBody,
        reply=StateResponse,
        status=202,
        keyed=True,
        refusals=(409, 501),
        example={"text": "say Hello"},
    ),
    ("POST", f"{SESSION}/queued-prompts/{{prompt_id}}/cancel"): Doc(
        operation="cancelPrompt",
        tag="sessions",
        summary="Take a queued prompt back",
        reply=StateResponse,
    ),
    ("POST", f"{SESSION}/stop"): Doc(
        operation="stopSession",
        tag="sessions",
        summary="Stop the running turn",
        description="The next queued prompt starts in the same commit.",
        reply=StateResponse,
        refusals=(409,),
    ),
    ("POST", f"{SESSION}/kill"): Doc(
        operation="killSession",
        tag="sessions",
        summary="Remove a session with everything that it delegated",
        reply=StateResponse,
    ),
    **AGENT_DOCS,
    **CODEX_DOCS,
    **DELEGATION_DOCS,
    **IMPORT_DOCS,
    **TRANSCRIPT_DOCS,
    **BOARD_DOCS,
    **MAIL_DOCS,
}
