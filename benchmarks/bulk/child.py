"""Server processes of contenders, and the CPU that processes use."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_PATIENCE = 10.0
_TICKS = os.sysconf("SC_CLK_TCK")


class Child:
    """A server process that says on the first line of its output where it listens.

    Args:
        command: The command.

    Attributes:
        pid: Its process id.
        first_line: What it said.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        self.pid = self._process.pid
        self.first_line = self._process.stdout.readline().strip()
        if not self.first_line:
            self.close()
            raise RuntimeError(f"{' '.join(command)} did not start")

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def python(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module by the Python of this process."""
    return [sys.executable, "-m", module, *arguments]


def cpu_seconds(pid: int) -> float:
    """Return the CPU that a process and the kernel for it have used, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
