"""Mail as plain lists: what every sequence of sends, acknowledgements, kills and clock jumps must come to."""

from typing import Any

Json = dict[str, Any]
Intent = tuple[str, str]
"""Whom it went to, and its text."""


class ModelBox:
    """One mailbox. ``messages`` are (sender, target, text) in the order of their sequences."""

    def __init__(self) -> None:
        self.id = ""
        self.messages: list[tuple[str, str, str]] = []
        self.cursors: dict[str, int] = {}

    def unread(self, session_id: str) -> int:
        cursor = self.cursors[session_id]
        return sum(target == session_id for at, (_, target, _) in enumerate(self.messages, 1) if at > cursor)

    def append(self, sender: str, target: str, text: str) -> tuple[int, int]:
        """The sequence and the unread depth."""
        self.cursors.setdefault(sender, 0)
        self.cursors.setdefault(target, 0)
        caught_up = self.cursors[sender] == len(self.messages)
        self.messages.append((sender, target, text))
        if caught_up:
            self.cursors[sender] = len(self.messages)
        return len(self.messages), self.unread(target)

    def acknowledge(self, session_id: str, expected: int, through: int) -> int:
        """The status of the answer; the cursor moves where it is 200 and has to."""
        cursor = self.cursors[session_id]
        if through < expected or through > len(self.messages):
            return 400
        if cursor != expected and through > cursor:
            return 409
        self.cursors[session_id] = max(cursor, through)
        return 200


class ModelMail:
    def __init__(self) -> None:
        self.boxes: dict[frozenset[str], ModelBox] = {}
        self.keys: dict[tuple[str, str], tuple[Intent, Json]] = {}
        """What each key of each sender stands for, with the receipt."""

    def box(self, one: str, other: str) -> ModelBox:
        return self.boxes.setdefault(frozenset((one, other)), ModelBox())

    def of(self, session_id: str) -> dict[str, ModelBox]:
        """The mailboxes with something in them, by the session at the other end."""
        return {
            next(iter(pair - {session_id})): box
            for pair, box in self.boxes.items()
            if session_id in pair and box.messages
        }
