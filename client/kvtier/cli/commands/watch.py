"""`kvtier watch`."""

import asyncio
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from kvtier.cli.connect import connected, find_namespace
from kvtier.cli.event_table import COLUMNS
from kvtier.cli.events import BLOCK_EVENTS, EventReader
from kvtier.cli.exit import CommandError, ExitCode
from kvtier.cli.options import Settings, common_options, pass_settings
from kvtier.cli.output import Printer, Record, printing
from kvtier.cli.output.messages import word
from kvtier.cli.position import position_of
from kvtier.cli.run import run
from kvtier.client import Watch
from kvtier.v1.block_pb2 import Medium, Position
from kvtier.v1.event_service_pb2 import EventView, NodePosition

_MEDIA = {word(name, "MEDIUM_"): value for name, value in Medium.items() if value}
_VIEWS = {word(name, "EVENT_VIEW_"): value for name, value in EventView.items() if value}


class _Options(NamedTuple):
    since: Position | None
    tiers: tuple[str, ...]
    media: tuple[str, ...]
    namespace: str | None
    view: str
    limit: int | None
    seconds: float | None


@click.command()
@click.option(
    "--since",
    type=position_of,
    metavar="EPOCH:SEQ",
    help="Resume after this position; with one endpoint.",
)
@click.option("--tier", "tiers", multiple=True, help="Only this tier; may be repeated.")
@click.option(
    "--medium",
    "media",
    multiple=True,
    type=click.Choice(list(_MEDIA)),
    help="Only tiers of this medium; may be repeated.",
)
@click.option("-n", "--namespace", help="Only this namespace, by name.")
@click.option(
    "--view",
    type=click.Choice(list(_VIEWS)),
    default="basic",
    show_default=True,
    help="With 'full' JSON has token ids too, where the namespace keeps them.",
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    help="Stop after so many block events, at the end of their batch.",
)
@click.option(
    "--for",
    "seconds",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Stop after this time; with --limit, fail if the events have not come by then.",
)
@common_options
@pass_settings
def command(settings: Settings, /, **options: Any) -> None:
    """Follow the events of nodes.

    It ends with Ctrl-C. First comes what the tiers hold, then SYNCED, then what changes. A
    connection that breaks is taken up again where it broke.

    To go on later, give --since the `position` of the last line of -o jsonl. No event is missed,
    and only the batch that the line was in the middle of comes again. Up to SYNCED `position` is
    null: half of what the tiers hold is nothing to go on from. In a table, EPOCH stands on the
    SYNCED line and SEQ under POSITION.

    If the node cannot go on from there, RESET says why, and what the tiers hold comes again.
    """
    chosen = _Options(**options)
    if chosen.since is not None and len(settings.endpoints) > 1:
        raise click.UsageError("--since is a position of one node; name one with --endpoint")
    run(_watch(settings, chosen))


class _EnoughError(Exception):
    """The wished number of events has been printed."""


class _Sink:
    """Prints messages as records, and stops after so many block events, at a batch's end.

    Attributes:
        position: From where to go on after what was printed; None when that cannot be said.
    """

    def __init__(self, printer: Printer, limit: int | None) -> None:
        self.position: str | None = None
        self._printer = printer
        self._left = limit

    def take(self, groups: Sequence[Sequence[Record]]) -> None:
        records: list[Record] = []
        for group in groups:
            records += group
            if self._left is not None:
                self._left -= sum(record["event"] in BLOCK_EVENTS for record in group)
                if self._left <= 0:
                    break
        if records:
            self._printer.write(records)
            self.position = records[-1]["position"]
        if self._left is not None and self._left <= 0:
            raise _EnoughError


async def _watch(settings: Settings, options: _Options) -> None:
    with printing(settings, COLUMNS) as printer:
        sink = _Sink(printer, options.limit)
        try:
            async with asyncio.timeout(options.seconds), asyncio.TaskGroup() as followers:
                for endpoint in settings.endpoints:
                    followers.create_task(_follow(endpoint, settings, options, sink))
        except TimeoutError:
            if options.limit is not None:
                what = f"{options.limit} events did not come within {options.seconds:g} s"
                raise CommandError("kvtier", what, code=ExitCode.UNREACHABLE) from None
        except ExceptionGroup as group:
            if not isinstance(group.exceptions[0], _EnoughError):
                raise group.exceptions[0] from None
        finally:
            _tell_how_to_go_on(settings, sink)


def _tell_how_to_go_on(settings: Settings, sink: _Sink) -> None:
    """Spare a person at a terminal the search for the position; programs read it from JSON."""
    at_a_terminal = settings.for_people and sys.stderr.isatty()
    if at_a_terminal and len(settings.endpoints) == 1 and sink.position is not None:
        click.echo(f"go on from here with --since {sink.position}", err=True)


async def _follow(endpoint: str, settings: Settings, options: _Options, sink: _Sink) -> None:
    async with connected(endpoint, settings) as client:
        # A node that cannot be reached to begin with is an error; one that is lost later is not.
        node_id = (await client.get_node()).node_id
        only = []
        if options.namespace is not None:
            only = [(await find_namespace(client, options.namespace)).fingerprint]
        resumed = {node_id: options.since} if options.since is not None else {}
        reader = EventReader(resumed)
        async with Watch(
            client,
            positions=[NodePosition(node_id=n, position=p) for n, p in resumed.items()],
            tiers=options.tiers,
            media=[_MEDIA[medium] for medium in options.media],
            namespaces=only,
            view=_VIEWS[options.view],
        ) as watch:
            async for message in watch:
                sink.take(list(reader.read(message)))
