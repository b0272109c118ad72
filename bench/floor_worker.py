"""The floor's worker: one request, one row, one commit, one reply, on the product's own bus and store."""

import os
from pathlib import Path
from typing import Any

from termal.bus.loop import PollLoop
from termal.bus.server import Request, Server
from termal.log import Log
from termal.store.writer import Writer
from termal.wire.session_operations import SendPrompt
from termal.wire.turns import JsonReply


def main() -> None:
    loop, log = PollLoop(), Log("floor")
    path = Path(os.environ["FLOOR_HOME"]) / "floor.sqlite"
    writer = Writer(path, durability="normal", notify=lambda: loop.threadsafe(writer.finish), log=log)
    writer.submit(
        lambda ex: ex.execute("CREATE TABLE IF NOT EXISTS plain(id INTEGER PRIMARY KEY, session TEXT, body TEXT)"),
        lambda _result, _error: None,
    )

    def take(request: Request, prompt: SendPrompt) -> None:
        def job(ex: Any) -> None:
            ex.execute("INSERT INTO plain(session, body) VALUES(?, ?)", (prompt.session_id, prompt.text))

        writer.submit(
            job, lambda _result, _error: request.reply(JsonReply(b'{"ok":true}')), deadline_s=request.deadline_s
        )

    Server(loop, os.environ["FLOOR_RUN"], "floor", {"prompt.send": take}, log=log)
    loop.run()


if __name__ == "__main__":
    main()
