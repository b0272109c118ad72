"""What the kernel can do is found out by trying; whatever goes wrong with that means no."""

from pathlib import Path

import pytest

from termal.procs.kernel_sandbox import works


@pytest.mark.parametrize(("script", "found"), [("exit 0", True), ("exit 1", False)])
def test_a_try_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, found: bool) -> None:
    program = tmp_path / "unshare"
    program.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    assert works() is found


def test_without_the_program_nothing_is_claimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    assert not works()
