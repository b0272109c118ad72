"""One session of the demo: what was sent to it, what its stream showed, and whether the stored transcript agrees."""

import threading
from collections.abc import Callable
from typing import TypeVar

from termal.cli.demo.stage import wait_for
from termal.client.errors import Unreachable
from termal.client.follow import WINDOW, follow
from termal.client.http import Http
from termal.client.transcript import Said, StatusIs, Update
from termal.model.message import Message, Text
from termal.model.session import SessionStatus

WAIT_S = 30.0
"""Far more than an idle machine needs."""
_LEAVE_S = 5.0

M = TypeVar("M", bound=Message)


class Role:
    """Watches the session through the event stream, on a thread of its own, from its first message to `close`."""

    def __init__(self, name: str, url: str, session_id: str, on_change: Callable[[], None]) -> None:
        self.name = name
        self.session_id = session_id
        self.status: SessionStatus | None = None
        self.pieces = 0
        """How many pieces of text have come."""
        self._sent: list[str] = []
        self._answers: list[str] = []
        self._messages: dict[str, Message] = {}
        self._texts: dict[str, str] = {}
        """Text as it was pieced together from the stream."""
        self._on_change = on_change
        self._closed = threading.Event()
        self._http = Http(url)
        self._thread = threading.Thread(target=self._watch, name=f"watch {session_id}", daemon=True)
        self._thread.start()

    def send(self, http: Http, prompt: str, answer: str = "") -> None:
        """Send a prompt; the daemon has stored it when this returns. ``answer`` is the text that the agent will say."""
        http.send_prompt(self.session_id, prompt)
        self._sent.append(prompt.strip())
        self._answers.append(answer)

    def wait_idle(self) -> None:
        """Until every prompt that was sent has been taken up and no turn runs. Raises `StageFailed`."""
        wait_for(self._is_done, f"{self.name} to be done", WAIT_S)

    def next_prompt(self) -> Text:
        """The next prompt that nobody sent through `send`, once it is in the transcript. Raises `StageFailed`."""
        prompt = wait_for(self._unsent, f"{self.name} to be prompted", WAIT_S)
        self._sent.append(prompt.text)
        self._answers.append("")
        return prompt

    def newest(self, kind: type[M]) -> M | None:
        found = [message for message in self.messages() if isinstance(message, kind)]
        return found[-1] if found else None

    def messages(self) -> list[Message]:
        return list(self._messages.values())

    def said(self) -> str:
        """All assistant text so far, as it streamed in, on one line."""
        texts = [message.id for message in self.messages() if isinstance(message, Text) and message.author != "you"]
        return " ".join(" ".join(self._texts[known] for known in texts).split())

    def compare(self, stored: list[Message]) -> list[str]:
        """What is wrong with the stored transcript: each prompt once, in order; each answer whole, as it streamed."""
        texts = [message for message in stored if isinstance(message, Text)]
        prompts = [message.text for message in texts if message.author == "you"]
        said = _letters("".join(message.text for message in texts if message.author != "you"))
        wrong = [] if prompts == self._sent else [f"{self.name}: sent {self._sent}, stored {prompts}"]
        at = 0
        for answer in map(_letters, self._answers):
            found = said.find(answer, at)
            if found < 0:
                wrong.append(f"{self.name}: {answer!r} is not in {said[at:]!r}")
            else:
                at = found + len(answer)
        if _letters(self.said()) != said:
            wrong.append(f"{self.name}: streamed {self.said()!r}, stored {said!r}")
        return wrong

    def close(self) -> None:
        """Stop watching, once the daemon has ended the stream."""
        self._closed.set()
        self._thread.join(_LEAVE_S)
        self._http.close()

    def _is_done(self) -> bool:
        return self.status in ("idle", "error") and len(self._prompts()) == len(self._sent)

    def _unsent(self) -> Text | None:
        beyond = self._prompts()[len(self._sent) :]
        return beyond[0] if beyond else None

    def _prompts(self) -> list[Text]:
        return [message for message in self.messages() if isinstance(message, Text) and message.author == "you"]

    def _watch(self) -> None:
        try:
            for update in follow(self._http, self.session_id, tail=WINDOW, stop=self._closed):
                self._take(update)
                self._on_change()
        except Unreachable:
            # The daemon was stopped: what was seen until then is what counts.
            return

    def _take(self, update: Update) -> None:
        if isinstance(update, StatusIs):
            self.status = update.status
            return
        message = update.message
        if isinstance(update, Said):
            self.pieces += 1
            self._texts[message.id] = ("" if update.first else self._texts[message.id]) + update.piece
        elif isinstance(message, Text):
            self._texts[message.id] = message.text
        self._messages[message.id] = message


def _letters(text: str) -> str:
    """Text without its white space, which agents and clients may lay out as they like."""
    return "".join(text.split())
