"""The bridge and the client: start and memory of a bridge, what a tool call adds to plain HTTP, a busy event stream."""

import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

from bench.figures import median, row
from termal.client.http import Http
from termal.client.mirror import Mirror
from tests.support.bridge_process import BridgeProcess
from tests.support.daemon import Daemon

STARTS = 11
CALLS = 300
DELTAS = 3000
DELTAS_PER_S = 1000
START_MS = 300.0
RSS_MIB = 45.0
ADDED_MS = 4.0
CORE_SHARE = 0.30


def start_and_memory(daemon: Daemon, session_id: str) -> bool:
    """From the start of the process to its answer to ``initialize``, and its memory then."""
    times, sizes = [], []
    for _ in range(STARTS):
        began = time.perf_counter()
        with BridgeProcess(daemon.url, session_id=session_id) as bridge:
            bridge.greet()
            times.append((time.perf_counter() - began) * 1e3)
            sizes.append(psutil.Process(bridge.pid).memory_info().rss / (1 << 20))
    good = row(
        "a bridge answers after its start", f"{median(times):.0f} ms", f"{START_MS:.0f} ms", median(times) < START_MS
    )
    return row("its memory then", f"{median(sizes):.1f} MiB", f"{RSS_MIB:.0f} MiB", median(sizes) < RSS_MIB) and good


def added_by_a_call(daemon: Daemon, session_id: str) -> bool:
    """In turns, so that a slow moment hits both."""
    plain, called = [], []
    path = f"/api/sessions/{session_id}/mailboxes"
    with BridgeProcess(daemon.url, session_id=session_id) as bridge, Http(daemon.url) as http:
        bridge.greet()
        bridge.call("termal_list_mailboxes")
        connection = http._http
        for _ in range(CALLS):
            began = time.perf_counter()
            connection.get(path)
            middle = time.perf_counter()
            bridge.call("termal_list_mailboxes")
            plain.append((middle - began) * 1e3)
            called.append((time.perf_counter() - middle) * 1e3)
    added = median(called) - median(plain)
    figure = f"{added:.2f} ms ({median(called):.2f} - {median(plain):.2f})"
    return row("listing mailboxes through it adds", figure, f"{ADDED_MS:.0f} ms", added < ADDED_MS)


class Events:
    """A stream that says ``DELTAS`` changes of one message's text at a steady pace."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection, self._listener:
            connection.recv(65536)
            head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
            state = {"revision": 0, "serverInstanceId": "life", "sessions": []}
            connection.sendall(head + b"event: state\ndata: " + json.dumps(state).encode() + b"\n\n")
            began = time.perf_counter()
            for number in range(1, DELTAS + 1):
                delta = {
                    "type": "textDelta",
                    "revision": number,
                    "sessionId": "session-1",
                    "messageId": "message-1",
                    "messageIndex": 1,
                    "messageCount": 2,
                    "delta": "some words of an answer ",
                    "textStartByte": number * 24,
                    "preview": "some words of an answer",
                }
                connection.sendall(b"event: delta\ndata: " + json.dumps(delta).encode() + b"\n\n")
                time.sleep(max(0.0, began + number / DELTAS_PER_S - time.perf_counter()))

    def join(self) -> None:
        self._thread.join()


def reader(url: str) -> None:
    """A process of its own: what it uses is the client's alone. Prints its share of a core."""
    mirror, seen, began, used = Mirror(), 0, 0.0, 0.0
    with Http(url, repeat_s=0.0) as http, http.events() as events:
        for event in events:
            if seen == 0:
                began, used = time.perf_counter(), time.process_time()
            mirror.take(event)
            seen += 1
    print((time.process_time() - used) / (time.perf_counter() - began), seen)


def busy_stream() -> bool:
    events = Events()
    command = [sys.executable, "-c", f"from bench.bridge import reader; reader({events.url!r})"]
    said = subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()
    events.join()
    share, seen = float(said[0]), int(said[1])
    assert seen == DELTAS + 1
    what = f"the client at {DELTAS_PER_S} deltas a second"
    return row(what, f"{share * 100:.1f} % of a core", f"{CORE_SHARE * 100:.0f} %", share < CORE_SHARE)


def main() -> bool:
    with tempfile.TemporaryDirectory(prefix="tml-") as folder, Daemon(Path(folder) / "home", faults=False) as daemon:
        daemon.start()
        with Http(daemon.url) as http:
            session_id = http.create_session(agent="Demo", name="bench", workdir=folder).session_id
        results = [start_and_memory(daemon, session_id), added_by_a_call(daemon, session_id), busy_stream()]
    return all(results)
