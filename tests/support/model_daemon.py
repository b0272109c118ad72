"""What a daemon must show after any sequence of calls, by plain lists: no process, no storage, nothing asynchronous.

Messages are tuples of what a reader sees of them: ``(kind, *texts, state)``.
"""

from typing import Any

Json = dict[str, Any]
Shown = tuple[str, ...]
RESIDENT = 64
STOPPED = "Stopped by the user."
CUT_OFF = "TermAl restarted during this turn; its last answer may be cut off. Send a prompt to go on."
EXPIRED = "TermAl restarted while a request was open; that request has expired. Send a prompt to go on."
_DECISION_AT_END = {"ended": "canceled", "cut": "rejected", "restart": "interrupted"}


def shown(message: Json) -> Shown:
    """A message of a reply as the model knows it."""
    kind = message["type"]
    if kind == "text":
        return (kind, message["author"], message["text"])
    if kind == "thinking":
        return (kind, message["title"], "\n".join(message["lines"]))
    if kind == "command":
        return (kind, message["command"], message["output"], message["status"])
    assert kind == "approval", kind
    return (kind, message["title"], message["decision"])


class ModelTurn:
    """A running turn: which message each item of the agent writes to, which requests are open."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.items: dict[str, int] = {}
        self.open_texts: set[str] = set()
        self.requests: dict[str, int] = {}


class ModelSession:
    """One session. ``queue``: texts that wait. ``turn``: None while nothing runs."""

    def __init__(self, session_id: str) -> None:
        self.id = session_id
        self.status = "idle"
        self.messages: list[Shown] = []
        self.queue: list[str] = []
        self.turn: ModelTurn | None = None

    @property
    def running(self) -> ModelTurn:
        assert self.turn is not None
        return self.turn

    # ------------------------------------------------------------------- prompts

    def begin(self, text: str, number: int) -> None:
        """``text`` becomes turn ``number`` of the runtime."""
        self.turn = ModelTurn(number)
        self.status = "active"
        self.messages.append(("text", "you", text))

    def refused(self, text: str, detail: str) -> None:
        """``text`` became a turn, and no runtime took it."""
        self.messages += [("text", "you", text), ("text", "assistant", f"Turn failed: {detail}")]
        self.status = "error"
        self.turn = None

    # -------------------------------------------------------------------- events

    def text(self, item: str, piece: str) -> None:
        turn = self.running
        position = turn.items.get(f"text {item}")
        if position is not None and item in turn.open_texts:
            kind, author, before = self.messages[position]
            self.messages[position] = (kind, author, before + piece)
            return
        turn.open_texts.add(item)
        self._append(f"text {item}", ("text", "assistant", piece))

    def final_text(self, item: str, text: str) -> None:
        turn = self.running
        turn.open_texts.discard(item)
        position = turn.items.get(f"text {item}")
        if position is None:
            self._append(f"text {item}", ("text", "assistant", text))
        else:
            self.messages[position] = ("text", "assistant", text)

    def thinking(self, item: str, text: str) -> None:
        turn = self.running
        turn.open_texts.clear()
        position = turn.items.get(f"thinking {item}")
        if position is None:
            self._append(f"thinking {item}", ("thinking", "Thinking", text))
        else:
            kind, title, before = self.messages[position]
            self.messages[position] = (kind, title, before + text)

    def command(self, item: str, command: str) -> None:
        position = self.running.items.get(f"tool {item}")
        if position is None:
            self._append(f"tool {item}", ("command", command, "", "running"))
        else:
            kind, _, output, status = self.messages[position]
            self.messages[position] = (kind, command, output, status)

    def output(self, item: str, output: str, *, append: bool) -> None:
        position = self._command(item)
        kind, command, before, status = self.messages[position]
        self.messages[position] = (kind, command, before + output if append else output, status)

    def command_ended(self, item: str, status: str, output: str | None) -> None:
        position = self._command(item)
        kind, command, before, _ = self.messages[position]
        self.messages[position] = (kind, command, before if output is None else output, status)

    def _command(self, item: str) -> int:
        """An item that was never announced is shown under its own name."""
        if f"tool {item}" not in self.running.items:
            self.command(item, item)
        return self.running.items[f"tool {item}"]

    def notice(self, text: str) -> None:
        self.running.open_texts.clear()
        said = [message for message in self.messages[-RESIDENT:] if message[:2] == ("text", "assistant")]
        if not said or said[-1][2] != text:
            self.messages.append(("text", "assistant", text))

    def asked(self, request: str, title: str) -> None:
        turn = self.running
        turn.open_texts.clear()
        turn.requests[request] = len(self.messages)
        self.messages.append(("approval", title, "pending"))
        self.status = "approval"

    def settled(self, request: str, decision: str) -> None:
        turn = self.running
        position = turn.requests.pop(request)
        kind, title, _ = self.messages[position]
        self.messages[position] = (kind, title, decision)
        if not turn.requests:
            self.status = "active"

    def withdrawn(self, request: str) -> None:
        self.running.open_texts.clear()
        if request in self.running.requests:
            self.settled(request, "canceled")

    def _append(self, item: str, message: Shown) -> None:
        self.running.items[item] = len(self.messages)
        self.messages.append(message)

    # ---------------------------------------------------------------------- ends

    def ended(self, outcome: str, detail: str = "") -> bool:
        """The turn is over; whether the head of the queue is to start."""
        self._close("ended" if outcome in ("completed", "interrupted") else "cut")
        if outcome == "stopped":
            self.messages.append(("text", "assistant", STOPPED))
        elif outcome == "interrupted" and detail:
            self.messages.append(("text", "assistant", detail))
        elif outcome in ("failed", "lost"):
            self.messages.append(("text", "assistant", f"Turn failed: {detail}"))
        self.status = "error" if outcome in ("failed", "lost") else "idle"
        return bool(self.queue) and outcome != "lost"

    def cut_off(self) -> None:
        """The daemon was restarted: nothing that waited starts by itself."""
        text = EXPIRED if any(message[-1] == "pending" for message in self.messages) else CUT_OFF
        self._close("restart")
        if self.queue:
            kept = "One queued prompt is" if len(self.queue) == 1 else f"{len(self.queue)} queued prompts are"
            text = f"{text} {kept} kept."
        self.messages.append(("text", "assistant", text))
        self.status = "error"

    def _close(self, cause: str) -> None:
        for at, message in enumerate(self.messages):
            if message[0] == "command" and message[-1] == "running":
                self.messages[at] = (*message[:-1], "error")
            elif message[0] == "approval" and message[-1] == "pending":
                self.messages[at] = (*message[:-1], _DECISION_AT_END[cause])
        self.turn = None


class ModelDaemon:
    """All sessions in the order in which they were made."""

    def __init__(self) -> None:
        self.sessions: list[ModelSession] = []
        self.turns = 0
        """Turns that the runtime took."""

    def new_turn(self) -> int:
        self.turns += 1
        return self.turns - 1

    def prompt(self, session: ModelSession, text: str) -> bool:
        """A prompt that a runtime takes; whether it started a turn of its own."""
        if session.turn is not None:
            session.queue.append(text)
            return False
        session.queue.append(text)
        mine = len(session.queue) == 1
        self.start_head(session)
        return mine

    def start_head(self, session: ModelSession) -> None:
        session.begin(session.queue.pop(0), self.new_turn())

    def end(self, session: ModelSession, outcome: str, detail: str = "") -> None:
        if session.ended(outcome, detail):
            self.start_head(session)

    def restarted(self) -> None:
        """The whole daemon: nobody holds a turn."""
        for session in self.sessions:
            if session.turn is not None:
                session.cut_off()
