"""`kvtier delete`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from kvtier.cli.confirm import confirm
from kvtier.cli.connect import connected, find_namespace
from kvtier.cli.exit import CommandError, ExitCode
from kvtier.cli.keys import Keys, hash_arguments, place_options, read_hashes
from kvtier.cli.options import Settings, common_options, pass_settings
from kvtier.cli.output import Column, Record, printing
from kvtier.cli.output.messages import word
from kvtier.cli.output.names import block_name_if
from kvtier.cli.run import run
from kvtier.v1.block_pb2 import BlockSet
from kvtier.v1.result_pb2 import DeleteResult

_PREFIX = "DELETE_RESULT_"
_COLUMNS = (
    Column("TIER", lambda r: r["tier"]),
    Column("RESULT", lambda r: word(r["result"], _PREFIX)),
    Column("HASH", lambda r: r["block_hash"]),
)


@click.command()
@hash_arguments
@place_options
@click.option("--tier", "tiers", multiple=True, help="Only from this tier; may be repeated.")
@click.option("--force", is_flag=True, help="Also remove blocks under leases.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@common_options
@pass_settings
def command(
    settings: Settings,
    /,
    *,
    hashes: tuple[bytes, ...],
    file: Path | None,
    tiers: tuple[str, ...],
    force: bool,
    yes: bool,
    **place: Any,
) -> None:
    """Remove blocks.

    They are removed from every tier of the node, or from the named ones. A block that no tier has
    is told, and the exit code is 3; one under a lease is left, and the exit code is 1, as when a
    tier cannot remove blocks now.
    """
    keys = Keys(**place, hashes=read_hashes(hashes, file))
    endpoint = settings.one_endpoint()
    confirm(f"Remove {len(keys.hashes)} blocks from {endpoint}?", agreed=yes)
    with printing(settings, _COLUMNS, block_name_if(f"{_PREFIX}DELETED")) as printer:
        records = run(_delete(settings, keys, tiers, force=force))
        printer.write(records)
    _check(endpoint, records)


async def _delete(
    settings: Settings, keys: Keys, tiers: Sequence[str], *, force: bool
) -> list[Record]:
    async with connected(settings.one_endpoint(), settings) as client:
        namespace = await find_namespace(client, keys.namespace)
        blocks = BlockSet(
            group=keys.group, scope=keys.scope, block_hashes=keys.packed(namespace.hash_width)
        )
        answer = await client.delete(namespace.fingerprint, [blocks], tiers=tiers, force=force)
    return [
        {
            "tier": deletion.tier,
            "block_hash": block_hash.hex(),
            "result": DeleteResult.Name(result),
        }
        for deletion in answer.tiers
        for block_hash, result in zip(keys.hashes, deletion.results, strict=True)
    ]


def _check(endpoint: str, records: Sequence[Record]) -> None:
    stuck = [r["tier"] for r in records if r["result"] == f"{_PREFIX}UNAVAILABLE"]
    if stuck:
        what = f"tier {stuck[0]} cannot remove {stuck.count(stuck[0])} blocks for good now"
        todo = "see its state: kvtier get tiers"
        raise CommandError(endpoint, what, todo, reason="UNAVAILABLE")
    busy = {r["block_hash"] for r in records if r["result"] == f"{_PREFIX}BUSY"}
    if busy:
        what = f"{len(busy)} blocks are under leases and stay"
        raise CommandError(endpoint, what, "wait for the leases, or use --force", reason="BUSY")
    gone = {r["block_hash"] for r in records if r["result"] == f"{_PREFIX}DELETED"}
    missing = {r["block_hash"] for r in records} - gone
    if missing:
        what = f"{len(missing)} blocks are in none of these tiers"
        raise CommandError(endpoint, what, reason="BLOCK_UNKNOWN", code=ExitCode.NOT_FOUND)
