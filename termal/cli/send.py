"""``termal send``: a prompt to a session, and with ``--follow`` what the agent answers."""

from typing import Annotated

import typer

from termal.cli.console import (
    EXIT_FAILED,
    BaseUrl,
    Home,
    Json,
    Session,
    command_app,
    fail,
    read_input,
    say,
    say_json,
    say_json_line,
)
from termal.cli.daemon import connect
from termal.cli.printer import Printer
from termal.client.follow import WINDOW, follow
from termal.client.http import Http
from termal.client.transcript import Said, Shown, StatusIs, Update
from termal.model.message import Text
from termal.model.session import Session as SessionRecord

app = command_app()


@app.command()
def send(
    session: Session,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The prompt; '-' or nothing reads standard input.")] = "-",
    *,
    follow_on: Annotated[bool, typer.Option("--follow", "-f", help="Print the answer until the turn is over.")] = False,
    key: Annotated[
        str | None, typer.Option(help="A repeat with the same key is the same prompt: nothing is sent twice.")
    ] = None,
    home: Home = None,
    base_url: BaseUrl = None,
    as_json: Json = False,
) -> None:
    """Send a prompt. It is stored when this returns: running, or queued behind what runs."""
    prompt = read_input() if text == "-" else text
    if not prompt.strip():
        fail("the prompt is empty", 2)
    with connect(home, base_url) as http:
        changed = http.send_prompt(session, prompt, key=key)
        found = changed.session(session)
        prompt_id, queued = find_prompt(found, prompt)
        if follow_on:
            _print_answer(http, session, prompt_id, as_json)
        elif as_json:
            say_json({"sessionId": session, "promptId": prompt_id, "queued": queued, "status": found.status})
        else:
            say(f"{prompt_id} {'queued behind the running turn' if queued else 'running'}")


def find_prompt(session: SessionRecord, prompt: str) -> tuple[str, bool]:
    """The id of the newest prompt of this text in a session's queue or messages, and whether it is still queued."""
    text = prompt.strip()
    for pending in reversed(session.pending_prompts or []):
        if pending.text == text:
            return pending.id, True
    for message in reversed(session.messages):
        if isinstance(message, Text) and message.author == "you" and message.text == text:
            return message.id, False
    return "", False


class Turn:
    """Tells which updates belong to the turn of one prompt. ``over`` once the turn has ended."""

    def __init__(self, prompt_id: str) -> None:
        self._prompt_id = prompt_id
        self.begun = False
        self.over = False
        self.failed = False

    def take(self, update: Update) -> bool:
        """True for an update to show: after the prompt, up to the end of its turn."""
        message = update.message if isinstance(update, Said | Shown) else None
        if isinstance(message, Text) and message.author == "you":
            self.over = self.begun and message.id != self._prompt_id
            self.begun = self.begun or message.id == self._prompt_id
            return False
        if isinstance(update, StatusIs) and self.begun and update.status in ("idle", "error"):
            self.over, self.failed = True, update.status == "error"
        return self.begun and not (self.over and message is not None)


def _print_answer(http: Http, session: str, prompt_id: str, as_json: bool) -> None:
    printer, turn = Printer(session), Turn(prompt_id)
    for update in follow(http, session, tail=WINDOW):
        if turn.take(update):
            if as_json:
                say_json_line(update)
            else:
                printer.show(update)
        if turn.over:
            break
    printer.finish()
    if turn.failed:
        raise typer.Exit(EXIT_FAILED)
