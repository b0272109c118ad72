"""The SDK imported in part: what it may ask for meanwhile, and another SDK that does not let itself be imported so."""

import subprocess
import sys

import pytest

_VERSION = """
from termal.bridge import lean
with lean._no_plugins():
    from importlib.metadata import version
    print(version("mcp").count("."))
from importlib.metadata import PackageNotFoundError
"""
_NESTED = """
import typing
from termal.bridge import lean
with lean._deferred_records(), lean._deferred_records():
    pass
print("compile" in vars(typing))
"""
_OTHER = """
import sys
from termal.bridge import lean
enter = lean._enter
def other(name, locations):
    # As where the modules on the way to the loop have moved.
    enter(name, locations if name == "mcp" else [])
lean._enter = other
lean.import_sdk()
import termal.bridge.sdk, mcp, mcp_types, mcp.server
print(mcp.__file__ is not None, hasattr(mcp, "ClientSession"), callable(termal.bridge.sdk.serve))
print(isinstance(sys.modules[lean._NEWEST], lean._Later) if lean._NEWEST in sys.modules else False)
"""


def printed(program: str) -> tuple[str, str]:
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout, ended.stderr


@pytest.mark.parametrize(
    ("program", "expected"),
    [pytest.param(_VERSION, "2\n", id="version"), pytest.param(_NESTED, "False\n", id="nested")],
)
def test_what_an_sdk_may_do_while_it_is_imported_does_no_harm(program: str, expected: str) -> None:
    assert printed(program) == (expected, "")


def test_an_sdk_that_cannot_be_imported_in_part_is_imported_as_a_whole() -> None:
    out, complaint = printed(_OTHER)
    assert out == "True True True\nFalse\n"
    assert (complaint.startswith("termal: the MCP SDK is imported as a whole"), complaint.count("\n")) == (True, 1)
