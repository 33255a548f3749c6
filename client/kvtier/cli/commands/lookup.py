"""`kvtier lookup`."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from kvtier.cli.connect import find_namespace, raise_first
from kvtier.cli.keys import Keys, hash_arguments, place_options, read_hashes
from kvtier.cli.options import Settings, common_options, pass_settings
from kvtier.cli.output import Column, Record, printing
from kvtier.cli.output.messages import word
from kvtier.cli.output.names import block_name, node_name
from kvtier.cli.ranking import COLUMNS, WEIGHTS, rank, weight_of
from kvtier.cli.refreshing import Listing, asking_all, show_once
from kvtier.cli.run import run
from kvtier.client import NodeClient
from kvtier.v1.block_pb2 import BlockSet, Medium
from kvtier.v1.result_pb2 import ChainLookup, LookupResult


def _by_tier(record: Record) -> str:
    lengths = record["prefix_lengths"].items()
    return ", ".join(
        f"{tier} {length}{' (recovering)' if tier in record['recovering'] else ''}"
        for tier, length in lengths
    )


def _result(record: Record) -> str:
    result = word(record["result"], "LOOKUP_RESULT_")
    recovering = record["recovering"]
    if result != "retry" or not recovering:
        return result
    tiers, are = ("tiers", "are") if len(recovering) > 1 else ("tier", "is")
    return f"{result}: {tiers} {', '.join(recovering)} {are} still recovering"


_PREFIXES = (
    Column("NODE", lambda r: r["node_id"]),
    Column("CHAIN", lambda r: str(r["chain_length"]), right=True),
    Column("PREFIX", lambda r: str(r["union_prefix_length"]), right=True),
    Column("BY TIER", _by_tier),
)
_BLOCKS = (
    Column("NODE", lambda r: r["node_id"]),
    Column("RESULT", _result),
    Column("TIERS", lambda r: ", ".join(r["tiers"])),
    Column("HASH", lambda r: r["block_hash"]),
)


@click.command()
@hash_arguments
@place_options
@click.option("--blocks", is_flag=True, help="Answer for each block, also past the first miss.")
@click.option(
    "--all-nodes", is_flag=True, help="Rank the nodes by what each holds, from their events."
)
@click.option(
    "--weight",
    "weights",
    type=weight_of,
    multiple=True,
    metavar="MEDIUM=NUMBER",
    help="With --all-nodes: what a block on a medium is worth; may be repeated.",
)
@common_options
@pass_settings
def command(
    settings: Settings,
    /,
    *,
    hashes: tuple[bytes, ...],
    file: Path | None,
    blocks: bool,
    all_nodes: bool,
    weights: tuple[tuple[Medium.ValueType, float], ...],
    **place: Any,
) -> None:
    """Tell how long a prefix of a chain each tier holds.

    HASHES are the chain, parent first. PREFIX counts the leading blocks that are readable in one
    tier of the node or another. A tier that is recovering does not know yet all that it holds: its
    number may grow, and with --blocks what no tier has is "retry" and not "miss".

    With --all-nodes the nodes are followed until they are in sync, and ranked: SCORE is the sum of
    what the blocks of PREFIX are worth, each by the best medium that the node has it on. A block in
    a GPU's memory is worth 1, on the host 0.5, in a file 0.25 and in an object store 0.125, unless
    --weight says otherwise. A node whose QUALITY is not "exact" scores nothing.
    """
    keys = Keys(**place, hashes=read_hashes(hashes, file))
    if all_nodes:
        if blocks:
            raise click.UsageError("--blocks and --all-nodes exclude each other")
        _rank(settings, keys, weights)
        return
    if weights:
        raise click.UsageError("--weight is for --all-nodes")

    async def ask(client: NodeClient) -> list[Record]:
        return await _lookup(client, keys, blocks=blocks)

    columns, name = (_BLOCKS, block_name) if blocks else (_PREFIXES, node_name)
    run(show_once(settings, Listing(columns, name, asking_all(settings, ask))))


def _rank(
    settings: Settings, keys: Keys, weights: Iterable[tuple[Medium.ValueType, float]]
) -> None:
    with printing(settings, COLUMNS, node_name) as printer:
        records, errors = run(rank(settings, keys, {**WEIGHTS, **dict(weights)}))
        printer.write(records)
    raise_first(errors)


async def _lookup(client: NodeClient, keys: Keys, *, blocks: bool) -> list[Record]:
    node = await client.get_node()
    namespace = await find_namespace(client, keys.namespace)
    chain = BlockSet(
        group=keys.group, scope=keys.scope, block_hashes=keys.packed(namespace.hash_width)
    )
    answer = await client.lookup(namespace.fingerprint, [chain], include_blocks=blocks)
    found = answer.chains[0]
    recovering = _masked(answer.tiers, answer.recovering_mask)
    if blocks:
        return _block_records(node.node_id, keys, found, answer.tiers, recovering)
    prefixes = dict(zip(answer.tiers, found.prefix_lengths, strict=True))
    return [
        {
            "node_id": node.node_id,
            "chain_length": len(keys.hashes),
            "union_prefix_length": found.union_prefix_length,
            "prefix_lengths": prefixes,
            "recovering": recovering,
        }
    ]


def _masked(tiers: Sequence[str], mask: int) -> list[str]:
    return [tier for bit, tier in enumerate(tiers) if mask >> bit & 1]


def _block_records(
    node_id: str,
    keys: Keys,
    found: ChainLookup,
    tiers: Sequence[str],
    recovering: Sequence[str],
) -> list[Record]:
    return [
        {
            "node_id": node_id,
            "block_hash": block_hash.hex(),
            "result": LookupResult.Name(result),
            "tiers": _masked(tiers, mask),
            "recovering": recovering,
        }
        for block_hash, result, mask in zip(
            keys.hashes, found.results, found.tier_masks, strict=True
        )
    ]
