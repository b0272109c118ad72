"""``termal board``: read, write and watch the board of a session's project. Exit codes tell a script what happened."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import msgspec
import typer

from termal.cli.console import (
    EXIT_CONFLICT,
    EXIT_NOT_THERE,
    BaseUrl,
    Home,
    Json,
    Session,
    command_app,
    fail,
    plain_table,
    printable,
    read_input,
    say,
    say_json,
    say_json_line,
    table_console,
)
from termal.cli.daemon import connect
from termal.client.call import new_key
from termal.client.http import Http
from termal.client.mail_replies import BoardHead, BoardPage, BoardReceipt
from termal.client.routes import board
from termal.wire.errors import Conflict, NotFound, TermalError

LOOK_S = 1.0
PAGE_ENTRIES = 200
SHOWN_CHARS = 60
"""Of a value in a table."""

Key = Annotated[
    str, typer.Argument(metavar="KEY", help="Name on the board: segments of a-z, 0-9, _ and -, dots between.")
]
Expect = Annotated[
    int | None,
    typer.Option(min=0, help="Write only over this revision, 0 for a new key (else over what is there now)."),
]
Once = Annotated[
    str | None, typer.Option("--key", help="A repeat with the same key is the same write: it happens once.")
]
Stamp = Annotated[str | None, typer.Option(help="A note that is kept with the entry: what it was based on.")]

app = command_app()


@app.callback()
def _board() -> None:
    """Read, write and watch the board of a session's project."""


@app.command("list")
def list_keys(session: Session, home: Home = None, base_url: BaseUrl = None, as_json: Json = False) -> None:
    """List all keys with their values."""
    with _told(as_json), connect(home, base_url) as http:
        page = read_all(http, session)
    if as_json:
        say_json({"generation": page.generation, "entries": page.entries})
    elif not page.entries:
        say(f"the board is empty (generation {page.generation})")
    else:
        table = plain_table("key", "revision>", "author", "updated", "value")
        for head in page.entries:
            author = f"{head.author_name} ({head.author_session_id})"
            shown = _json(head.value)
            short = shown if len(shown) <= SHOWN_CHARS else shown[: SHOWN_CHARS - 1] + "…"
            table.add_row(head.key, str(head.revision), printable(author), head.updated_at, printable(short))
        table_console().print(table)


@app.command()
def get(session: Session, key: Key, *, home: Home = None, base_url: BaseUrl = None, as_json: Json = False) -> None:
    """Print the value of a key as JSON; with --json its whole entry."""
    with _told(as_json), connect(home, base_url) as http:
        head = http.run(board.key(session, key))
    if as_json:
        say_json(head)
    else:
        say(_json(head.value))


@app.command("set")
def set_key(
    session: Session,
    key: Key,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="JSON; '-' reads it from standard input.")],
    *,
    text: Annotated[bool, typer.Option("--text", help="VALUE is no JSON: store it as a string.")] = False,
    expect: Expect = None,
    once: Once = None,
    stamp: Stamp = None,
    home: Home = None,
    base_url: BaseUrl = None,
    as_json: Json = False,
) -> None:
    """Set a key. Nobody is woken; who wants to know reads or watches the board."""
    given = read_input() if value == "-" else value
    try:
        parsed = given if text else msgspec.json.decode(given)
    except msgspec.MsgspecError as error:
        fail(f"the value is not JSON ({error}): put a string into quotation marks, or add --text", 2)
    with _told(as_json), connect(home, base_url) as http:
        expected = _revision(http, session, key) if expect is None else expect
        call = board.set_value(
            session, key, parsed, expected_revision=expected, idempotency_key=once or new_key(), state_stamp=stamp
        )
        _written(http.run(call), as_json)


@app.command()
def delete(
    session: Session,
    key: Key,
    *,
    expect: Expect = None,
    once: Once = None,
    stamp: Stamp = None,
    home: Home = None,
    base_url: BaseUrl = None,
    as_json: Json = False,
) -> None:
    """Delete a key. Its name and revision stay, and a later set goes on from there."""
    with _told(as_json), connect(home, base_url) as http:
        expected = _revision(http, session, key) if expect is None else expect
        call = board.delete(
            session, key, expected_revision=expected, idempotency_key=once or new_key(), state_stamp=stamp
        )
        _written(http.run(call), as_json)


@app.command()
def watch(session: Session, *, home: Home = None, base_url: BaseUrl = None, as_json: Json = False) -> None:
    """Print the board, then what changes in it; end with Ctrl-C. With --json each change is one line of JSON."""
    with _told(as_json), connect(home, base_url) as http:
        for change in changes(http, session):
            if as_json:
                say_json_line(change)
            elif change["deleted"]:
                say(f"{change['key']} deleted")
            else:
                say(f"{change['key']} = {_json(change['value'])}  r{change['revision']}, {change['authorName']}")


def read_all(http: Http, session: str, known_generation: int | None = None) -> BoardPage:
    """The whole board of one generation, as one page; ``unchanged`` as the first page says it."""
    while True:
        page = http.run(board.keys(session, limit=PAGE_ENTRIES, known_generation=known_generation))
        entries = list(page.entries)
        try:
            while page.next_after_key is not None:
                page = http.run(
                    board.keys(
                        session,
                        after_key=page.next_after_key,
                        limit=PAGE_ENTRIES,
                        snapshot_generation=page.generation,
                    )
                )
                entries += page.entries
        except Conflict:
            # Somebody wrote in between: what was read so far may not fit together.
            continue
        return msgspec.structs.replace(page, entries=entries)


def changes(http: Http, session: str) -> Iterator[dict[str, Any]]:
    """Every key, then every change that is still there a second later; a deleted key has ``deleted`` true."""
    seen: dict[str, BoardHead] = {}
    generation: int | None = None
    while True:
        page = read_all(http, session, generation)
        if not page.unchanged:
            now = {head.key: head for head in page.entries}
            for key in seen.keys() - now.keys():
                yield {"key": key, "deleted": True, "generation": page.generation}
            for key, head in now.items():
                if seen.get(key) != head:
                    yield {**msgspec.to_builtins(head), "generation": page.generation}
            seen, generation = now, page.generation
        time.sleep(LOOK_S)


def _revision(http: Http, session: str, key: str) -> int:
    """The revision that is there, of a deleted key too; 0 for none."""
    try:
        return http.run(board.key(session, key)).revision
    except NotFound as error:
        if error.detail is None:
            raise
        return int(error.detail.get("current", {}).get("revision", 0))


def _written(receipt: BoardReceipt, as_json: bool) -> None:
    if as_json:
        say_json(receipt)
    else:
        done = "deleted" if receipt.deleted else "set"
        again = ", as before" if receipt.duplicate else ""
        say(f"{receipt.key} {done}: revision {receipt.revision}, generation {receipt.generation}{again}")


@contextmanager
def _told(as_json: bool) -> Iterator[None]:
    """What a script branches on: no such key, and a board that moved, have exit codes of their own."""
    try:
        yield
    except (NotFound, Conflict) as error:
        if as_json:
            say_json({"error": _sentence(error), "code": error.code, "reason": error.reason, "detail": error.detail})
        fail(_sentence(error), EXIT_NOT_THERE if isinstance(error, NotFound) else EXIT_CONFLICT)


def _sentence(error: TermalError) -> str:
    return error.message.partition("; detail: ")[0]


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
