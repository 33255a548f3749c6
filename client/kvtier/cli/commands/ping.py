"""`kvtier ping`."""

import asyncio

import click

from kvtier.cli.connect import raise_first
from kvtier.cli.latencies import milliseconds
from kvtier.cli.options import Settings, common_options, pass_settings
from kvtier.cli.output import Column, printing
from kvtier.cli.params import interval_option
from kvtier.cli.pinging import Pinged, ping, wait_until_ready
from kvtier.cli.run import run

_COLUMNS = (
    Column("ENDPOINT", lambda r: r["endpoint"]),
    Column("STATE", lambda r: r["state"]),
    Column("SENT", lambda r: str(r["sent"]), right=True),
    Column("LOST", lambda r: str(r["lost"]), right=True),
    Column("MIN MS", lambda r: milliseconds(r["min_ms"]), right=True),
    Column("P50 MS", lambda r: milliseconds(r["p50_ms"]), right=True),
    Column("P99 MS", lambda r: milliseconds(r["p99_ms"]), right=True),
    Column("MAX MS", lambda r: milliseconds(r["max_ms"]), right=True),
)


@click.command()
@click.option(
    "-c",
    "--count",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="Round trips to each endpoint.",
)
@interval_option("Pause between two of them.", default=0.2, least=0)
@click.option(
    "--wait",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="First wait so long, at most, until all are ready.",
)
@common_options
@pass_settings
def command(settings: Settings, /, *, count: int, interval: float, wait: float | None) -> None:
    """Measure round trips to nodes and proxies, and tell whether they are ready.

    A round trip is a health check, which needs no permission. One that fails, or takes longer than
    --timeout, is lost. The exit code is 4 when an endpoint never answers or, with --wait, one is
    not ready in time; one that answers is otherwise good enough. Ctrl-C ends it with what was
    measured so far.
    """
    every = [Pinged(endpoint) for endpoint in settings.endpoints]
    try:
        run(_ping_all(settings, every, count, interval, wait))
    finally:
        if any(pinged.sent for pinged in every):
            with printing(settings, _COLUMNS) as printer:
                printer.write([pinged.record() for pinged in every])
    raise_first(pinged.error for pinged in every if pinged.ready is None)


async def _ping_all(
    settings: Settings, every: list[Pinged], count: int, interval: float, wait: float | None
) -> None:
    await asyncio.gather(*(_ping(settings, each, count, interval, wait) for each in every))


async def _ping(
    settings: Settings, pinged: Pinged, count: int, interval: float, wait: float | None
) -> None:
    if wait is not None:
        await wait_until_ready(pinged.endpoint, settings, wait)
    await ping(pinged, settings, count, interval)
