"""Lets the MCP SDK be imported in part: called once, first of all, in the bridge's own process and nowhere else.

PERF: importing the SDK by its package brings a web framework, an HTTP client and every client class of the protocol:
0.6 s and 62 MiB for each session's bridge, against 0.26 s and 41 MiB here. Its serving loop needs none of them. So the
two packages on the way there are entered without running what their initialisers import, the record classes are built
when they are used, and those of the newest protocol version imported when an agent speaks it.
"""

import gc
import sys
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from types import ModuleType
from typing import Any

_USER = "termal.bridge.sdk"
_PACKAGES = ("mcp", "mcp_types")
_METADATA = "importlib.metadata"
_NEWEST = "mcp_types._v2026_07_28"
"""Its records: as many as those of all older versions together, and few agents speak it yet."""


def import_sdk() -> None:
    """Import what `termal.bridge.sdk` needs: in part, unless the SDK is there already or does not let itself."""
    # Nothing made by an import is ever collected: looking for garbage meanwhile takes a fifth of the time.
    gc.disable()
    try:
        _import_in_part()
    except Exception as error:  # noqa: BLE001 - whatever another SDK does here: slower is better than no tools
        sys.stderr.write(f"termal: the MCP SDK is imported as a whole: {error!r}\n")
        for name in [name for name in sys.modules if name.partition(".")[0] in _PACKAGES or name == _USER]:
            del sys.modules[name]
        # An import leaves a module at its package, too, where it would be found again.
        vars(sys.modules[_USER.rpartition(".")[0]]).pop("sdk", None)
        import_module(_USER)
    gc.freeze()
    gc.enable()


def _import_in_part() -> None:
    found = PathFinder.find_spec("mcp")
    if found is not None and "mcp" not in sys.modules:
        folders = list(found.submodule_search_locations or [])
        _enter("mcp", folders)
        _enter("mcp.server", [f"{folder}/server" for folder in folders])
        sys.modules[_NEWEST] = _Later(_NEWEST)
        with _no_plugins(), _deferred_records():
            import_module(_USER)


@contextmanager
def _no_plugins() -> Iterator[None]:
    """Have pydantic take it that nothing is installed that would change records.

    PERF: 22 ms and 2 MiB. It looks through all packages of the environment for that, by a module that brings a parser
    of e-mail along.
    """
    if _METADATA in sys.modules:
        yield
        return
    stand_in: Any = ModuleType(_METADATA)
    stand_in.entry_points = lambda **_: ()
    stand_in.version = _version
    sys.modules[_METADATA] = stand_in
    try:
        yield
    finally:
        if sys.modules.get(_METADATA) is stand_in:
            del sys.modules[_METADATA]


def _version(package: str) -> str:
    # The stand-in, whose function this is, gives way to the real one for good.
    if getattr(sys.modules.get(_METADATA), "version", None) is _version:
        del sys.modules[_METADATA]
    return str(import_module(_METADATA).version(package))


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
    # PERF: 20 ms. Every annotation is compiled by itself, and most are one of a few: `str | None`.
    typing.compile = cache(compile)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        vars(typing).pop("compile", None)
        pydantic.TypeAdapter.__init__ = make  # type: ignore[method-assign]


class _Later(ModuleType):
    """In place of a module of records, which is imported with the first use of one of them."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Record(name)


class _Record:
    """In place of a record class: what the SDK does with one, and what pydantic asks of whatever stands for a type."""

    def __init__(self, name: str) -> None:
        self._name = name

    def model_validate(self, *arguments: Any, **options: Any) -> Any:
        return self._found().model_validate(*arguments, **options)

    def __get_pydantic_core_schema__(self, _source: Any, handler: Any) -> Any:
        return handler(self._found())

    def _found(self) -> Any:
        if isinstance(sys.modules.get(_NEWEST), _Later):
            del sys.modules[_NEWEST]
            with _deferred_records():
                import_module(_NEWEST)
        return getattr(sys.modules[_NEWEST], self._name)


def _enter(name: str, locations: list[str]) -> None:
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = locations
    sys.modules[name] = module_from_spec(spec)
