"""An agent whose processes do what real ones do: a child, and a daemon that left parent, group and session.

``agents_tree.py agent|daemon|stubborn|lonely``, standard library only. Every process of it opens the FIFO that
``TEST_LIFE`` names, writes its letter (a gent, c hild, d aemon) and holds it open while it lives: letters prove life,
the end of file proves that all are dead. ``stubborn`` ignores SIGTERM and the end of its stdin, ``lonely`` starts
nothing.
"""

import os
import signal
import sys


def live(letter: bytes) -> None:
    if "TEST_LIFE" in os.environ:
        os.write(os.open(os.environ["TEST_LIFE"], os.O_WRONLY), letter)


def wait_for_ever() -> None:
    while True:
        signal.pause()


def start_daemon() -> None:
    middle = os.fork()
    if middle:
        os.waitpid(middle, 0)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    live(b"d")
    wait_for_ever()


def start_child() -> None:
    if os.fork() == 0:
        live(b"c")
        wait_for_ever()


def main(what: str) -> None:
    if what == "lonely":
        live(b"a")
        wait_for_ever()
    start_daemon()
    if what == "daemon":
        return
    start_child()
    if what == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    live(b"a")
    if what == "stubborn":
        wait_for_ever()
    for line in sys.stdin:
        sys.stdout.write(f"echo {line}")
        sys.stdout.flush()
    sys.exit(7)


if __name__ == "__main__":
    main(sys.argv[1])
