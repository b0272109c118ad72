"""``termal kill``: remove a session."""

from termal.cli.console import BaseUrl, Home, Json, Session, command_app, say, say_json
from termal.cli.daemon import connect

app = command_app()


@app.command()
def kill(session: Session, home: Home = None, base_url: BaseUrl = None, as_json: Json = False) -> None:
    """Remove a session with its transcript, its agent process and all sessions delegated by it, for good."""
    with connect(home, base_url) as http:
        left = http.kill(session).sessions
    if as_json:
        say_json({"sessionId": session, "sessionsLeft": len(left)})
    else:
        say(f"{session} removed")
