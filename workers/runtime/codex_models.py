"""The models that Codex has, and what each of them takes."""

from typing import Any, NamedTuple, Protocol

from termal.wire.turns import ModelDetail
from workers.runtime.json_values import records, text_or_none
from workers.runtime.lines import Refused

PAGES = 20
PAGE_S = 10.0

Json = dict[str, Any]


class Asks(Protocol):
    async def request(self, method: str, params: Json, limit_s: float) -> Any:
        """Raises `Refused` or `NoAnswer`."""


class Models(NamedTuple):
    """Triples of value, label and description; the one that Codex takes by itself; details by value."""

    options: list[tuple[str, str, str | None]]
    current: str | None
    details: dict[str, ModelDetail]


async def read_models(lines: Asks) -> Models:
    """All pages; what there is when a page is refused. Raises `NoAnswer`."""
    rows: list[Json] = []
    cursor: str | None = None
    for _ in range(PAGES):
        try:
            answer = await lines.request("model/list", {"cursor": cursor} if cursor else {}, PAGE_S)
        except Refused:
            break
        answer = answer if isinstance(answer, dict) else {}
        rows += records(answer.get("data"))
        cursor = answer.get("nextCursor")
        if not isinstance(cursor, str) or not cursor:
            break
    return _models([record for record in rows if record.get("hidden") is not True])


def _models(rows: list[Json]) -> Models:
    options: list[tuple[str, str, str | None]] = []
    details: dict[str, ModelDetail] = {}
    current = None
    for record in rows:
        value = record.get("model") or record.get("id")
        if not isinstance(value, str) or value in details:
            continue
        options.append((value, str(record.get("displayName") or value), text_or_none(record.get("description"))))
        details[value] = ModelDetail(
            default_effort=text_or_none(record.get("defaultReasoningEffort")),
            efforts=[
                str(effort["reasoningEffort"])
                for effort in records(record.get("supportedReasoningEfforts"))
                if effort.get("reasoningEffort")
            ],
            tiers=[
                (str(tier["id"]), str(tier.get("name") or tier["id"]), str(tier.get("description") or ""))
                for tier in records(record.get("serviceTiers"))
                if tier.get("id")
            ],
        )
        if record.get("isDefault") is True:
            current = value
    return Models(options, current, details)
