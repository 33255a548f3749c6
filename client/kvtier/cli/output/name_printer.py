"""Names alone, one a line, to be given to another command."""

from collections.abc import Iterable, Sequence
from typing import TextIO

from kvtier.cli.output.base import Namer, Record


class NamePrinter:
    """Writes each record's name; one that is as the name before it, or empty, is left out."""

    def __init__(self, out: TextIO, name: Namer) -> None:
        self._out = out
        self._name = name
        self._last = ""

    def write(self, records: Sequence[Record]) -> None:
        """Write a line for each record."""
        for record in records:
            name = self._name(record)
            if name not in {"", self._last}:
                self._out.write(f"{name}\n")
                self._last = name
        self._out.flush()

    def one(self, record: Record, lines: Iterable[str]) -> None:
        """Write the record's name."""
        del lines
        self.write([record])

    def close(self, *, whole: bool) -> None:
        """Do nothing: each line is whole."""
