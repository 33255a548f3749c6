"""YAML in block style, as one document."""

from collections.abc import Iterable, Sequence
from typing import TextIO

from kvtier.cli.output.base import Record
from kvtier.cli.output.yaml_text import yaml_lines


class YamlPrinter:
    """One YAML document: a sequence of all records, or the single record."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._is_empty = True

    def write(self, records: Sequence[Record]) -> None:
        """Write a batch of the sequence's records."""
        for record in records:
            self._lines(yaml_lines([record]))
        self._out.flush()

    def one(self, record: Record, lines: Iterable[str]) -> None:
        """Write the record as the whole document."""
        del lines
        self._lines(yaml_lines(record))

    def close(self, *, whole: bool) -> None:
        """Write an empty sequence if nothing came, and nothing failed."""
        if self._is_empty and whole:
            self._out.write("[]\n")
        self._out.flush()

    def _lines(self, lines: Iterable[str]) -> None:
        self._is_empty = False
        self._out.writelines(f"{line}\n" for line in lines)
