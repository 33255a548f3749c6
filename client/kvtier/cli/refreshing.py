"""Listing once, or again and again with -w."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import click

from kvtier.cli.connect import ask_all, raise_first
from kvtier.cli.exit import CommandError
from kvtier.cli.options import Settings
from kvtier.cli.output import Column, Namer, Record, printing
from kvtier.cli.output.panes import pane
from kvtier.cli.params import interval_option
from kvtier.cli.run import run
from kvtier.client import NodeClient

F = TypeVar("F", bound=Callable[..., Any])


class Writer(Protocol):
    """Takes records."""

    def write(self, records: Sequence[Record]) -> None:
        """Take some."""


class Round(NamedTuple):
    """How one listing went.

    Attributes:
        errors: Why nodes are missing in it.
        notes: What else is to be said of it.
        failed: No node answered.
    """

    errors: Sequence[CommandError] = ()
    notes: Sequence[str] = ()
    failed: bool = False

    @property
    def remarks(self) -> list[str]:
        """The errors and notes as lines."""
        return [*(f"error: {error}" for error in self.errors), *(f"note: {n}" for n in self.notes)]


class Listing(NamedTuple):
    """A list that can be shown.

    Attributes:
        columns: What a table shows.
        name: How a record is called with -o name.
        ask: Writes the records, at most so many where a number is given.
    """

    columns: Sequence[Column]
    name: Namer
    ask: Callable[[Writer, int | None], Awaitable[Round]]


def watch_options(command: F) -> F:
    """Add --watch and --interval to a command that lists."""
    watch = click.option(
        "-w",
        "--watch",
        is_flag=True,
        help="Look again and again until Ctrl-C: on a terminal in place, elsewhere what is new or "
        "changed.",
    )
    return watch(interval_option("With --watch: the time between two looks.")(command))


def show(settings: Settings, listing: Listing, *, watch: bool, interval: float) -> None:
    """Show a list as the options of `watch_options` say, until it is done or interrupted.

    Raises:
        CommandError: When it fails.
    """
    run(keep_showing(settings, listing, interval) if watch else show_once(settings, listing))


async def show_once(settings: Settings, listing: Listing) -> None:
    """Show a list.

    Raises:
        CommandError: The first error, after what came is out.
    """
    with printing(settings, listing.columns, listing.name) as printer:
        looked = await listing.ask(printer, None)
        for note in looked.notes:
            click.echo(f"note: {note}", err=True)
        raise_first(looked.errors)


async def keep_showing(settings: Settings, listing: Listing, interval: float) -> None:
    """Show a list again and again, until cancelled.

    Args:
        settings: The format.
        listing: What to show.
        interval: Seconds between two looks.

    Raises:
        CommandError: When the first look reached no node; later ones are only told.
    """
    with pane(settings, listing.columns, listing.name) as shown:
        looked = await listing.ask(shown, shown.room)
        if looked.failed:
            raise_first(looked.errors)
        while True:
            shown.end(looked.remarks)
            await asyncio.sleep(interval)
            looked = await listing.ask(shown, shown.room)


def asking_all(
    settings: Settings, question: Callable[[NodeClient], Awaitable[list[Record]]]
) -> Callable[[Writer, int | None], Awaitable[Round]]:
    """Return what asks every node for its records."""

    async def ask(writer: Writer, most: int | None) -> Round:
        answers = await ask_all(settings, question)
        records = [record for answer in answers for record in answer.value or ()]
        if records:
            writer.write(records[:most])
        errors = [answer.error for answer in answers if answer.error is not None]
        return Round(errors, failed=len(errors) == len(answers))

    return ask
