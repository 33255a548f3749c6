"""The rules and the dashboard as they lie in the chart, and promtool to try them with."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Promtool = Callable[..., None]


@pytest.fixture(scope="session")
def promtool() -> Promtool:
    """Run promtool with some arguments, and fail with what it says where it fails."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    program = shutil.which("promtool", path=path)
    if program is None:
        pytest.skip("promtool is not installed; make promtool fetches it on Debian and Ubuntu")

    def run(*arguments: str | Path) -> None:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    return run
