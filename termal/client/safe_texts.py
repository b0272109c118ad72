"""Which words of a failure a packet may carry: agents and logs read packets, and a daemon's sentence may name paths."""

import re

from termal.client.failure import ApiFailed

_AGREED = re.compile(
    r"parent session id must (be a string|be non-empty|not contain /, \?, #, or control characters)"
    r"|prompt must (be a string|be non-empty|be no larger than 65536 bytes)"
    r"|(title|cwd|agent|model|mode|writePolicy) must be omitted instead of null"
    r"|(title|model) must be no longer than 200 characters"
    r"|spawn_reviewer_batch (requests must be an array|requires at least one reviewer|accepts at most 4 reviewers)"
    r"|reviewer request [1-9][0-9]* must be an object"
)
_BACKEND = re.compile(
    r"delegation wait accepts at most 10 delegation ids"
    r"|delegation wait title must be at most 200 characters"
    r"|delegation [A-Za-z0-9-]+ does not belong to parent session [A-Za-z0-9-]+"
)
SAFE_REASONS = frozenset(
    {
        "parentIdRequired",
        "promptEmpty",
        "promptTooLarge",
        "titleTooLong",
        "modelTooLong",
        "workerNotImplemented",
        "sharedWorktreeNotImplemented",
        "sessionNotFound",
        "remoteSessionNotImplemented",
        "cwdTooLong",
        "cwdForbiddenForm",
        "unknownProject",
        "remoteProjectNotImplemented",
        "reviewerAgentUnsupported",
        "nestedReviewerUnsupported",
        "readOnlyAgentUnsupported",
        "modelInvalid",
        "activeLimit",
        "depthLimit",
        "delegationNotFound",
        "resultNotAvailable",
        "outputLimitOutOfRange",
        "outputOffsetInvalid",
        "waitIdEmpty",
        "waitNoIds",
        "waitTooManyIds",
        "waitTitleTooLong",
        "waitParentArchived",
        "waitForeignDelegation",
        "followupEmpty",
        "stillRunning",
        "delegationCanceled",
        "childRemoved",
        "delegationNotStartable",
    }
)
"""Rules whose sentences name ids and limits only."""
_GENERIC = {
    "spawn-failed": "The delegation could not be spawned.",
    "status-fetch-failed": "The status of a delegation could not be fetched.",
    "resume-wait-failed": "The resume wait could not be scheduled.",
}


def is_agreed(text: str) -> bool:
    """Whether it is one of the sentences that a check of a spawn is agreed to give."""
    return _AGREED.fullmatch(text) is not None


def safe_message(kind: str, failure: ApiFailed | None) -> str:
    """The failure's own sentence if it is safe, else one for all failures of this kind."""
    if failure is None:
        return _GENERIC[kind]
    if failure.kind == "backend-unavailable":
        return "The TermAl daemon cannot be reached."
    if failure.reason == "unknownPath":
        return "The TermAl daemon does not know this route: restart it after an update."
    # A sentence with a path in it is not safe whatever its reason is.
    if (failure.reason in SAFE_REASONS and "/" not in failure.text) or _BACKEND.fullmatch(failure.text):
        return failure.text
    return _GENERIC[kind]
