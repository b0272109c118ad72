"""Rows of the interface description for what concerns agents: requests, settings, commands, projects, defaults."""

from termal.gateway.agent_commands import ResolveBody
from termal.gateway.bodies import DecisionBody
from termal.gateway.interactions import AnswersBody, ElicitationBody, ResultBody
from termal.gateway.openapi_doc import SESSION, Doc
from termal.gateway.preferences import PreferencesBody
from termal.gateway.projects import ProjectBody
from termal.gateway.session_settings import SettingsBody
from termal.model.agent_command import AgentCommandsResponse, ResolvedCommand
from termal.model.reply import AgentsResponse, CreateProjectResponse, StateResponse

AGENT_DOCS: dict[tuple[str, str], Doc] = {
    ("POST", f"{SESSION}/approvals/{{message_id}}"): Doc(
        operation="answerApproval",
        tag="interactions",
        summary="Answer an agent that asks for permission",
        description="`pending`, `interrupted` and `canceled` are set by the daemon alone and answered with 400.",
        body=DecisionBody,
        reply=StateResponse,
        refusals=(409,),
        example={"decision": "accepted"},
    ),
    ("POST", f"{SESSION}/user-input/{{message_id}}"): Doc(
        operation="answerQuestions",
        tag="interactions",
        summary="Answer an agent's questions",
        description="Exactly one text for each question; the transcript keeps no secret answer.",
        body=AnswersBody,
        reply=StateResponse,
        refusals=(403, 409),
        example={"answers": {"color": ["red"]}},
    ),
    ("POST", f"{SESSION}/mcp-elicitation/{{message_id}}"): Doc(
        operation="answerElicitation",
        tag="interactions",
        summary="Answer an MCP server that asks through its agent",
        description="`content` is what a form is filled in with when it is accepted, checked against its schema.",
        body=ElicitationBody,
        reply=StateResponse,
        refusals=(403, 409),
        example={"action": "accept", "content": {"branch": "main"}},
    ),
    ("POST", f"{SESSION}/codex/requests/{{message_id}}"): Doc(
        operation="answerAppRequest",
        tag="interactions",
        summary="Answer a request of an agent's own protocol",
        description="Any JSON of at most 64 KiB without spaces and 32 levels.",
        body=ResultBody,
        reply=StateResponse,
        refusals=(403, 409),
        example={"result": {"ok": True}},
    ),
    # ---------------------------------------- settings, projects, commands
    ("POST", f"{SESSION}/settings"): Doc(
        operation="changeSettings",
        tag="sessions",
        summary="Change the settings of a session",
        description="All of them or none; they count from the next turn. A setting of another agent is refused.",
        body=SettingsBody,
        reply=StateResponse,
        refusals=(403, 409, 501),
        example={"name": "Second"},
    ),
    ("POST", f"{SESSION}/model-options/refresh"): Doc(
        operation="refreshModels",
        tag="sessions",
        summary="Ask the agent which models it has",
        description="At most 30 s. 400 when the agent has no list.",
        reply=StateResponse,
        refusals=(409, 501),
    ),
    ("GET", f"{SESSION}/agent-commands"): Doc(
        operation="listCommands",
        tag="sessions",
        summary="The commands that can be typed in a session",
        reply=AgentCommandsResponse,
        refusals=(501,),
    ),
    ("POST", f"{SESSION}/agent-commands/{{name}}/resolve"): Doc(
        operation="resolveCommand",
        tag="sessions",
        summary="The prompt that a command stands for",
        description="It sends nothing.",
        body=ResolveBody,
        reply=ResolvedCommand,
        refusals=(501,),
        example={"arguments": "src"},
    ),
    ("GET", "/api/agents"): Doc(
        operation="listAgents",
        tag="agents",
        summary="Which agents can be used",
        description="`detail` says what to do about an agent, also about one that ends right after each start.",
        reply=AgentsResponse,
    ),
    ("POST", "/api/agents/{agent}/retry"): Doc(
        operation="retryAgent",
        tag="agents",
        summary="Let an agent be started again that ended right after its last starts",
        description="It is started with its next prompt.",
        reply=AgentsResponse,
    ),
    ("POST", "/api/projects"): Doc(
        operation="createProject",
        tag="projects",
        summary="Make a project",
        description="The same root again is the same project.",
        body=ProjectBody,
        reply=CreateProjectResponse,
        status=201,
        refusals=(501,),
        example={"rootPath": "/srv/project"},
        gives={"project_id": "/projectId"},
    ),
    ("DELETE", "/api/projects/{project_id}"): Doc(
        operation="deleteProject",
        tag="projects",
        summary="Delete a project; its sessions stay",
        reply=StateResponse,
    ),
    ("POST", "/api/settings"): Doc(
        operation="changePreferences",
        tag="projects",
        summary="Change the defaults of new sessions and the list of other daemons",
        body=PreferencesBody,
        reply=StateResponse,
        example={"defaultClaudeEffort": "high"},
    ),
}
