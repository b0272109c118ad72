"""Which board a session may use: that of its local project, and of no other."""

from termal.rules.board_field import checked_text
from termal.rules.mail import refused_session
from termal.rules.verdicts import Bad


def board_of(verdict: str, project_id: str | None, project_kind: str | None) -> str:
    """The scope of a session with that eligibility. Raises `Missing` for an unknown session, `Bad` for one without."""
    refused = refused_session("the session", verdict)
    if refused is not None:
        raise refused
    if project_id is None:
        raise Bad("the session is in no project: a board belongs to one", reason="noProject")
    if project_kind is None:
        raise Bad("the project of the session is unknown", reason="unknownProject")
    if project_kind != "local":
        raise Bad("the project of the session is remote: remote boards are not supported", reason="remoteProject")
    return checked_text(project_id, "the id of the project")
