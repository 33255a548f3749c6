"""`kvtier pin`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from kvtier.cli.connect import connected, find_namespace
from kvtier.cli.exit import CommandError, ExitCode
from kvtier.cli.keys import Keys, hash_arguments, place_options, read_hashes
from kvtier.cli.options import Settings, common_options, pass_settings
from kvtier.cli.output import Column, Record, printing
from kvtier.cli.output.messages import word
from kvtier.cli.output.names import pin_name
from kvtier.cli.pins import DEFAULT_OWNER, show_pin
from kvtier.cli.run import run
from kvtier.v1.block_pb2 import BlockSet
from kvtier.v1.result_pb2 import LookupResult

_PREFIX = "LOOKUP_RESULT_"
_COLUMNS = (
    Column("TIER", lambda r: r["tier"]),
    Column("RESULT", lambda r: word(r["result"], _PREFIX)),
    Column("HASH", lambda r: r["block_hash"]),
    Column("PIN", lambda r: r["pin"]),
)


@click.command()
@hash_arguments
@place_options
@click.option("--tier", required=True, help="The tier's name.")
@click.option(
    "--ttl",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="How long to keep them; the node's own time for pins by default.",
)
@click.option("--owner", default=DEFAULT_OWNER, show_default=True, help="Who holds the pin.")
@common_options
@pass_settings
def command(
    settings: Settings,
    /,
    *,
    hashes: tuple[bytes, ...],
    file: Path | None,
    tier: str,
    ttl: float | None,
    owner: str,
    **place: Any,
) -> None:
    """Keep blocks for long, whatever comes.

    They stay in the tier until the pin expires or is taken back with kvtier unpin, also when the
    room is needed. A block that is not there is told and not pinned, and the exit code is 3.
    """
    keys = Keys(**place, hashes=read_hashes(hashes, file))
    with printing(settings, _COLUMNS, pin_name) as printer:
        records = run(_pin(settings, keys, tier, ttl, owner))
        printer.write(records)
    _check(settings.one_endpoint(), tier, records)


async def _pin(
    settings: Settings, keys: Keys, tier: str, ttl: float | None, owner: str
) -> list[Record]:
    async with connected(settings.one_endpoint(), settings) as client:
        namespace = await find_namespace(client, keys.namespace)
        blocks = BlockSet(
            group=keys.group, scope=keys.scope, block_hashes=keys.packed(namespace.hash_width)
        )
        answer = await client.pin(tier, namespace.fingerprint, [blocks], ttl=ttl, owner=owner)
        pin = show_pin(answer.lease)
        if LookupResult.LOOKUP_RESULT_HIT not in answer.results:
            await client.unpin([answer.lease])
            pin = ""
    return [
        {
            "tier": tier,
            "block_hash": block_hash.hex(),
            "result": LookupResult.Name(result),
            "pin": pin if result == LookupResult.LOOKUP_RESULT_HIT else "",
        }
        for block_hash, result in zip(keys.hashes, answer.results, strict=True)
    ]


def _check(endpoint: str, tier: str, records: Sequence[Record]) -> None:
    missing = {r["block_hash"] for r in records if r["result"] != f"{_PREFIX}HIT"}
    if missing:
        what = f"{len(missing)} blocks cannot be read in tier {tier} and are not pinned"
        todo = "see where they are with kvtier lookup --blocks"
        raise CommandError(endpoint, what, todo, reason="MISS", code=ExitCode.NOT_FOUND)
