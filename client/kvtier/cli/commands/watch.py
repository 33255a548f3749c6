"""`kvtier watch`."""

import asyncio
from typing import NamedTuple

import click

from kvtier.cli.connect import connected, find_namespace
from kvtier.cli.events import BLOCK_EVENTS, EventReader
from kvtier.cli.exit import CommandError, ExitCode
from kvtier.cli.options import Settings, common_options, pass_settings
from kvtier.cli.output import Column, Printer, Record, printing
from kvtier.cli.output.messages import word
from kvtier.cli.run import run
from kvtier.client import Watch
from kvtier.v1.event_service_pb2 import WatchEventsResponse


def _event(record: Record) -> str:
    if record["event"] == "stored" and record["sequence"] is None:
        return "holds"
    return str(record["event"] if record["event"] in BLOCK_EVENTS else record["event"].upper())


def _blocks(record: Record) -> str:
    return str(
        len(record["block_hashes"]) if "block_hashes" in record else record.get("blocks", "")
    )


def _about(record: Record) -> str:
    words = [record.get("namespace_name", "")]
    match record["event"]:
        case "reset":
            words.append(word(record["reason"], "RESET_REASON_"))
        case "namespace":
            words.append(record["namespace"]["name"])
        case "state" if record["tier"]:
            words += [word(record["tier_state"], "TIER_STATE_"), record["reason"]]
        case "state":
            words += [word(record["source"], "SOURCE_STATE_"), record["reason"]]
        case "removed":
            words.append(word(record["reason"], "REMOVAL_REASON_"))
    if "block_hashes" in record:
        more = "…" if len(record["block_hashes"]) > 1 else ""
        words.append(record["block_hashes"][0][:12] + more)
    return "  ".join(word for word in words if word)


_COLUMNS = (
    Column("NODE", lambda r: r["node_id"], width=12),
    Column("POSITION", lambda r: str(r.get("sequence") or r["through"]), right=True),
    Column("EVENT", _event, width=9),
    Column("TIER", lambda r: r.get("tier", ""), width=5),
    Column("BLOCKS", _blocks, right=True),
    Column("ABOUT", _about),
)


class _Filter(NamedTuple):
    tiers: tuple[str, ...]
    namespace: str | None


@click.command()
@click.option("--tier", "tiers", multiple=True, help="Only this tier; may be repeated.")
@click.option("-n", "--namespace", help="Only this namespace, by name.")
@click.option("--limit", type=click.IntRange(1), help="Stop after so many block events.")
@click.option(
    "--for",
    "seconds",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Stop after this time; with --limit, fail if the events have not come by then.",
)
@common_options
@pass_settings
def command(
    settings: Settings,
    /,
    *,
    tiers: tuple[str, ...],
    namespace: str | None,
    limit: int | None,
    seconds: float | None,
) -> None:
    """Follow the events of nodes.

    It ends with Ctrl-C. First comes what the tiers hold, then SYNCED, then what changes. A
    connection that breaks is taken up again where it broke.
    """
    run(_watch(settings, _Filter(tiers, namespace), limit, seconds))


class _EnoughError(Exception):
    """The wished number of events has been printed."""


class _Sink:
    """Prints messages as records, and stops after so many block events."""

    def __init__(self, printer: Printer, limit: int | None) -> None:
        self._printer = printer
        self._left = limit
        self._reader = EventReader()

    def take(self, message: WatchEventsResponse) -> None:
        records = []
        for record in self._reader.read(message):
            records.append(record)
            if self._left is not None and record["event"] in BLOCK_EVENTS:
                self._left -= 1
            if self._left == 0:
                break
        if records:
            self._printer.write(records)
        if self._left == 0:
            raise _EnoughError


async def _watch(
    settings: Settings, wanted: _Filter, limit: int | None, seconds: float | None
) -> None:
    with printing(settings, _COLUMNS) as printer:
        sink = _Sink(printer, limit)
        try:
            async with asyncio.timeout(seconds), asyncio.TaskGroup() as followers:
                for endpoint in settings.endpoints:
                    followers.create_task(_follow(endpoint, settings, wanted, sink))
        except TimeoutError:
            if limit is not None:
                what = f"{limit} events did not come within {seconds:g} s"
                raise CommandError("kvtier", what, code=ExitCode.UNREACHABLE) from None
        except ExceptionGroup as group:
            if not isinstance(group.exceptions[0], _EnoughError):
                raise group.exceptions[0] from None


async def _follow(endpoint: str, settings: Settings, wanted: _Filter, sink: _Sink) -> None:
    async with connected(endpoint, settings) as client:
        # A node that cannot be reached to begin with is an error; one that is lost later is not.
        await client.get_node()
        only = []
        if wanted.namespace is not None:
            only = [(await find_namespace(client, wanted.namespace)).fingerprint]
        async with Watch(client, tiers=wanted.tiers, namespaces=only) as watch:
            async for message in watch:
                sink.take(message)
