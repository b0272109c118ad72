"""A board as plain Python: what every answer of the real one must be, times apart."""

from typing import Any

Json = dict[str, Any]
Intent = tuple[str, int, str | None, str | None]
"""Key, expected revision, value as its canonical text (None for a delete), state stamp."""
HISTORY = 100


class ModelBoard:
    def __init__(self) -> None:
        self.generation = 0
        self.heads: dict[str, Json] = {}
        self.history: dict[str, list[int]] = {}
        self.receipts: dict[tuple[str, str], tuple[Intent, Json]] = {}

    def revision(self, key: str) -> int:
        """0 for a key that never existed."""
        return int(self.heads[key]["revision"]) if key in self.heads else 0

    def write(self, author: Json, once: str, intent: Intent, value: object) -> tuple[int, Json]:
        """The status, and the receipt or the detail. ``value`` is what the text of the intent says."""
        known = self.receipts.get((author["authorSessionId"], once))
        if known is not None:
            if known[0] != intent:
                return 409, self.detail()
            return 200, {**known[1], "duplicate": True}
        key, expected, text, stamp = intent
        head = self.heads.get(key)
        status = self._refusal(head, expected, text is None)
        if status:
            return status, self.detail(head)
        self.generation += 1
        stamped = {} if stamp is None else {"stateStamp": stamp}
        entry = {"key": key, "revision": expected + 1, "value": value, "deleted": text is None, **author, **stamped}
        self._remember(key, expected, deleted=text is None)
        self.heads[key] = {**entry, "updatedAtGeneration": self.generation}
        receipt = {**entry, "priorRevision": expected, "generation": self.generation, "duplicate": False}
        self.receipts[author["authorSessionId"], once] = (intent, receipt)
        return 200 if expected else 201, receipt

    def detail(self, head: Json | None = None) -> Json:
        found = {} if head is None else {"current": head}
        return {**found, "currentGeneration": self.generation}

    def live(self) -> list[Json]:
        return [self.heads[key] for key in sorted(self.heads) if not self.heads[key]["deleted"]]

    @staticmethod
    def _refusal(head: Json | None, expected: int, delete: bool) -> int:
        if head is None:
            return 404 if delete or expected else 0
        if head["revision"] != expected:
            return 409
        return 404 if delete and head["deleted"] else 0

    def _remember(self, key: str, revision: int, *, deleted: bool) -> None:
        if deleted:
            self.history[key] = []
        elif revision:
            self.history[key] = [*self.history.get(key, []), revision][-HISTORY:]


def timeless(record: Json) -> Json:
    """``record`` without its times, at any depth."""
    return {
        name: timeless(value) if name == "current" else value for name, value in record.items() if name != "updatedAt"
    }
