"""Token authentication: whose token a request carries, and whether it opens the path. Off unless configured."""

from typing import Protocol

from termal.gateway.scope import judge
from termal.tokens import Holder, holder_of
from termal.wire.errors import Forbidden
from termal.wire.operation import Operation
from termal.wire.session_operations import SESSION_ELIGIBILITY, AskEligibility, Eligibilities

OWNER = Holder(None)
_SCHEME = b"bearer "


class AsksState(Protocol):
    """The gateway's way to the workers (`termal.gateway.context.Gateway`)."""

    async def ask(
        self,
        worker: str,
        op: Operation[AskEligibility, Eligibilities],
        request: AskEligibility,
        *,
        trace: str,
    ) -> Eligibilities: ...


class Access:
    """``owner_token`` None: every request is the owner's."""

    def __init__(self, gateway: AsksState, owner_token: str | None) -> None:
        self._gateway = gateway
        self._owner_token = owner_token

    @property
    def needs_token(self) -> bool:
        return self._owner_token is not None

    async def admit(self, authorization: bytes | None, method: str, raw_path: str, trace: str) -> Holder:
        """Whose request this is. Raises `Forbidden` without a token of this daemon, or beyond what the token opens."""
        if self._owner_token is None:
            return OWNER
        holder = self._holder(authorization)
        if holder.session_id is not None:
            await self._within(holder.session_id, method, raw_path, trace)
        return holder

    def _holder(self, authorization: bytes | None) -> Holder:
        assert self._owner_token is not None
        if authorization is None or authorization[: len(_SCHEME)].lower() != _SCHEME:
            raise Forbidden("this daemon asks for a token: Authorization: Bearer <token>", reason="tokenMissing")
        holder = holder_of(self._owner_token, authorization[len(_SCHEME) :].strip().decode("latin-1"))
        if holder is None:
            raise Forbidden("this token is none of this daemon", reason="tokenUnknown")
        return holder

    async def _within(self, session_id: str, method: str, raw_path: str, trace: str) -> None:
        verdict = judge(session_id, method, raw_path)
        if verdict == "closed":
            raise Forbidden("the token of a session opens that session's own routes alone", reason="tokenScope")
        if verdict == "peers":
            reply = await self._gateway.ask("state", SESSION_ELIGIBILITY, AskEligibility([session_id]), trace=trace)
            if any(found.verdict == "delegated" for found in reply.sessions):
                raise Forbidden("mailboxes and boards are for root sessions", reason="tokenScope")
