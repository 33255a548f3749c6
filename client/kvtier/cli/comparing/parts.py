"""Two sets of lines on disk, in parts that each fit in memory."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self
from zlib import crc32

_PARTS = 64


class Difference(NamedTuple):
    """What one part of two sets comes to.

    Attributes:
        first: Lines of the first set alone.
        second: Lines of the second alone.
        both: Lines of both.
    """

    first: set[str]
    second: set[str]
    both: set[str]


class Parts:
    """Takes lines into files, equal lines into the same, and compares file by file.

    A part has a sixty-fourth of all lines, and is all that is in memory at one time: 16 MiB of a
    million blocks on either side.

    Args:
        folder: A directory for the files.
    """

    def __init__(self, folder: Path) -> None:
        self._paths = [
            [folder / f"{side}-{part}" for part in range(_PARTS)] for side in ("first", "second")
        ]
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._files = [
                [stack.enter_context(path.open("w", encoding="ascii")) for path in paths]
                for paths in self._paths
            ]
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def add(self, side: int, line: str) -> None:
        """Take a line into the first set (0) or the second (1); twice is once."""
        self._files[side][crc32(line.encode()) % _PARTS].write(line)

    def differences(self) -> Iterator[Difference]:
        """Yield what each part comes to, once all lines are in."""
        self._stack.close()
        for first_path, second_path in zip(*self._paths, strict=True):
            first, second = _lines(first_path), _lines(second_path)
            yield Difference(first - second, second - first, first & second)


def _lines(path: Path) -> set[str]:
    with path.open(encoding="ascii") as lines:
        return set(lines)
