"""Directories that a request names: they must be there, and are kept by their real path."""

from pathlib import Path

from termal.rules.verdicts import Bad


def real_directory(path: Path, text: str, reason: str | None = None) -> Path:
    """``path`` without symlinks and dots. Raises `Bad` with ``text`` and ``reason`` for what is no directory."""
    try:
        folder = path.resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        raise Bad(text, reason=reason) from error
    if not folder.is_dir():
        raise Bad(text, reason=reason)
    return folder
