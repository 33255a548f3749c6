"""`kvtier top`."""

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime

import click

from kvtier.cli.connect import raise_first
from kvtier.cli.options import Settings, common_options, pass_settings
from kvtier.cli.output import Record, printing
from kvtier.cli.output.colour import wants_colour
from kvtier.cli.output.screen import drawing
from kvtier.cli.params import interval_option
from kvtier.cli.run import run
from kvtier.cli.top.frame import frame
from kvtier.cli.top.keys import ended_by_q
from kvtier.cli.top.sampler import Sampler

_Show = Callable[[Sequence[Record]], None]


@click.command()
@interval_option("Time between two pictures.")
@click.option(
    "-c",
    "--count",
    type=click.IntRange(1),
    help="End after so many pictures.  [default: at q or Ctrl-C]",
)
@common_options
@pass_settings
def command(settings: Settings, /, *, interval: float, count: int | None) -> None:
    """Show live what nodes and tiers do.

    Rates are those since the picture before. At a terminal each picture takes the place of the one
    before, the first at once and without rates, and q ends it. Elsewhere they follow each other,
    the first after one interval: `kvtier top -c 1` is a single one.

    A proxy tells of all tiers behind it, and has no log of its own. With -o json or jsonl a record
    is a node at one time, with its tiers. With --count the exit code is 4 when a node did not
    answer last.
    """
    run(_top(settings, interval, count))


async def _top(settings: Settings, interval: float, count: int | None) -> None:
    sampler = Sampler(settings)
    with _showing(settings, interval) as (show, left):
        first = await sampler.take()
        if _is_on_a_screen(settings):
            show(first)
        shown = 0
        while not await _is_set(left, interval):
            show(await sampler.take())
            shown += 1
            if shown == count:
                break
    if count is not None and not left.is_set():
        raise_first(sampler.errors)


def _is_on_a_screen(settings: Settings) -> bool:
    return settings.for_people and sys.stdout.isatty()


def _showing(
    settings: Settings, interval: float
) -> AbstractContextManager[tuple[_Show, asyncio.Event]]:
    """Give what shows a picture, and what is set when the user has enough."""
    if _is_on_a_screen(settings):
        return _on_a_screen(settings, interval)
    return _one_after_another(settings) if settings.for_people else _as_records(settings)


async def _is_set(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event, so long at most, and tell whether it came."""
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()


@contextmanager
def _on_a_screen(settings: Settings, interval: float) -> Iterator[tuple[_Show, asyncio.Event]]:
    colour = wants_colour(settings.color, sys.stdout)
    with drawing(sys.stdout) as screen, ended_by_q() as left:

        def show(nodes: Sequence[Record]) -> None:
            now = datetime.now().astimezone()
            title = f"kvtier top  {now:%H:%M:%S}  every {interval:g} s  q ends it"
            screen.draw([title, "", *frame(settings, nodes, colour=colour)])

        yield show, left


@contextmanager
def _one_after_another(settings: Settings) -> Iterator[tuple[_Show, asyncio.Event]]:
    separator, colour = "", wants_colour(settings.color, sys.stdout)

    def show(nodes: Sequence[Record]) -> None:
        nonlocal separator
        click.echo(separator + "\n".join(frame(settings, nodes, colour=colour)))
        separator = "\n"

    yield show, asyncio.Event()


@contextmanager
def _as_records(settings: Settings) -> Iterator[tuple[_Show, asyncio.Event]]:
    with printing(settings) as printer:
        yield printer.write, asyncio.Event()
