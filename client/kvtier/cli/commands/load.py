"""`kvtier load`."""

import sys
from pathlib import Path
from typing import Any, NamedTuple

import click

from kvtier.cli.connect import connected, find_namespace
from kvtier.cli.exit import CommandError, ExitCode
from kvtier.cli.keys import Keys, hash_arguments, place_options, read_hashes
from kvtier.cli.options import Settings, common_options, pass_settings
from kvtier.cli.output import Column, printing
from kvtier.cli.run import run
from kvtier.client import NodeClient
from kvtier.v1.block_pb2 import BlockSet
from kvtier.wire.sizes import format_size

_COLUMNS = (
    Column("TIER", lambda r: r["tier"]),
    Column("SIZE", lambda r: format_size(r["size_bytes"]), right=True),
    Column("HASH", lambda r: r["block_hash"]),
)


class _Loaded(NamedTuple):
    block_hash: bytes
    tier: str
    data: bytes


@click.command()
@hash_arguments
@place_options
@click.option("--tier", help="Only from this tier; from the fastest that has it by default.")
@click.option(
    "--to",
    "target",
    type=click.Path(dir_okay=False, writable=True, allow_dash=True, path_type=Path),
    default="-",
    help="Write to this file; stdout by default.",
)
@common_options
@pass_settings
def command(
    settings: Settings,
    /,
    *,
    hashes: tuple[bytes, ...],
    file: Path | None,
    tier: str | None,
    target: Path,
    **place: Any,
) -> None:
    """Read blocks into a file or stdout.

    Their bytes are written one after the other. Nothing is written unless every block is there;
    otherwise the exit code is 3. With --to, what was loaded from where is listed on stdout.
    """
    keys = Keys(**place, hashes=read_hashes(hashes, file))
    to_stdout = str(target) == "-"
    if to_stdout and sys.stdout.isatty():
        raise click.UsageError("blocks are binary; name a file with --to, or use a pipe")
    loaded = run(_load(settings, keys, tier))
    data = b"".join(block.data for block in loaded)
    if to_stdout:
        sys.stdout.buffer.write(data)
        return
    target.write_bytes(data)
    with printing(settings, _COLUMNS) as printer:
        printer.write(
            [
                {"tier": b.tier, "block_hash": b.block_hash.hex(), "size_bytes": len(b.data)}
                for b in loaded
            ]
        )


async def _load(settings: Settings, keys: Keys, tier: str | None) -> list[_Loaded]:
    async with connected(settings.one_endpoint(), settings) as client:
        namespace = await find_namespace(client, keys.namespace)
        keys.packed(namespace.hash_width)
        tiers = [tier] if tier else [t.name for t in await client.list_tiers()]
        found: dict[bytes, _Loaded] = {}
        for name in tiers:
            wanted = [h for h in dict.fromkeys(keys.hashes) if h not in found]
            if wanted:
                found |= await _load_from(client, name, namespace.fingerprint, keys, wanted)
    missing = [h for h in keys.hashes if h not in found]
    if missing:
        what = f"{len(missing)} of {len(keys.hashes)} blocks are not there: {missing[0].hex()}"
        todo = "see where it is with kvtier describe block"
        raise CommandError(
            settings.one_endpoint(), what, todo, reason="MISS", code=ExitCode.NOT_FOUND
        )
    return [found[h] for h in keys.hashes]


async def _load_from(
    client: NodeClient, tier: str, fingerprint: bytes, keys: Keys, wanted: list[bytes]
) -> dict[bytes, _Loaded]:
    blocks = BlockSet(group=keys.group, scope=keys.scope, block_hashes=b"".join(wanted))
    report = await client.load(tier, fingerprint, [blocks])
    return {
        block_hash: _Loaded(block_hash, tier, data)
        for block_hash, data in zip(wanted, report.payloads, strict=True)
        if data is not None
    }
