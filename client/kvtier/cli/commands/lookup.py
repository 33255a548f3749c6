"""`kvtier lookup`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from kvtier.cli.connect import ask_all, find_namespace, raise_first
from kvtier.cli.keys import Keys, hash_arguments, place_options, read_hashes
from kvtier.cli.options import Settings, common_options, pass_settings
from kvtier.cli.output import Column, Record, printing
from kvtier.cli.output.messages import word
from kvtier.cli.run import run
from kvtier.client import NodeClient
from kvtier.v1.block_pb2 import BlockSet
from kvtier.v1.result_pb2 import ChainLookup, LookupResult

_PREFIXES = (
    Column("NODE", lambda r: r["node_id"]),
    Column("CHAIN", lambda r: str(r["chain_length"]), right=True),
    Column("PREFIX", lambda r: str(r["union_prefix_length"]), right=True),
    Column("BY TIER", lambda r: ", ".join(f"{t} {n}" for t, n in r["prefix_lengths"].items())),
)
_BLOCKS = (
    Column("NODE", lambda r: r["node_id"]),
    Column("RESULT", lambda r: word(r["result"], "LOOKUP_RESULT_")),
    Column("TIERS", lambda r: ", ".join(r["tiers"])),
    Column("HASH", lambda r: r["block_hash"]),
)


@click.command()
@hash_arguments
@place_options
@click.option("--blocks", is_flag=True, help="Answer for each block, also past the first miss.")
@common_options
@pass_settings
def command(
    settings: Settings,
    /,
    *,
    hashes: tuple[bytes, ...],
    file: Path | None,
    blocks: bool,
    **place: Any,
) -> None:
    """Tell how long a prefix of a chain each tier holds.

    HASHES are the chain, parent first. PREFIX counts the leading blocks that are readable in one
    tier of the node or another.
    """
    keys = Keys(**place, hashes=read_hashes(hashes, file))

    async def ask(client: NodeClient) -> list[Record]:
        return await _lookup(client, keys, blocks=blocks)

    answers = run(ask_all(settings, ask))
    with printing(settings, _BLOCKS if blocks else _PREFIXES) as printer:
        printer.write([record for answer in answers for record in answer.value or ()])
    raise_first(answer.error for answer in answers)


async def _lookup(client: NodeClient, keys: Keys, *, blocks: bool) -> list[Record]:
    node = await client.get_node()
    namespace = await find_namespace(client, keys.namespace)
    chain = BlockSet(
        group=keys.group, scope=keys.scope, block_hashes=keys.packed(namespace.hash_width)
    )
    answer = await client.lookup(namespace.fingerprint, [chain], include_blocks=blocks)
    found = answer.chains[0]
    if blocks:
        return _block_records(node.node_id, keys, found, answer.tiers)
    prefixes = dict(zip(answer.tiers, found.prefix_lengths, strict=True))
    return [
        {
            "node_id": node.node_id,
            "chain_length": len(keys.hashes),
            "union_prefix_length": found.union_prefix_length,
            "prefix_lengths": prefixes,
        }
    ]


def _block_records(
    node_id: str, keys: Keys, found: ChainLookup, tiers: Sequence[str]
) -> list[Record]:
    return [
        {
            "node_id": node_id,
            "block_hash": block_hash.hex(),
            "result": LookupResult.Name(result),
            "tiers": [tier for bit, tier in enumerate(tiers) if mask >> bit & 1],
        }
        for block_hash, result, mask in zip(
            keys.hashes, found.results, found.tier_masks, strict=True
        )
    ]
