"""``termal tail``: the newest messages of a session, and what comes after them."""

from typing import Annotated

import typer

from termal.cli.console import BaseUrl, Home, Json, Session, command_app, say, say_json, say_json_line
from termal.cli.daemon import connect
from termal.cli.printer import Printer, lines_of
from termal.client.follow import WINDOW, follow

app = command_app()


@app.command()
def tail(
    session: Session,
    *,
    lines: Annotated[int, typer.Option("--messages", "-n", min=1, max=WINDOW, help="How many messages.")] = 10,
    follow_on: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes; end with Ctrl-C.")] = False,
    home: Home = None,
    base_url: BaseUrl = None,
    as_json: Json = False,
) -> None:
    """Show the newest messages of a session. With --follow --json each change is one line of JSON."""
    with connect(home, base_url) as http:
        if not follow_on:
            reply = http.read_session(session, lines)
            if as_json:
                say_json(reply)
            else:
                for message in reply.session.messages:
                    say("\n".join(lines_of(message)))
            return
        printer = Printer(session)
        for update in follow(http, session, tail=lines):
            if as_json:
                say_json_line(update)
            else:
                printer.show(update)
        printer.finish()
