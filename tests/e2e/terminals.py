"""The command line on a terminal: a pseudo-terminal, and what a person would see on it."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from types import MappingProxyType
from typing import Any

import pyte

from tests.e2e.conftest import ENVIRONMENT

_PATIENCE = 30.0
_MAIN = """
import os, sys
os.close(os.open(sys.argv.pop(1), os.O_RDWR))
from kvtier.cli.main import main
sys.exit(main())
"""


class Terminal:
    """A `kvtier` on a terminal of its own.

    Attributes:
        process: The process.
        raw: What it wrote so far.
        screen: What is to be seen.
    """

    def __init__(self, process: subprocess.Popen[bytes], fd: int, columns: int, lines: int) -> None:
        self.process = process
        self.raw = b""
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self._fd = fd

    @property
    def lines(self) -> list[str]:
        """The lines that are to be seen, without blanks at their ends."""
        return [line.rstrip() for line in self.screen.display]

    @property
    def modes(self) -> list[Any]:
        """How the terminal treats what is typed."""
        return termios.tcgetattr(self._fd)

    def until(self, done: Callable[[], object]) -> None:
        """Read until something is so.

        Raises:
            AssertionError: When it is not in time, or the process ends before.
        """
        end = monotonic() + _PATIENCE
        while not done():
            assert monotonic() < end, self.lines
            assert self._read(), self.lines

    def press(self, key: bytes) -> None:
        """Type at the terminal."""
        os.write(self._fd, key)

    def end(self) -> int:
        """Read to the end and return the exit code."""
        while self._read():
            pass
        return self.process.wait(_PATIENCE)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._fd], [], [], _PATIENCE)
        try:
            data = os.read(self._fd, 65536) if ready else b""
        except OSError:  # EIO: the last process that had the terminal ended
            data = b""
        self.raw += data
        self._stream.feed(data)
        return bool(data)


@contextmanager
def on_terminal(
    *arguments: object,
    columns: int = 80,
    lines: int = 24,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Terminal]:
    """Run `kvtier` on a terminal of a size; it is killed at the end if it still runs."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    plain = {k: v for k, v in ENVIRONMENT.items() if k not in {"NO_COLOR", "COLUMNS", "LINES"}}
    process = subprocess.Popen(
        # Without a controlling terminal Ctrl-C would reach nobody; the first open brings one.
        [sys.executable, "-c", _MAIN, os.ttyname(theirs), *map(str, arguments)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**plain, "TERM": "xterm", **environment},
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours, columns, lines)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
