"""Projects: made, found again under the same root, deleted. Their sessions stay."""

from falcon.asgi import Request, Response

from termal.gateway.bodies import Body, read_body
from termal.gateway.resource import Resource
from termal.model.stored import LOCAL_REMOTE
from termal.wire.settings_operations import PROJECT_CREATE, PROJECT_DELETE, CreateProject, OneProject


class ProjectBody(Body, frozen=True):
    root_path: str
    name: str | None = None
    remote_id: str | None = None


class Projects(Resource):
    async def on_post(self, req: Request, resp: Response) -> None:
        body = await read_body(req, ProjectBody)
        remote_id = LOCAL_REMOTE if body.remote_id is None else body.remote_id
        request = CreateProject(root_path=body.root_path, name=body.name, remote_id=remote_id)
        await self.forward(req, resp, PROJECT_CREATE, request, 201)


class Project(Resource):
    async def on_delete(self, req: Request, resp: Response, project_id: str) -> None:
        await self.forward(req, resp, PROJECT_DELETE, OneProject(project_id))
