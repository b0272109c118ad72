"""The supervisor over a tree of a test's choosing: ``supervise.py TREE.json`` and the supervisor's own arguments."""

import sys
from pathlib import Path

import msgspec

from supervisor.main import main
from supervisor.tree import Limits, Spec


class Tree(msgspec.Struct):
    specs: list[Spec]
    limits: Limits = Limits()


if __name__ == "__main__":
    tree = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Tree)
    sys.exit(main(sys.argv[2:], specs=tree.specs, limits=tree.limits))
