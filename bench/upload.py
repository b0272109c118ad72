"""``python -m bench.upload URL MEGABYTES``: sends a long transcript as fast as it is taken, from a process of its own.

It has no footer: the daemon stores it, and refuses it at its end.
"""

import json
import socket
import sys
from collections.abc import Iterator
from urllib.parse import urlsplit

_TEXT = "words of a long answer " * 700
_HEAD = (
    b'{"format":"termal-session","version":1,"session":{"name":"big","emoji":"DM",'
    b'"agent":"Demo","workdir":"/tmp","model":"auto"}}\n'
)


def transcript(size_bytes: int) -> Iterator[bytes]:
    """Chunks of the body: the first line of an exported session, and messages."""
    yield _HEAD
    message = {"type": "text", "id": "message-%d", "timestamp": "now", "author": "assistant", "text": _TEXT}
    line = json.dumps(message).encode() + b"\n"
    for number in range(size_bytes // len(line)):
        yield line % number


def upload(url: str, size_bytes: int) -> bytes:
    """The first bytes of the reply."""
    place = urlsplit(url)
    head = (
        f"POST /api/sessions/import HTTP/1.1\r\nHost: {place.netloc}\r\n"
        "Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    )
    with socket.create_connection((place.hostname or "127.0.0.1", place.port or 80), timeout=600) as connection:
        connection.sendall(head.encode())
        for chunk in transcript(size_bytes):
            connection.sendall(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        connection.sendall(b"0\r\n\r\n")
        return connection.recv(1 << 12)


if __name__ == "__main__":
    sys.stdout.write(upload(sys.argv[1], int(sys.argv[2]) * 1_000_000).decode("latin-1"))
