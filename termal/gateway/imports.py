"""Bringing a worker's changes back into the workspace: not built yet. Its paths say so and read nothing."""

from typing import Any, NoReturn

from falcon.asgi import Request, Response

from termal.wire.errors import NotImplementedYet


class _Unbuilt:
    def _refuse(self) -> NoReturn:
        raise NotImplementedYet(
            "importing the changes of a delegation is not built yet: its worktree can be read with git",
            reason="importNotImplemented",
        )


class UnbuiltRead(_Unbuilt):
    async def on_get(self, req: Request, resp: Response, session_id: str, delegation_id: str) -> None:
        self._refuse()


class UnbuiltWrite(_Unbuilt):
    async def on_post(self, req: Request, resp: Response, session_id: str, delegation_id: str) -> None:
        self._refuse()


class UnbuiltImport(UnbuiltRead, UnbuiltWrite):
    pass


def import_routes(delegation: str) -> dict[str, Any]:
    """By path below ``delegation``, the path of one."""
    return {
        f"{delegation}/import": UnbuiltImport(),
        f"{delegation}/import/diff": UnbuiltRead(),
        f"{delegation}/import/undo": UnbuiltWrite(),
        f"{delegation}/worktree/remove": UnbuiltWrite(),
    }
