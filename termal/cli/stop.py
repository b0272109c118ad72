"""``termal stop``: interrupt the running turn of a session."""

from termal.cli.console import BaseUrl, Home, Json, Session, command_app, say, say_json
from termal.cli.daemon import connect

app = command_app()


@app.command()
def stop(session: Session, home: Home = None, base_url: BaseUrl = None, as_json: Json = False) -> None:
    """Interrupt the running turn. The session stays; its next queued prompt starts."""
    with connect(home, base_url) as http:
        found = http.stop(session).session(session)
    if as_json:
        say_json({"sessionId": session, "status": found.status})
    else:
        say(f"{session} stopped, now {found.status}")
