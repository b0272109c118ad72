"""``termal approve``: the answer to what an agent asks permission for."""

from typing import Annotated

import typer

from termal.cli.console import BaseUrl, Home, Json, Session, command_app, fail, say, say_json
from termal.cli.daemon import connect
from termal.client.follow import WINDOW
from termal.model.message import Approval, CodexAppRequest, ElicitationRequest, UserInputRequest

INTERACTIONS = (UserInputRequest, ElicitationRequest, CodexAppRequest)
app = command_app()


@app.command()
def approve(
    session: Session,
    *,
    message: Annotated[
        str | None, typer.Option(metavar="ID", help="Which question (else the oldest open one).")
    ] = None,
    reject: Annotated[bool, typer.Option("--reject", help="Say no.")] = False,
    always: Annotated[bool, typer.Option("--always", help="Say yes for the rest of the session.")] = False,
    home: Home = None,
    base_url: BaseUrl = None,
    as_json: Json = False,
) -> None:
    """Answer the permission question that a session waits for: yes, unless told otherwise."""
    if reject and always:
        fail("--reject and --always exclude each other", 2)
    decision = "rejected" if reject else "acceptedForSession" if always else "accepted"
    with connect(home, base_url) as http:
        found = http.read_session(session, WINDOW).session
        open_ones = [one for one in found.messages if isinstance(one, Approval) and one.decision == "pending"]
        asked = next((one for one in open_ones if message in (None, one.id)), None)
        if asked is None:
            others = [one for one in found.messages if isinstance(one, INTERACTIONS) and one.state == "pending"]
            if others:
                fail(f"{session} asks something else than permission: termal answer {session}")
            fail(f"{session} waits for no answer" + (f" to {message}" if message else ""))
        changed = http.answer_approval(session, asked.id, decision)
    if as_json:
        say_json(
            {
                "sessionId": session,
                "messageId": asked.id,
                "decision": decision,
                "status": changed.session(session).status,
            }
        )
    else:
        say(f"{decision}: {asked.command or asked.title}")
