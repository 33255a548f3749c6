"""A terminal on which lines are drawn over those before."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

_STYLE = re.compile(r"(\x1b\[[0-9;]*m)")
_ERASE_BELOW = "\r\x1b[J"
_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


class Screen:
    """Draws lines where the cursor stands, and later ones over them; what is above stays.

    Args:
        out: The terminal.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._drawn = 0

    @property
    def height(self) -> int:
        """Lines of the terminal's window."""
        return os.get_terminal_size(self._out.fileno()).lines

    def draw(self, lines: Sequence[str], below: Sequence[str] = ()) -> None:
        """Show as many of some lines as fit above others, all cut to the window's width."""
        width, height = os.get_terminal_size(self._out.fileno())
        # The cursor stands on a line of its own below.
        free = max(height - 1 - len(below), 1)
        shown = [*lines[:free], *below]
        up = f"\x1b[{self._drawn}A" if self._drawn else ""
        self._out.write(up + _ERASE_BELOW)
        self._out.writelines(f"{cut(line, width)}\n" for line in shown)
        self._out.flush()
        self._drawn = len(shown)


@contextmanager
def drawing(out: TextIO) -> Iterator[Screen]:
    """Give a terminal without its cursor, which is back on every way out."""
    out.write(_HIDE_CURSOR)
    try:
        yield Screen(out)
    finally:
        out.write(_SHOW_CURSOR)
        out.flush()


def cut(line: str, width: int) -> str:
    """Return a line of so many characters at most, not counting what sets colours."""
    parts = []
    for part in _STYLE.split(line):
        is_style = part.startswith("\x1b")
        parts.append(part if is_style else part[:width])
        width -= 0 if is_style else len(parts[-1])
    return "".join(parts)
