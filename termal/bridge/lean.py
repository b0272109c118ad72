"""Lets the MCP SDK be imported in part: called once, first of all, in the bridge's own process and nowhere else.

PERF: importing the SDK by its package brings a web framework, an HTTP client and every client class of the protocol:
0.6 s and 62 MiB for each session's bridge, against 0.3 s and 43 MiB here. Its serving loop needs none of them. So the
two packages on the way there are entered without running what their initialisers import, and the record classes are
built when they are used.
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from typing import Any


def import_sdk() -> None:
    """Import what `termal.bridge.sdk` needs, in part unless the SDK is there already."""
    # Nothing made by an import is ever collected: looking for garbage meanwhile takes a fifth of the time.
    gc.disable()
    found = PathFinder.find_spec("mcp")
    if found is not None and "mcp" not in sys.modules:
        folders = list(found.submodule_search_locations or [])
        _enter("mcp", folders)
        _enter("mcp.server", [f"{folder}/server" for folder in folders])
        with _deferred_records():
            import termal.bridge.sdk  # noqa: F401, PLC0415 - here and now, in this state
    gc.freeze()
    gc.enable()


@contextmanager
def _deferred_records() -> Iterator[None]:
    """Have classes and adapters of records made complete by their first use: of hundreds a bridge uses a dozen."""
    import pydantic  # noqa: PLC0415 - the SDK's own dependency, imported here alone

    deferred = pydantic.ConfigDict(defer_build=True)
    pydantic.BaseModel.model_config["defer_build"] = True
    make = pydantic.TypeAdapter.__init__

    def make_later(adapter: Any, kind: Any, *, _parent_depth: int = 2, module: Any = None) -> None:
        # All that the SDK makes while it is imported are unions, which take a configuration.
        make(adapter, kind, config=deferred, _parent_depth=_parent_depth + 1, module=module)

    pydantic.TypeAdapter.__init__ = make_later  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        pydantic.TypeAdapter.__init__ = make  # type: ignore[method-assign]


def _enter(name: str, locations: list[str]) -> None:
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = locations
    sys.modules[name] = module_from_spec(spec)
