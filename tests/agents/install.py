"""Installs the real coding agents, in pinned versions, for the tests that drive them (``make test-agents``).

    python -m tests.agents.install

The Claude SDK and Codex go into the running interpreter's environment, the others into ``.agents/`` of the checkout.
What is there already is left alone.
"""

import importlib.metadata
import json
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
AGENTS = HERE.parent.parent / ".agents"
PROGRAMS = AGENTS / "node_modules" / ".bin"
_STAMP = AGENTS / "installed.json"
_REQUIREMENTS = HERE / "requirements.txt"
_NPM_PACKAGES = HERE / "npm-packages.txt"
_NPM_PROGRAMS = ("gemini", "opencode", "mcp-inspector-cli")


def main() -> int:
    """The exit status: 0 when every agent is there."""
    try:
        _install_python_packages()
        _install_npm_packages()
    except (subprocess.CalledProcessError, OSError) as error:
        _say(f"failed: {error}")
        return 1
    return 0


def _install_python_packages() -> None:
    missing = [line for line in _lines(_REQUIREMENTS) if not _is_installed(line)]
    if not missing:
        _say(f"{', '.join(_lines(_REQUIREMENTS))}: there")
        return
    _say(f"{', '.join(missing)}: installing, several hundred megabytes")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *missing]
    subprocess.run(command, check=True)


def _install_npm_packages() -> None:
    packages = _lines(_NPM_PACKAGES)
    if _stamp() == packages and all((PROGRAMS / name).exists() for name in _NPM_PROGRAMS):
        _say(f"{', '.join(packages)}: there")
        return
    npm = shutil.which("npm")
    if npm is None:
        raise OSError("npm is not on PATH: install Node.js 20 or newer")
    _say(f"{', '.join(packages)}: installing, several hundred megabytes")
    AGENTS.mkdir(exist_ok=True)
    # Without a package file of its own the folder's parents would be searched for one.
    (AGENTS / "package.json").write_text('{"private": true}\n', "utf-8")
    options = ["--prefix", str(AGENTS), "--no-package-lock", "--no-audit", "--no-fund", "--save-exact"]
    subprocess.run([npm, "install", *options, *packages], check=True)
    _STAMP.write_text(json.dumps(packages), "utf-8")


def _lines(file: Path) -> list[str]:
    return [line.strip() for line in file.read_text("utf-8").splitlines() if line.strip()]


def _is_installed(requirement: str) -> bool:
    name, version = requirement.split("==")
    try:
        return importlib.metadata.version(name) == version
    except importlib.metadata.PackageNotFoundError:
        return False


def _stamp() -> list[str]:
    try:
        stamp = json.loads(_STAMP.read_text("utf-8"))
    except (OSError, ValueError):
        return []
    return stamp if isinstance(stamp, list) else []


def _say(text: str) -> None:
    sys.stdout.write(f"agents: {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
