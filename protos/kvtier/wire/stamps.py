"""Telling whether a file changed, without reading it."""

import os
from pathlib import Path

Stamp = tuple[int, int, int] | None
"""When a file was changed, its size, and which file it is; None for one that is not there."""


def stamp_of(path: Path) -> Stamp:
    """Return what is another once a file was changed or replaced."""
    try:
        found = os.stat(path)  # noqa: PTH116 - as light as it gets
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
