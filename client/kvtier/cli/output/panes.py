"""Showing a list again and again: in place on a terminal, what changed elsewhere."""

import json
import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import click

from kvtier.cli.options import Settings
from kvtier.cli.output import Column, Namer, Printer, Record, printing, shown_columns
from kvtier.cli.output.colour import wants_colour
from kvtier.cli.output.screen import Screen, drawing
from kvtier.cli.output.table import cells, table_lines

_AGES = {"age", "remaining"}


class Pane(Protocol):
    """Takes a list in rounds."""

    @property
    def room(self) -> int | None:
        """Records of a round that can be shown; None when all can."""

    def write(self, records: Sequence[Record]) -> None:
        """Take records of this round."""

    def end(self, remarks: Sequence[str]) -> None:
        """Show what the round brought, and what is to be said of it."""


class Changes:
    """Prints the records that are not as in the round before; on stderr, new remarks.

    Args:
        printer: Where to.
        steady: What of a record counts; the passing of time alone should not.
    """

    room = None

    def __init__(self, printer: Printer, steady: Callable[[Record], Hashable]) -> None:
        self._printer = printer
        self._steady = steady
        self._before: set[int] = set()
        self._now: set[int] = set()
        self._said: Sequence[str] = ()

    def write(self, records: Sequence[Record]) -> None:
        """Print those that changed."""
        changed = []
        for record in records:
            mark = hash(self._steady(record))
            self._now.add(mark)
            if mark not in self._before:
                changed.append(record)
        if changed:
            self._printer.write(changed)

    def end(self, remarks: Sequence[str]) -> None:
        """Begin the next round."""
        for remark in remarks:
            if remark not in self._said:
                click.echo(remark, err=True)
        self._said = remarks
        self._before, self._now = self._now, set()


class InPlace:
    """Draws a table over the one of the round before, and the remarks below it.

    Args:
        screen: The terminal.
        columns: What the table shows.
        titles: Whether it has titles.
        colour: Whether it has colours.
    """

    def __init__(
        self, screen: Screen, columns: Sequence[Column], *, titles: bool, colour: bool
    ) -> None:
        self._screen = screen
        self._columns = columns
        self._titles = titles
        self._colour = colour
        self._records: list[Record] = []

    @property
    def room(self) -> int:
        """As many as the window has lines; what else is shown needs some of them."""
        return self._screen.height

    def write(self, records: Sequence[Record]) -> None:
        """Keep the records for the table."""
        self._records += records

    def end(self, remarks: Sequence[str]) -> None:
        """Draw the table, and the remarks below it."""
        table = table_lines(self._columns, self._records, titles=self._titles, colour=self._colour)
        self._screen.draw(table, remarks)
        self._records = []


@contextmanager
def pane(settings: Settings, columns: Sequence[Column], name: Namer | None) -> Iterator[Pane]:
    """Give the pane for the wished format and what stdout is."""
    shown = shown_columns(settings, columns)
    if settings.for_people and sys.stdout.isatty():
        colour = wants_colour(settings.color, sys.stdout)
        with drawing(sys.stdout) as screen:
            yield InPlace(screen, shown, titles=settings.headers, colour=colour)
        return
    with printing(settings, columns, name) as printer:
        yield Changes(printer, _steady_cells(shown) if settings.for_people else _steady_record)


def _steady_cells(columns: Sequence[Column]) -> Callable[[Record], Hashable]:
    steady = [column for column in columns if not column.ages]
    return lambda record: tuple(cells(steady, record))


def _steady_record(record: Record) -> Hashable:
    return json.dumps(_without_ages(record))


def _without_ages(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_ages(inner) for k, inner in value.items() if k not in _AGES}
    return [_without_ages(inner) for inner in value] if isinstance(value, list) else value
