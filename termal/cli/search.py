"""``termal search``: messages that hold some words, newest first."""

import sys
from typing import Annotated

import typer

from termal.cli.console import BaseUrl, Home, Json, command_app, complain, printable, say, say_json, table_console
from termal.cli.daemon import connect
from termal.model.search import Hit

app = command_app()


@app.command()
def search(
    words: Annotated[
        list[str], typer.Argument(metavar="WORDS", help='Every one is in a hit; "a phrase", the beginning of a word*.')
    ],
    *,
    session: Annotated[str | None, typer.Option(metavar="ID", help="Only in this session.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=64, help="How many hits.")] = 20,
    home: Home = None,
    base_url: BaseUrl = None,
    as_json: Json = False,
) -> None:
    """Search all transcripts. A phrase needs quotation marks that the shell leaves alone: '"two words"'."""
    with connect(home, base_url) as http:
        found = http.search(" ".join(words), session_id=session, limit=limit)
    if as_json:
        say_json(found)
        return
    for hit in found.hits:
        _show(hit)
    if not found.hits:
        say("nothing was found")
    if found.next_cursor:
        say(f"there are more than {limit}: --limit, or more words")
    if not found.complete:
        complain("not everything is indexed yet: older messages may be missing")


def _show(hit: Hit) -> None:
    say(f"{hit.session_id} {hit.message_id} {hit.author} {hit.timestamp or ''}  {hit.session_name}")
    if not sys.stdout.isatty():
        say(f"  {hit.snippet.text}")
        return
    from rich.text import Text  # noqa: PLC0415 - rich costs start-up time that most commands do not need

    line, at = Text("  "), 0
    for part in hit.snippet.ranges:
        line.append(printable(hit.snippet.text[at : part.start]))
        line.append(printable(hit.snippet.text[part.start : part.end]), style="bold")
        at = part.end
    line.append(printable(hit.snippet.text[at:]))
    table_console().print(line, soft_wrap=True)
