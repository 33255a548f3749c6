"""Writing data to stdout: one interface, one renderer for each format."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kvtier.cli.exit import CommandError, ExitCode
from kvtier.cli.options import Settings
from kvtier.cli.output.base import Column, Namer, Printer, Record
from kvtier.cli.output.colour import wants_colour
from kvtier.cli.output.json_printer import JsonLinesPrinter, JsonPrinter
from kvtier.cli.output.name_printer import NamePrinter
from kvtier.cli.output.table import TablePrinter
from kvtier.cli.output.yaml_printer import YamlPrinter

__all__ = ["Column", "Namer", "Printer", "Record", "printing", "shown_columns"]


@contextmanager
def printing(
    settings: Settings, columns: Sequence[Column] = (), name: Namer | None = None
) -> Iterator[Printer]:
    """Give the printer of the wished format, and end its output whole on every way out.

    A command enters it before it does anything, so that a format which it does not have is refused
    first.

    Args:
        settings: The format, and whether a table has titles.
        columns: What a table shows of each record.
        name: How a record is called with -o name; None where that makes no sense.

    Raises:
        CommandError: When names are asked for and there are none.
    """
    printer = _printer(settings, columns, name)
    try:
        yield printer
    except BaseException:
        printer.close(whole=False)
        raise
    printer.close(whole=True)


def shown_columns(settings: Settings, columns: Sequence[Column]) -> list[Column]:
    """Return the columns of a table that is wide or not."""
    return [c for c in columns if settings.output == "wide" or not c.wide]


def _required(name: Namer | None) -> Namer:
    if name is None:
        what = "what this command tells has no names"
        raise CommandError("kvtier", what, "choose another format with -o", code=ExitCode.USAGE)
    return name


def _printer(settings: Settings, columns: Sequence[Column], name: Namer | None) -> Printer:
    match settings.output:
        case "json":
            return JsonPrinter(sys.stdout)
        case "jsonl":
            return JsonLinesPrinter(sys.stdout)
        case "yaml":
            return YamlPrinter(sys.stdout)
        case "name":
            return NamePrinter(sys.stdout, _required(name))
        case _:
            colour = wants_colour(settings.color, sys.stdout)
            shown = shown_columns(settings, columns)
            return TablePrinter(sys.stdout, shown, titles=settings.headers, colour=colour)
