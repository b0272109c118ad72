"""What clients ask of `state` about sessions, transcripts, prompts and interactions."""

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from termal.rules.history_page import PAGE_MESSAGES, TAIL_MESSAGES
from termal.wire.facts import StateFacts
from termal.wire.operation import read, write
from termal.wire.turns import Anything, JsonReply, TurnConfirmed, TurnReport


class Snapshot(msgspec.Struct, frozen=True):
    """The body of ``GET /api/state`` with the place in the event stream that it stands at."""

    json: bytes
    epoch: str
    number: int
    revision: int


class CreateSession(msgspec.Struct, frozen=True, kw_only=True):
    """``key`` makes a repeat answer with the session that the first attempt made. ``settings`` are wire names."""

    key: str
    agent: str = "Codex"
    name: str | None = None
    workdir: str | None = None
    project_id: str | None = None
    model: str | None = None
    settings: dict[str, str] = {}


class ReadSession(msgspec.Struct, frozen=True):
    session_id: str
    tail: int = TAIL_MESSAGES


class ReadHistory(msgspec.Struct, frozen=True, kw_only=True):
    session_id: str
    before: str | None = None
    after: str | None = None
    around: int | None = None
    from_start: bool = False
    limit: int = PAGE_MESSAGES


class PromptImage(msgspec.Struct, frozen=True):
    """An image of a prompt: raw bytes, already decoded from base64 by the gateway."""

    data: bytes
    media_type: str
    file_name: str | None = None


class SendPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """``key`` makes a repeat find the first attempt in the session's newest prompts."""

    key: str
    session_id: str
    text: str
    expanded_text: str | None = None
    attachments: list[PromptImage] = []
    source_session_id: str | None = None


class CancelPrompt(msgspec.Struct, frozen=True):
    session_id: str
    prompt_id: str


class OneSession(msgspec.Struct, frozen=True):
    session_id: str


class AnswerApproval(msgspec.Struct, frozen=True):
    session_id: str
    message_id: str
    decision: str


class CoordinationReady(msgspec.Struct, frozen=True):
    """Coordination tells each new state the highest ``session-{n}`` that its database knows, 0 for none."""

    highest_session: int


class AskEligibility(msgspec.Struct, frozen=True):
    session_ids: list[str]


class Eligibility(msgspec.Struct, frozen=True):
    """One session as mail sees it: its root predicate now, from live records. ``verdict`` is "" for an eligible root,
    else the exact rule's word (``unknown``, ``hidden``, ``remote``, ``delegated``)."""

    session_id: str
    verdict: str
    name: str = ""
    project_id: str | None = None
    project_kind: str | None = None


class Eligibilities(msgspec.Struct, frozen=True):
    sessions: list[Eligibility]


class WriteLock(msgspec.Struct, frozen=True):
    """``locked``: nothing may be written where the session works; see `docs/delegations.md`."""

    locked: bool


class ReadOverview(msgspec.Struct, frozen=True):
    session_id: str
    buckets: int = 200


class CreateMarker(msgspec.Struct, frozen=True, kw_only=True):
    """``marker_id`` is new; a repeat is answered with the marker that the first attempt made."""

    session_id: str
    marker_id: str
    kind: str
    name: str
    color: str
    message_id: str
    body: str | None = None
    end_message_id: str | None = None


class UpdateMarker(msgspec.Struct, frozen=True, kw_only=True):
    """What is left out stays as it is; ``None`` clears."""

    session_id: str
    marker_id: str
    kind: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    color: str | UnsetType = UNSET
    message_id: str | UnsetType = UNSET
    body: str | UnsetType | None = UNSET
    end_message_id: str | UnsetType | None = UNSET


class OneMarker(msgspec.Struct, frozen=True):
    session_id: str
    marker_id: str


class AnswerQuestions(msgspec.Struct, frozen=True):
    """``answers`` by question id. They may be secrets: never logged."""

    session_id: str
    message_id: str
    answers: dict[str, list[str]]


class AnswerElicitation(msgspec.Struct, frozen=True):
    """``content`` is JSON, None when there is none."""

    session_id: str
    message_id: str
    action: Literal["accept", "decline", "cancel"]
    content: bytes | None = None


class AnswerAppRequest(msgspec.Struct, frozen=True):
    """``result`` is JSON without spaces."""

    session_id: str
    message_id: str
    result: bytes


STATE_FACTS = read("state.facts", Anything, StateFacts)
STATE_SNAPSHOT = read("state.snapshot", Anything, Snapshot)
SESSION_CREATE = write("session.create", CreateSession, JsonReply, repeatable=True)
SESSION_READ = read("session.read", ReadSession, JsonReply)
SESSION_HISTORY = read("session.history", ReadHistory, JsonReply)
SESSION_STOP = write("session.stop", OneSession, JsonReply, repeatable=False, timeout_s=15.0)
SESSION_KILL = write("session.kill", OneSession, JsonReply, repeatable=False)
PROMPT_SEND = write("prompt.send", SendPrompt, JsonReply, repeatable=True)
PROMPT_CANCEL = write("prompt.cancel", CancelPrompt, JsonReply, repeatable=False)
APPROVAL_ANSWER = write("approval.answer", AnswerApproval, JsonReply, repeatable=False)
SESSION_ELIGIBILITY = read("session.eligibility", AskEligibility, Eligibilities)
COORDINATION_READY = write("coordination.ready", CoordinationReady, Anything, repeatable=True, timeout_s=None)
TURN_REPORT = write("turn.report", TurnReport, TurnConfirmed, repeatable=True, timeout_s=None)
LOCK_READ = read("lock.read", OneSession, WriteLock)
SESSION_OVERVIEW = read("session.overview", ReadOverview, JsonReply)
MARKER_LIST = read("marker.list", OneSession, JsonReply)
MARKER_CREATE = write("marker.create", CreateMarker, JsonReply, repeatable=True)
MARKER_UPDATE = write("marker.update", UpdateMarker, JsonReply, repeatable=True)
MARKER_DELETE = write("marker.delete", OneMarker, JsonReply, repeatable=False)
QUESTIONS_ANSWER = write("questions.answer", AnswerQuestions, JsonReply, repeatable=False)
ELICITATION_ANSWER = write("elicitation.answer", AnswerElicitation, JsonReply, repeatable=False)
APP_REQUEST_ANSWER = write("apprequest.answer", AnswerAppRequest, JsonReply, repeatable=False)
