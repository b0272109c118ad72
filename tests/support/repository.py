"""A real git repository in a temporary folder, with the test as its only user."""

import os
import subprocess
from pathlib import Path


class Repository:
    """A repository with one commit of `a` and `sub/b`; the identity and the settings of this machine play no part."""

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True)
        self.root = root.resolve()
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("config", "user.name", "Test")
        self.git("config", "user.email", "test@example.invalid")
        self.write("a", "one\ntwo\nthree\n")
        self.write("sub/b", "bee\n")
        self.commit("first")

    def git(self, *arguments: str, cwd: Path | None = None) -> str:
        """Standard output. Fails the test with what git says."""
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("GIT_")},
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_SYSTEM": "/dev/null",
        }
        done = subprocess.run(
            ["git", *arguments], cwd=cwd or self.root, env=environment, capture_output=True, check=False, timeout=30
        )
        assert done.returncode == 0, (arguments, done.stderr.decode("utf-8", "replace"))
        return done.stdout.decode("utf-8", "surrogateescape")

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def commit(self, message: str) -> str:
        """Everything there is; the id of the commit."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)
        return self.git("rev-parse", "HEAD").strip()

    def fingerprint(self) -> dict[str, bytes]:
        """Every byte in it that is no worktree's entry: files, index, references, objects."""
        found = {}
        for path in sorted(self.root.rglob("*")):
            name = str(path.relative_to(self.root))
            if path.is_file() and not name.startswith(".git/worktrees/"):
                found[name] = path.read_bytes()
        return found
