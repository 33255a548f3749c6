"""`kvtier unpin`."""

from typing import Any

import click

from kvtier.cli.connect import connected
from kvtier.cli.exit import CommandError, ExitCode
from kvtier.cli.options import Settings, common_options, pass_settings
from kvtier.cli.output import Column, Record, printing
from kvtier.cli.output.messages import word
from kvtier.cli.output.table import table_lines
from kvtier.cli.pins import read_pin
from kvtier.cli.run import run
from kvtier.v1.result_pb2 import LeaseResult

_PREFIX = "LEASE_RESULT_"
_COLUMNS = (
    Column("RESULT", lambda r: word(r["result"], _PREFIX)),
    Column("PIN", lambda r: r["pin"]),
)


@click.command()
@click.argument("pins", nargs=-1, metavar="[PIN]...")
@click.option("--owner", default="", help="Take back all pins of this owner too.")
@common_options
@pass_settings
def command(settings: Settings, /, *, pins: tuple[str, ...], owner: str) -> None:
    """Take pins back.

    Name them as kvtier pin showed them, or their owner. A pin that the node does not know, or
    that expired before, is told, and the exit code is 3.
    """
    if not pins and not owner:
        raise click.UsageError("no pin given; name pins as arguments, or an owner with --owner")
    endpoint = settings.one_endpoint()
    with printing(settings) as printer:
        record = run(_unpin(settings, pins, owner))
        printer.one(record, _lines(record, owner, titles=settings.headers))
    gone = [r for r in record["pins"] if r["result"] != f"{_PREFIX}OK"]
    if gone:
        what = f"{len(gone)} pins were not there any more"
        raise CommandError(endpoint, what, reason="LEASE_UNKNOWN", code=ExitCode.NOT_FOUND)


async def _unpin(settings: Settings, pins: tuple[str, ...], owner: str) -> dict[str, Any]:
    leases = [read_pin(pin) for pin in pins]
    async with connected(settings.one_endpoint(), settings) as client:
        answer = await client.unpin(leases, owner)
    told = [
        {"pin": pin, "result": LeaseResult.Name(result)}
        for pin, result in zip(pins, answer.results, strict=True)
    ]
    return {"pins": told, "owner": owner, "owner_pins": answer.owner_pins}


def _lines(record: Record, owner: str, *, titles: bool) -> list[str]:
    lines = table_lines(_COLUMNS, record["pins"], titles=titles) if record["pins"] else []
    return [*lines, f"{owner}: {record['owner_pins']} pins taken back"] if owner else lines
