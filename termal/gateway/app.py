"""The Falcon application: its routes, its life, and the one place where an error becomes a reply."""

from typing import Any

import falcon
import falcon.asgi
from falcon.asgi import Request, Response

from termal.gateway.access import Access
from termal.gateway.agent_commands import AgentCommand, AgentCommands
from termal.gateway.agents import AgentRetry, Agents
from termal.gateway.board import Board, BoardKey, BoardSet
from termal.gateway.census import Census
from termal.gateway.codex_threads import thread_routes
from termal.gateway.context import Gateway
from termal.gateway.delegation_waits import DelegationAudit, DelegationReview, DelegationWaits
from termal.gateway.delegations import (
    CancelDelegation,
    Capacity,
    Delegation,
    DelegationOutput,
    DelegationResult,
    Delegations,
    FollowUpDelegation,
)
from termal.gateway.door import Door
from termal.gateway.events import Events
from termal.gateway.export import Export
from termal.gateway.guards import Guards
from termal.gateway.health import Health
from termal.gateway.import_session import Import
from termal.gateway.imports import import_routes
from termal.gateway.interactions import AppRequest, Elicitation, UserInput
from termal.gateway.mailboxes import (
    AcknowledgeMailbox,
    Mailboxes,
    MailboxMessage,
    MailboxPage,
    SendMessage,
    SentMessages,
)
from termal.gateway.markers import Marker, Markers
from termal.gateway.metrics import Metrics
from termal.gateway.openapi import OpenApi
from termal.gateway.overview import Overview
from termal.gateway.preferences import Preferences
from termal.gateway.projects import Project, Projects
from termal.gateway.refusal import JSON, MethodNotAllowed, error_headers, error_json
from termal.gateway.route import Segment, visit_of
from termal.gateway.search import Search
from termal.gateway.session_settings import ModelOptions, SessionSettings
from termal.gateway.sessions import Approval, History, Kill, Messages, QueuedPrompt, Session, Sessions, Stop
from termal.gateway.state import State
from termal.gateway.status import Status
from termal.tokens import read_owner_token
from termal.wire.errors import InvalidRequest, NotFound, TermalError

_SESSION = "/api/sessions/{session_id:segment}"
_DELEGATION = f"{_SESSION}/delegations/{{delegation_id:segment}}"


def make_app(gateway: Gateway) -> Door:
    """The whole application; it opens its links to the workers when the server starts it."""
    census = Census(gateway)
    middleware: list[Any] = [_Life(gateway, census), _Routes()]
    app: falcon.asgi.App[Request, Response] = falcon.asgi.App(middleware=middleware)
    app.router_options.converters["segment"] = Segment
    app.req_options.keep_blank_qs_values = True
    app.add_error_handler(Exception, _failed)
    app.add_error_handler(falcon.HTTPError, _framework_error)
    app.add_error_handler(TermalError, _refused)
    for path, resource in _routes(gateway, census).items():
        app.add_route(path, resource)
    guards = Guards(gateway.launch.host, gateway.launch.port)
    owner_token = read_owner_token(gateway.home.owner_token) if gateway.launch.auth == "token" else None
    if gateway.launch.auth == "token" and owner_token is None:
        raise FileNotFoundError(gateway.home.owner_token.name)
    return Door(app, guards, gateway.meters, gateway.stats, gateway.log, access=Access(gateway, owner_token))


def _routes(gateway: Gateway, census: Census) -> dict[str, Any]:
    return {
        "/api/health": Health(gateway, census),
        "/api/status": Status(census),
        "/metrics": Metrics(gateway, census),
        "/api/openapi.json": OpenApi(),
        "/api/state": State(gateway),
        "/api/events": Events(gateway),
        "/api/sessions": Sessions(gateway),
        _SESSION: Session(gateway),
        f"{_SESSION}/history": History(gateway),
        f"{_SESSION}/overview": Overview(gateway),
        f"{_SESSION}/markers": Markers(gateway),
        f"{_SESSION}/markers/{{marker_id:segment}}": Marker(gateway),
        f"{_SESSION}/messages": Messages(gateway),
        f"{_SESSION}/queued-prompts/{{prompt_id:segment}}/cancel": QueuedPrompt(gateway),
        f"{_SESSION}/stop": Stop(gateway),
        f"{_SESSION}/kill": Kill(gateway),
        f"{_SESSION}/approvals/{{message_id:segment}}": Approval(gateway),
        f"{_SESSION}/user-input/{{message_id:segment}}": UserInput(gateway),
        f"{_SESSION}/mcp-elicitation/{{message_id:segment}}": Elicitation(gateway),
        f"{_SESSION}/codex/requests/{{message_id:segment}}": AppRequest(gateway),
        **thread_routes(gateway, _SESSION),
        f"{_SESSION}/settings": SessionSettings(gateway),
        f"{_SESSION}/model-options/refresh": ModelOptions(gateway),
        f"{_SESSION}/agent-commands": AgentCommands(gateway),
        f"{_SESSION}/agent-commands/{{name:segment}}/resolve": AgentCommand(gateway),
        f"{_SESSION}/board": Board(gateway),
        f"{_SESSION}/board/keys/{{key:segment}}": BoardKey(gateway),
        f"{_SESSION}/board/set": BoardSet(gateway),
        f"{_SESSION}/mailboxes": Mailboxes(gateway),
        f"{_SESSION}/mailboxes/send": SendMessage(gateway),
        f"{_SESSION}/mailboxes/sent": SentMessages(gateway),
        f"{_SESSION}/mailboxes/{{mailbox_id:segment}}/read": MailboxPage(gateway),
        f"{_SESSION}/mailboxes/{{mailbox_id:segment}}/acknowledge": AcknowledgeMailbox(gateway),
        f"{_SESSION}/mailbox-messages/{{message_id:segment}}": MailboxMessage(gateway),
        f"{_SESSION}/delegations": Delegations(gateway),
        f"{_SESSION}/delegations/capacity": Capacity(gateway),
        _DELEGATION: Delegation(gateway),
        f"{_DELEGATION}/result": DelegationResult(gateway),
        f"{_DELEGATION}/result/output": DelegationOutput(gateway),
        f"{_DELEGATION}/cancel": CancelDelegation(gateway),
        f"{_DELEGATION}/followup": FollowUpDelegation(gateway),
        **import_routes(_DELEGATION),
        f"{_SESSION}/delegation-waits": DelegationWaits(gateway),
        f"{_SESSION}/delegation-review-result": DelegationReview(gateway),
        f"{_SESSION}/delegation-audit-events": DelegationAudit(gateway),
        "/api/agents": Agents(gateway),
        "/api/agents/{agent:segment}/retry": AgentRetry(gateway),
        "/api/projects": Projects(gateway),
        "/api/projects/{project_id:segment}": Project(gateway),
        "/api/settings": Preferences(gateway),
        "/api/search": Search(gateway),
        f"{_SESSION}/export": Export(gateway),
        "/api/sessions/import": Import(gateway),
    }


class _Life:
    """Start and end of the application within its server."""

    def __init__(self, gateway: Gateway, census: Census) -> None:
        self._gateway = gateway
        self._census = census

    async def process_startup(self, scope: dict[str, Any], event: dict[str, Any]) -> None:
        self._gateway.open()
        self._gateway.client("state").on_down.append(self._census.forget_instance)

    async def process_shutdown(self, scope: dict[str, Any], event: dict[str, Any]) -> None:
        self._gateway.close()


class _Routes:
    """Tells the visit which route it took, for figures and logs."""

    async def process_resource(self, req: Request, resp: Response, resource: object, params: dict[str, Any]) -> None:
        visit_of(req).route = (req.uri_template or "none").replace(":segment", "")


async def _failed(req: Request, resp: Response, error: Exception, params: dict[str, Any]) -> None:
    _reply(req, resp, visit_of(req).failed(error))


async def _refused(req: Request, resp: Response, error: TermalError, params: dict[str, Any]) -> None:
    _reply(req, resp, error)


async def _framework_error(req: Request, resp: Response, error: falcon.HTTPError, params: dict[str, Any]) -> None:
    if isinstance(error, falcon.HTTPNotFound):
        _reply(req, resp, NotFound("there is nothing at this path", reason="unknownPath"))
    elif isinstance(error, falcon.HTTPMethodNotAllowed):
        allowed = dict(error.headers or {}).get("Allow", "")
        _reply(req, resp, MethodNotAllowed(f"this path does not answer {req.method}", allowed))
    else:
        _reply(req, resp, InvalidRequest(error.title))


def _reply(req: Request, resp: Response, error: TermalError) -> None:
    visit = visit_of(req)
    visit.refused(error)
    resp.status_code = error.status
    resp.content_type = JSON
    # What a resource had begun to set up for its own reply goes no further.
    resp.stream, resp.text, resp.media = None, None, None
    resp.data = error_json(error, visit.request_id)
    for name, value in error_headers(error).items():
        resp.set_header(name, value)
