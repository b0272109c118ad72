"""``python -m bench [name ...]``: the named measurements, all without a name; exit 1 if a budget is missed."""

import importlib
import sys

NAMES = ("foundation", "reading", "search", "agents", "board", "wake", "send", "delegations", "worktree", "bridge")


def main(names: list[str]) -> int:
    good = True
    for name in names or NAMES:
        print(f"{name}")
        good &= bool(importlib.import_module(f"bench.{name}").main())
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
