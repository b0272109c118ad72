"""Rows of the interface description for what is not built yet: importing the changes of a delegation."""

from termal.gateway.openapi_doc import SESSION, Doc
from termal.gateway.refusal import ErrorReply

_ONE = f"{SESSION}/delegations/{{delegation_id}}"


def _unbuilt(operation: str, summary: str) -> Doc:
    return Doc(
        operation=operation,
        tag="delegations",
        summary=summary,
        description="Not built yet: always 501 with the reason `importNotImplemented`.",
        reply=ErrorReply,
        status=501,
        asks=False,
    )


IMPORT_DOCS: dict[tuple[str, str], Doc] = {
    ("GET", f"{_ONE}/import"): _unbuilt("compareImport", "What importing the worktree of a delegation would do"),
    ("GET", f"{_ONE}/import/diff"): _unbuilt("readImportDiff", "The difference in one file"),
    ("POST", f"{_ONE}/import"): _unbuilt("applyImport", "Take changes of the worktree over into the workspace"),
    ("POST", f"{_ONE}/import/undo"): _unbuilt("undoImport", "Put back what an import changed"),
    ("POST", f"{_ONE}/worktree/remove"): _unbuilt("removeWorktree", "Remove the worktree of a delegation"),
}
