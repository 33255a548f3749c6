"""Writing data to stdout: one interface, one renderer for each format."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kvtier.cli.options import Settings
from kvtier.cli.output.base import Column, Printer, Record
from kvtier.cli.output.json_printer import JsonLinesPrinter, JsonPrinter
from kvtier.cli.output.table import TablePrinter

__all__ = ["Column", "Printer", "Record", "printing"]


@contextmanager
def printing(settings: Settings, columns: Sequence[Column] = ()) -> Iterator[Printer]:
    """Give the printer of the wished format, and end its output whole on every way out.

    Args:
        settings: The format, and whether a table has titles.
        columns: What a table shows of each record.
    """
    printer: Printer
    match settings.output:
        case "json":
            printer = JsonPrinter(sys.stdout)
        case "jsonl":
            printer = JsonLinesPrinter(sys.stdout)
        case _:
            shown = [c for c in columns if settings.output == "wide" or not c.wide]
            printer = TablePrinter(sys.stdout, shown, titles=settings.headers)
    try:
        yield printer
    except BaseException:
        printer.close(whole=False)
        raise
    printer.close(whole=True)
