"""A model server that answers from a script, so that tests drive real coding agents without a network or a model.

    python -m tests.support.scripted_model --port 0 --script FILE --log FILE [--bodies]

The first line on stdout is the port. It listens on the loopback address only. The script is read again for each
request, so a test may rewrite it while an agent runs. A script is a JSON object::

    {"steps": [{"name": "greet",            # for the log; optional
                "match": "say hi",          # regex, searched in the last user text
                "turns": [[PART, ...],      # answer to the user's text
                          [PART, ...]]}],   # answer after the first round of tool results
     "default": [[PART, ...]]}              # turns when no step matches

The first matching step wins. The turn is picked from the conversation that the request carries, so a resumed session
goes on where it was; after the last turn the answer is "done". A request that offers no tools (agents ask for titles
and routing decisions that way) gets the text "title", or the smallest object of the schema that it asks for, unless
the step says ``"bare": true``. A PART is one of::

    {"text": "..."} or {"text": ["chunk", ...]}, "delay": seconds between chunks
    {"thinking": "..."}                  (same forms)
    {"tool": NAME, "args": {...}}        "~echo" is the offered tool whose name ends with "echo"; a dict chooses by
                                         format; "freeform": true sends args["input"] as text;
                                         "args_for": {FORMAT: {...}} goes in place of "args" in that format
    {"sleep": seconds}
    {"gate": "name"}                     wait for POST /_control/open/name
    {"error": {"status": 429, "type": "...", "message": "...", "retry_after": 1, "times": 2}}
                                         an HTTP error, only the first "times" times; must come first
    {"stream_error": {"type": "overloaded_error", "message": "..."}}
    {"disconnect": true}                 drop the connection here

Each request appends one JSON line to the log: format, path, model, last user text, turn, step, offered tools and
outcome ("ok", "error 429", "gone" when the agent hung up, ...). GET /_control/log returns it as a JSON array.
"""

import argparse
import contextlib
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.support.scripted_answers import USAGE, WRITERS, Writer
from tests.support.scripted_requests import Ask, Json, format_of
from tests.support.scripted_script import Gate, Script

GATE_LIMIT_S = 60.0
"""A gate that nobody opens gives way after this long, so that no thread stays for ever."""


class _Dropped(Exception):
    """The script closed the connection."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Server"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """The log file has it all."""

    def do_GET(self) -> None:
        if self.path == "/_control/log":
            self._answer_json(self.server.script.entries())
            return
        self.server.script.log(api="get", path=self.path)
        if "models" not in self.path:
            self._answer_json({})
            return
        models = [
            {"id": name, "object": "model", "type": "model", "display_name": name, "created_at": "2025-01-01T00:00:00Z"}
            for name in ("scripted-1", "scripted-2")
        ]
        self._answer_json({"object": "list", "has_more": False, "models": [], "data": models})

    do_HEAD = do_GET

    def do_POST(self) -> None:
        body, path = self._body(), self.path
        if path.startswith("/_control/open/"):
            self.server.script.gate(path.rsplit("/", 1)[1]).opened.set()
            self._answer_json({})
        elif "count_tokens" in path or "countTokens" in path:
            self._answer_json({"input_tokens": USAGE, "totalTokens": USAGE})
        elif (format_name := format_of(path)) is not None:
            self._answer(Ask(format_name, path, body))
        else:
            self.server.script.log(api="post", path=path)
            self._answer_json({})

    def _body(self) -> Json:
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            data = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            data = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            body: Json = json.loads(data or b"{}")
        except ValueError:
            return {}
        return body

    def _answer_json(self, payload: object, status: int = 200, headers: Iterable[tuple[str, str]] = ()) -> None:
        data = json.dumps(payload).encode()
        self.send_response(status)
        for name, value in (("content-type", "application/json"), ("content-length", str(len(data))), *headers):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _answer(self, ask: Ask) -> None:
        """Logged before the last byte is sent: whoever has the whole answer finds it in the log."""
        step, parts = self.server.script.choose(ask)
        writer = WRITERS[ask.format](ask)
        error = self._due_error(ask, step, parts)
        if error is not None:
            status = error.get("status", 500)
            wait = [("retry-after", str(error["retry_after"]))] if "retry_after" in error else []
            self.server.script.log(ask, step=step, outcome=f"error {status}")
            self._answer_json(writer.error_body(error), status, wait)
        elif ask.stream or (whole := writer.whole(_plain(ask, parts))) is None:
            outcome = self._stream(writer, ask, parts)
            self.server.script.log(ask, step=step, outcome=outcome)
            self._end_stream(outcome)
        else:
            self.server.script.log(ask, step=step, outcome="ok")
            self._answer_json(whole)

    def _due_error(self, ask: Ask, step: str, parts: list[Json]) -> Json | None:
        if not parts or "error" not in parts[0]:
            return None
        error: Json = parts[0]["error"]
        return error if self.server.script.fires(step, ask.turn, error.get("times")) else None

    def _stream(self, writer: Writer, ask: Ask, parts: list[Json]) -> str:
        """All of the answer but its end; how it went."""
        try:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for frame in self._frames(writer, ask, parts):
                self._write_chunk(frame.encode())
        except OSError:
            return "gone"
        except _Dropped:
            return "dropped"
        return "ok"

    def _end_stream(self, outcome: str) -> None:
        with contextlib.suppress(OSError):
            if outcome == "ok":
                self._write_chunk(b"")
                return
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

    def _frames(self, writer: Writer, ask: Ask, parts: list[Json]) -> Iterator[str]:
        yield from writer.begin()
        for part in parts:
            if "text" in part:
                yield from writer.text(_paced(part["text"], part.get("delay", 0)))
            elif "thinking" in part:
                yield from writer.thinking(_paced(part["thinking"], part.get("delay", 0)))
            elif "tool" in part:
                name, freeform = ask.tool_name(part["tool"]), part.get("freeform", False)
                arguments = part.get("args_for", {}).get(ask.format, part.get("args", {}))
                yield from writer.tool(name, arguments, freeform=freeform)
            elif "stream_error" in part:
                yield from writer.stream_error(part["stream_error"])
                return
            else:
                self._pause(part)
        yield from writer.end()

    def _pause(self, part: Json) -> None:
        if "sleep" in part:
            time.sleep(part["sleep"])
        elif "gate" in part:
            gate = self.server.script.gate(part["gate"])
            gate.reached.set()
            gate.opened.wait(GATE_LIMIT_S)
        elif "disconnect" in part:
            raise _Dropped

    def _write_chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, port: int, script: Script) -> None:
        self.script = script
        self._connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """An agent that was killed resets its connections: that is what tests are about. Anything else is shown."""
        if not isinstance(sys.exc_info()[1], (BrokenPipeError, ConnectionResetError)):
            super().handle_error(request, client_address)

    def hang_up(self) -> None:
        for connection in tuple(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class ScriptedModel:
    """The server in threads of this process, for one test: ``with ScriptedModel(folder) as model: ...``."""

    def __init__(self, folder: Path) -> None:
        self._script_file = folder / "script.json"
        self.play([])
        self._script = Script(self._script_file, folder / "requests.jsonl", bodies=True)
        self._server = _Server(0, self._script)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="scripted-model")

    def play(self, steps: list[Json]) -> None:
        """Answer by these steps from now on."""
        fresh = self._script_file.with_suffix(".new")
        fresh.write_text(json.dumps({"steps": steps}), "utf-8")
        fresh.replace(self._script_file)

    def read_by(self, reader: Callable[[Ask], list[Json] | None]) -> None:
        """Answer what ``reader`` says, and by the script where it says None."""
        self._script.reader = reader

    def gate(self, name: str) -> Gate:
        return self._script.gate(name)

    def asked(self, api: str | None = None) -> list[Json]:
        """The finished requests for an answer (all of them, or those of one format), oldest first, with bodies."""
        return [entry for entry in self._script.entries() if "step" in entry and api in (None, entry["api"])]

    def others(self) -> list[str]:
        """Paths of requests that asked for something else than an answer."""
        return [str(entry["path"]) for entry in self._script.entries() if "step" not in entry]

    def __enter__(self) -> "ScriptedModel":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._script.open_all()
        self._server.shutdown()
        self._server.hang_up()
        self._thread.join()
        self._server.server_close()


def main() -> None:
    parser = argparse.ArgumentParser(description="A model server that answers from a script.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", type=Path, required=True)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--bodies", action="store_true", help="log whole request bodies")
    options = parser.parse_args()
    server = _Server(options.port, Script(options.script, options.log, bodies=options.bodies))
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    with contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()


def _plain(ask: Ask, parts: list[Json]) -> Iterator[tuple[str, object]]:
    for part in parts:
        if "tool" in part:
            yield "tool", (ask.tool_name(part["tool"]), part.get("args", {}))
        elif "text" in part:
            yield "text", part["text"] if isinstance(part["text"], str) else "".join(part["text"])


def _paced(chunks: str | list[str], delay_s: float) -> Iterator[str]:
    for number, chunk in enumerate([chunks] if isinstance(chunks, str) else chunks):
        if number and delay_s:
            time.sleep(delay_s)
        yield chunk


if __name__ == "__main__":
    main()
