"""Tables for people: aligned columns, short words."""

from collections.abc import Iterable, Sequence
from io import StringIO
from typing import TextIO

from kvtier.cli.output.base import Column, Record
from kvtier.cli.output.colour import paint

_GAP = "  "


class TablePrinter:
    """Aligned columns; the first batch of records sets the widths of all.

    So a long listing can start at once. A later cell that is wider only shifts its own line.
    """

    def __init__(
        self,
        out: TextIO,
        columns: Sequence[Column],
        *,
        titles: bool = True,
        colour: bool = False,
    ) -> None:
        self._out = out
        self._columns = columns
        self._titles = titles
        self._colour = colour
        self._widths: list[int] | None = None
        self._is_list = True

    def write(self, records: Sequence[Record]) -> None:
        """Write a row for each record."""
        rows = [cells(self._columns, record) for record in records]
        if self._widths is None:
            self._widths = column_widths(self._columns, rows)
            if self._titles:
                titles = [column.title for column in self._columns]
                self._out.write(f"{align(self._columns, self._widths, titles)}\n")
        for record, row in zip(records, rows, strict=True):
            tones = cell_tones(self._columns, record) if self._colour else ()
            self._out.write(f"{align(self._columns, self._widths, row, tones)}\n")
        self._out.flush()

    def one(self, record: Record, lines: Iterable[str]) -> None:
        """Write the lines."""
        del record
        self._is_list = False
        self._out.writelines(f"{line}\n" for line in lines)

    def close(self, *, whole: bool) -> None:
        """Write the titles of an empty table, when nothing failed."""
        if self._is_list and whole and self._widths is None:
            self.write([])
        self._out.flush()


def table_lines(
    columns: Sequence[Column],
    records: Sequence[Record],
    *,
    titles: bool = True,
    colour: bool = False,
) -> list[str]:
    """Return a whole table as lines."""
    out = StringIO()
    printer = TablePrinter(out, columns, titles=titles, colour=colour)
    printer.write(records)
    return out.getvalue().splitlines()


def field_lines(fields: Iterable[tuple[str, str]]) -> list[str]:
    """Return names and values as lines, the values aligned."""
    pairs = [(name, printable(value)) for name, value in fields]
    width = max(len(name) for name, _ in pairs)
    return [f"{name:<{width}}{_GAP}{value}".rstrip() for name, value in pairs]


def cells(columns: Sequence[Column], record: Record) -> list[str]:
    """Return a record's cells."""
    return [printable(column.value(record)) for column in columns]


def column_widths(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> list[int]:
    """Return the width of each column: that of its widest cell, title or stated minimum."""
    widths = [max(len(column.title), column.width) for column in columns]
    for row in rows:
        widths = [max(width, len(cell)) for width, cell in zip(widths, row, strict=True)]
    return widths


def cell_tones(columns: Sequence[Column], record: Record) -> list[str]:
    """Return the colours of a record's cells, empty for none."""
    return [column.tone(record) for column in columns]


def align(
    columns: Sequence[Column],
    widths: Sequence[int],
    row: Sequence[str],
    tones: Sequence[str] = (),
) -> str:
    """Return one line of a table, without blanks at its end."""
    placed = [
        cell.rjust(width) if column.right else cell.ljust(width)
        for column, width, cell in zip(columns, widths, row, strict=True)
    ]
    if not any(tones):
        return _GAP.join(placed).rstrip()
    painted = [paint(cell, tone) for cell, tone in zip(placed, tones, strict=True)]
    return _GAP.join(painted).rstrip()


def printable(text: str) -> str:
    """Return text that cannot steer a terminal: what does not print is escaped."""
    return text if text.isprintable() else text.encode("unicode_escape").decode()
