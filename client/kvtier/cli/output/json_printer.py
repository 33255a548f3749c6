"""JSON, as one document or one object a line."""

import json
from collections.abc import Iterable, Sequence
from typing import TextIO

from kvtier.cli.output.base import Record


class JsonPrinter:
    """One JSON document: an array of all records, or the single record."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._separator = "[\n"
        self._is_list = True

    def write(self, records: Sequence[Record]) -> None:
        """Write a batch of the array's records."""
        for record in records:
            self._out.write(f"{self._separator} {json.dumps(record)}")
            self._separator = ",\n"
        self._out.flush()

    def one(self, record: Record, lines: Iterable[str]) -> None:
        """Write the record as the whole document."""
        del lines
        self._is_list = False
        self._out.write(json.dumps(record, indent=1) + "\n")

    def close(self, *, whole: bool) -> None:
        """Close the array; an empty one only when nothing failed."""
        begun = self._separator != "[\n"
        if self._is_list and begun:
            self._out.write("\n]\n")
        elif self._is_list and whole:
            self._out.write("[]\n")
        self._out.flush()


class JsonLinesPrinter:
    """One JSON object a line."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, records: Sequence[Record]) -> None:
        """Write a line for each record."""
        self._out.writelines(f"{json.dumps(record)}\n" for record in records)
        self._out.flush()

    def one(self, record: Record, lines: Iterable[str]) -> None:
        """Write the record as the only line."""
        del lines
        self.write([record])

    def close(self, *, whole: bool) -> None:
        """Do nothing: each line is whole."""
