"""``termal answer``: what a person says to the questions of an agent, to an MCP server's form, to a request of Codex.

Secret answers come from the terminal or from stdin: a command line is open to everyone on the machine.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NoReturn

import msgspec
import typer

from termal.cli.answer_words import answers_from, content_from, interactive_text, question_lines
from termal.cli.console import BaseUrl, Home, Json, Session, command_app, fail, read_input, say, say_json
from termal.cli.daemon import connect
from termal.client.call import Call
from termal.client.follow import WINDOW
from termal.client.replies import Changed
from termal.client.routes import sessions
from termal.model.message import Approval, Asked, CodexAppRequest, ElicitationRequest, Question, UserInputRequest

app = command_app()


@app.command()
def answer(
    session: Session,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ANSWER]...", help="One text for each question; NAME=VALUE for each field of a form."),
    ] = None,
    *,
    message: Annotated[
        str | None, typer.Option(metavar="ID", help="Which question (else the oldest open one).")
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Print what is asked and answer nothing.")] = False,
    decline: Annotated[bool, typer.Option("--decline", help="Say no to an MCP server's request.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Give no answer to an MCP server's request.")] = False,
    content: Annotated[
        str | None, typer.Option(metavar="JSON", help="A whole form, or the result of a request of Codex; - reads it.")
    ] = None,
    home: Home = None,
    base_url: BaseUrl = None,
    as_json: Json = False,
) -> None:
    """Answer the questions that a session waits for. Without answers they are asked here, one line each."""
    if decline and cancel:
        fail("--decline and --cancel exclude each other", 2)
    with connect(home, base_url) as http:
        asked = _open_request(session, message, http.read_session(session, WINDOW).session.messages)
        if show:
            say_json(asked) if as_json else _say_lines(asked)
            return
        action = "decline" if decline else "cancel" if cancel else "accept"
        call, told = _answer(session, asked, action, list(words or ()), content)
        changed = http.run(call)
    if as_json:
        status = changed.session(session).status
        say_json({"sessionId": session, "messageId": asked.id, "answer": told, "status": status})
    else:
        say(f"{told}: {asked.title}")


def _open_request(session: str, message: str | None, messages: Sequence[object]) -> Asked:
    open_ones = [one for one in messages if isinstance(one, Asked) and one.state == "pending"]
    found = next((one for one in open_ones if message in (None, one.id)), None)
    if found is None:
        _fail_without(session, message, messages)
    return found


def _fail_without(session: str, message: str | None, messages: Sequence[object]) -> NoReturn:
    if any(isinstance(one, Approval) and one.decision == "pending" for one in messages):
        fail(f"{session} asks for permission: termal approve {session}")
    fail(f"{session} waits for no answer" + (f" to {message}" if message else ""))


def _answer(
    session: str, asked: Asked, action: str, words: list[str], content: str | None
) -> tuple[Call[Changed], str]:
    """The request that answers, and the word for it."""
    try:
        if isinstance(asked, UserInputRequest):
            if action != "accept" or content is not None:
                fail("questions take answers, and nothing else", 2)
            given = answers_from(asked.questions, words or [_read(asked.questions, one) for one in asked.questions])
            return sessions.answer_questions(session, asked.id, given), "answered"
        if content is not None:
            filled = _decoded(read_input() if content == "-" else content)
        elif isinstance(asked, ElicitationRequest):
            filled = content_from(asked.request, words) if action == "accept" else None
        else:
            fail("a request of Codex takes its result by --content JSON", 2)
    except ValueError as error:
        fail(str(error), 2)
    if isinstance(asked, CodexAppRequest):
        return sessions.answer_app_request(session, asked.id, filled), "answered"
    return sessions.answer_elicitation(session, asked.id, action, filled), _TOLD[action]


_TOLD = {"accept": "accepted", "decline": "declined", "cancel": "canceled"}


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ValueError(f"--content is not JSON: {error}") from error


def _read(questions: Sequence[Question], question: Question) -> str:
    """The answer to one question: typed at a terminal, hidden when it is secret, else the next line of stdin."""
    if not sys.stdin.isatty():
        line = sys.stdin.readline()
        if not line.strip():
            raise ValueError(f"stdin has no answer to {question.question!r}")
        return line.rstrip("\n")
    for line in question_lines(questions, question):
        say(line)
    ask: Callable[..., str] = typer.prompt
    return interactive_text(question, ask("answer", hide_input=question.is_secret))


def _say_lines(asked: Asked) -> None:
    say(asked.title)
    if asked.detail and asked.detail != asked.title:
        say(asked.detail)
    if isinstance(asked, UserInputRequest):
        for question in asked.questions:
            for line in question_lines(asked.questions, question):
                say(line)
    else:
        say_json(asked.request if isinstance(asked, ElicitationRequest) else asked.params)
