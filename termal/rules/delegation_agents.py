"""Which agent may do which delegated work, with which settings, and how surely its write policy is kept."""

from typing import NamedTuple

from termal.model.delegation import Enforcement, Mode, PolicyKind
from termal.rules.settings import MODEL_CHARS
from termal.rules.verdicts import Bad

REVIEWERS = ("Claude", "Codex")
"""Agents whose permission protocol says which tool asks: only they can be let through to hand in a review."""


_HIDDEN = {"OpenCode": (".opencode", "opencode.json", "opencode.jsonc")}
"""OpenCode (1.18 at least) runs a repository's plugins even where it is told to leave its settings alone."""


class Work(NamedTuple):
    """``parent_is_child``: the session that asks is itself delegated. ``demo_reviews``: the bundled agent may review,
    which only tests need."""

    agent: str
    mode: Mode
    kind: PolicyKind
    parent_is_child: bool = False
    demo_reviews: bool = False


def check_agent(work: Work) -> None:
    """Raises `Bad`, before anything is made."""
    if work.mode == "reviewer":
        if work.agent not in REVIEWERS and not (work.agent == "Demo" and work.demo_reviews):
            raise Bad(
                f"{work.agent} cannot review: ask {' or '.join(REVIEWERS)}, or use the mode explorer",
                reason="reviewerAgentUnsupported",
            )
        if work.parent_is_child:
            raise Bad(
                "a delegated session cannot ask for a reviewer: use the mode explorer",
                reason="nestedReviewerUnsupported",
            )
    if work.agent == "OpenCode" and work.kind == "readOnly":
        raise Bad("OpenCode does not keep a read-only policy: use isolatedWorktree", reason="readOnlyAgentUnsupported")


def check_model(agent: str, model: str) -> None:
    """Raises `Bad` for a model that this agent would be started wrongly with."""
    bad = not model or len(model) > MODEL_CHARS or any(char < " " or "\x7f" <= char <= "\x9f" for char in model)
    if agent == "OpenCode" and bad:
        raise Bad(f"the model must have 1 to {MODEL_CHARS} characters, none of control", reason="modelInvalid")


def child_settings(agent: str, kind: PolicyKind) -> dict[str, str]:
    """Settings of a child under their wire names, over the defaults of its agent."""
    if agent == "Codex":
        # Under the policy ``never`` the program would refuse every call of a tool, the handing in of a review too.
        sandbox = "read-only" if kind == "readOnly" else "workspace-write"
        return {"sandboxMode": sandbox, "approvalPolicy": "on-request"}
    if agent == "Claude":
        return {"claudeApprovalMode": "read-only-auto-approve"} if kind == "readOnly" else {}
    if agent == "Cursor":
        return {"cursorMode": "plan"}
    if agent == "Gemini":
        return {"geminiApprovalMode": "plan"}
    return {}


def enforcement(agent: str, kind: PolicyKind, *, kernel_sandbox: bool) -> Enforcement:
    """``guaranteed`` only where a sandbox of the kernel keeps the policy; an agent's own word is a request."""
    kept = agent == "Codex" and kernel_sandbox and kind != "sharedWorktree"
    return "guaranteed" if kept else "requested"


def hidden_from(agent: str) -> tuple[str, ...]:
    """What a worktree must not show to a child of ``agent``: it would run code that the repository holds there."""
    return _HIDDEN.get(agent, ())
