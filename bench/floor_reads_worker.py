"""The floor's worker for reads: one look by key in the product's own file, and bytes of the size of a real reply."""

import os
from pathlib import Path
from typing import Any

from termal.bus.loop import PollLoop
from termal.bus.server import Request, Server
from termal.log import Log
from termal.store.connection import Cursorlike
from termal.store.reader import Reader
from termal.wire.session_operations import ReadHistory, ReadOverview
from termal.wire.turns import JsonReply

PAGE = 64
OVERVIEW = b'{"c":48,"k":"text","u":4,"m":false},'
"""One bucket of the product's reply; its floor sends as many, whatever the map says."""


def main() -> None:
    loop, log = PollLoop(), Log("floor")
    reader = Reader(Path(os.environ["FLOOR_FILE"]), notify=lambda: loop.threadsafe(reader.finish), log=log)

    def page(request: Request, wanted: ReadHistory) -> None:
        start = (wanted.around or 0) - PAGE // 2

        def job(connection: Cursorlike) -> list[str]:
            rows = connection.execute(
                "SELECT value_json FROM messages WHERE session_id = ? AND position >= ? AND position < ?",
                (wanted.session_id, start, start + PAGE),
            )
            return [text for (text,) in rows]

        def done(texts: list[str] | None, error: Exception | None) -> None:
            assert texts is not None, error
            request.reply(JsonReply(('{"messages":[' + ",".join(texts) + "]}").encode()))

        reader.submit(job, done, deadline_s=request.deadline_s)

    def overview(request: Request, wanted: ReadOverview) -> None:
        def job(connection: Cursorlike) -> Any:
            return connection.execute(
                "SELECT value_blob FROM session_overviews WHERE session_id = ?", (wanted.session_id,)
            ).get

        def done(_: Any, error: Exception | None) -> None:
            assert error is None, error
            request.reply(JsonReply(b'{"buckets":[' + OVERVIEW * wanted.buckets + b"{}]}"))

        reader.submit(job, done, deadline_s=request.deadline_s)

    Server(loop, os.environ["FLOOR_RUN"], "floor", {"session.history": page, "session.overview": overview}, log=log)
    loop.run()


if __name__ == "__main__":
    main()
