"""``termal mail``: send, list, read, follow and acknowledge mail between sessions, for people and scripts."""

import time
from collections.abc import Iterator
from typing import Annotated

import typer

from termal.cli.console import (
    BaseUrl,
    Home,
    Json,
    Session,
    command_app,
    plain_table,
    printable,
    read_input,
    say,
    say_json,
    say_json_line,
    table_console,
)
from termal.cli.daemon import connect
from termal.cli.outcome import told
from termal.client.call import new_key
from termal.client.http import Http
from termal.client.mail_replies import MailboxSummary, MailMessage
from termal.client.routes import mailboxes
from termal.wire.errors import NotFound

LOOK_S = 1.0
PAGE_ROWS = 200

Mailbox = Annotated[str, typer.Argument(metavar="MAILBOX", help="Id of a mailbox, or of the session at its other end.")]

app = command_app()


@app.callback()
def _mail() -> None:
    """Send, list, read, follow and acknowledge mail between sessions."""


@app.command("list")
def list_mailboxes(session: Session, home: Home = None, base_url: BaseUrl = None, as_json: Json = False) -> None:
    """List the mailboxes of a session, the newest mail first."""
    with told(as_json), connect(home, base_url) as http:
        found = http.run(mailboxes.mailboxes(session))
    if as_json:
        say_json(found)
        return
    if not found:
        say("no mail yet")
        return
    table = plain_table("mailbox", "with", "unread>", "latest>", "at", "message")
    for mailbox in found:
        table.add_row(
            mailbox.id,
            printable(_other(mailbox, session)),
            str(mailbox.unread_count),
            str(mailbox.latest_sequence),
            mailbox.latest_message_at or "",
            printable(mailbox.latest_message_preview or ""),
        )
    table_console().print(table)


@app.command()
def read(
    session: Session,
    mailbox: Mailbox,
    *,
    after: Annotated[int | None, typer.Option(min=0, help="Only what comes after this number (else unread).")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=PAGE_ROWS, help="How many messages.")] = 50,
    home: Home = None,
    base_url: BaseUrl = None,
    as_json: Json = False,
) -> None:
    """Print what the session has not acknowledged of a mailbox. Reading acknowledges nothing."""
    with told(as_json), connect(home, base_url) as http:
        found = find(http, session, mailbox)
        start = _cursor(found, session) if after is None else after
        messages = http.run(mailboxes.messages(session, found.id, after_sequence=start, limit=limit))
    if as_json:
        say_json(messages)
    elif not messages:
        say(f"nothing after #{start}")
    for message in [] if as_json else messages:
        _show(message)


@app.command()
def send(
    session: Session,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Id of the session that is to get it.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="'-' or nothing reads standard input.")] = "-",
    *,
    key: Annotated[
        str | None, typer.Option(help="A repeat with the same key is the same message: it is sent once.")
    ] = None,
    topic: Annotated[str | None, typer.Option(help="What it is about.")] = None,
    stamp: Annotated[str | None, typer.Option(help="What it is based on, for the receiver to compare.")] = None,
    home: Home = None,
    base_url: BaseUrl = None,
    as_json: Json = False,
) -> None:
    """Send a message. It is stored when this returns, whether or not the receiver could be told of it yet."""
    body = read_input() if text == "-" else text
    used = key or new_key()
    call = mailboxes.send(session, target, body, idempotency_key=used, topic=topic, state_stamp=stamp)
    with told(as_json, key=used), connect(home, base_url) as http:
        receipt = http.run(call)
    if as_json:
        say_json(receipt)
        return
    outcome = receipt.notification_disposition + (", as before" if receipt.duplicate else "")
    say(f"{receipt.message_id} is #{receipt.sequence} of {receipt.mailbox_id}: {outcome}")


@app.command()
def ack(
    session: Session,
    mailbox: Mailbox,
    through: Annotated[
        int | None, typer.Argument(metavar="THROUGH", min=0, help="The last message that is done.")
    ] = None,
    *,
    expect: Annotated[
        int | None, typer.Option(min=0, help="Only if the cursor stands here (else wherever it stands now).")
    ] = None,
    home: Home = None,
    base_url: BaseUrl = None,
    as_json: Json = False,
) -> None:
    """Acknowledge everything up to a message. Without THROUGH up to the latest: the session is done with it."""
    with told(as_json), connect(home, base_url) as http:
        found = find(http, session, mailbox)
        call = mailboxes.acknowledge(
            session,
            found.id,
            expected_processed_through=_cursor(found, session) if expect is None else expect,
            processed_through=found.latest_sequence if through is None else through,
        )
        summary = http.run(call)
    if as_json:
        say_json(summary)
    else:
        say(f"{summary.id} is done up to #{_cursor(summary, session)}: {summary.unread_count} unread")


@app.command()
def sent(
    session: Session,
    *,
    state: Annotated[
        str | None, typer.Option(help="Only those in this state: a notification state, or undeliverable.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=PAGE_ROWS, help="How many messages.")] = 50,
    home: Home = None,
    base_url: BaseUrl = None,
    as_json: Json = False,
) -> None:
    """Show what became of the messages that it sent, newest first."""
    with told(as_json), connect(home, base_url) as http:
        page = http.run(mailboxes.sent(session, state=state, limit=limit))
    if as_json:
        say_json(page)
        return
    if not page.messages:
        say("nothing sent")
        return
    table = plain_table("to", "number>", "sent", "state", "processed", "message")
    for message in page.messages:
        gone = message.undeliverable
        done = "yes" if message.processed else f"never: {gone.reason}" if gone else "no"
        table.add_row(
            printable(f"{message.target_name} ({message.target_session_id})"),
            str(message.sequence),
            message.created_at,
            message.notification_state,
            done,
            printable(message.preview),
        )
    table_console().print(table)


@app.command()
def watch(session: Session, *, home: Home = None, base_url: BaseUrl = None, as_json: Json = False) -> None:
    """Print unread mail, then what comes and goes, until Ctrl-C. It acknowledges nothing."""
    with told(as_json), connect(home, base_url) as http:
        for message in follow(http, session):
            if as_json:
                say_json_line(message)
            else:
                _show(message)


def find(http: Http, session: str, mailbox: str) -> MailboxSummary:
    """The mailbox of that id, or of that peer. Raises `NotFound`."""
    for summary in http.run(mailboxes.mailboxes(session)):
        others = [one.session_id for one in summary.participants if one.session_id != session]
        if mailbox == summary.id or mailbox in others:
            return summary
    raise NotFound(f"{session} has no mailbox {mailbox}, and none with a session of that id")


def follow(http: Http, session: str) -> Iterator[MailMessage]:
    """Every message after the session's cursors, in both directions, each once; those that come later as they come."""
    seen: dict[str, int] = {}
    while True:
        found = http.run(mailboxes.mailboxes(session))
        for mailbox in reversed(found):
            after = seen.setdefault(mailbox.id, _cursor(mailbox, session))
            while after < mailbox.latest_sequence:
                page = http.run(mailboxes.messages(session, mailbox.id, after_sequence=after, limit=PAGE_ROWS))
                if not page:
                    break
                yield from page
                after = page[-1].sequence
            seen[mailbox.id] = after
        time.sleep(LOOK_S)


def _cursor(mailbox: MailboxSummary, session: str) -> int:
    return next(one.processed_through for one in mailbox.participants if one.session_id == session)


def _other(mailbox: MailboxSummary, session: str) -> str:
    names = [
        f"{one.display_name} ({one.session_id})" + (", left" if one.left_at else "")
        for one in mailbox.participants
        if one.session_id != session
    ]
    return ", ".join(names)


def _show(message: MailMessage) -> None:
    topic = f", {message.topic}" if message.topic else ""
    say(f"#{message.sequence} {message.sender_name} -> {message.target_name}, {message.created_at}{topic}")
    for line in message.body.splitlines():
        say(f"  {line}")
