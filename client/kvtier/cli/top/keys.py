"""The key that ends a live picture."""

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ended_by_q() -> Iterator[asyncio.Event]:
    """Give an event that q sets where stdin is a terminal, which is left as it was."""
    left = asyncio.Event()
    if not sys.stdin.isatty():
        yield left
        return
    keyboard, loop = sys.stdin.fileno(), asyncio.get_running_loop()

    def read_keys() -> None:
        keys = os.read(keyboard, 1024)
        if not keys:
            loop.remove_reader(keyboard)
        elif b"q" in keys.lower():
            left.set()

    before = termios.tcgetattr(keyboard)
    tty.setcbreak(keyboard)
    loop.add_reader(keyboard, read_keys)
    try:
        yield left
    finally:
        loop.remove_reader(keyboard)
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
