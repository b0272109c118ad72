"""Whether the kernel lets a program shut itself in here: what the sandboxes of agents are built on. Asked by trying."""

import shutil
import subprocess
import sys
from pathlib import Path

TRY_S = 5.0
_MAC = Path("/usr/bin/sandbox-exec")


def works() -> bool:
    """Namespaces of users and mounts on Linux, the system's own sandbox on macOS. False where it cannot be tried."""
    if sys.platform == "darwin":
        return _MAC.exists()
    unshare = shutil.which("unshare")
    if unshare is None:
        return False
    command = [unshare, "--user", "--map-root-user", "--mount", "true"]
    try:
        tried = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=TRY_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return tried.returncode == 0
