"""`kvtier copy`."""

import sys
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, NamedTuple

import click

from kvtier.cli.connect import connected, find_namespace
from kvtier.cli.exit import CommandError, ExitCode
from kvtier.cli.keys import Keys, hash_arguments, hash_bytes, place_options, read_hashes
from kvtier.cli.options import Settings, common_options, pass_settings
from kvtier.cli.output import Column, Record, printing
from kvtier.cli.output.messages import word
from kvtier.cli.output.names import block_name_if
from kvtier.cli.progress import progress
from kvtier.cli.run import run
from kvtier.v1.block_pb2 import BlockRun
from kvtier.v1.copying_pb2 import PeerTier
from kvtier.v1.result_pb2 import CopyResult

_PREFIX = "COPY_RESULT_"
_COLUMNS = (
    Column("TIER", lambda r: r["tier"]),
    Column("RESULT", lambda r: word(r["result"], _PREFIX), width=8),
    Column("HASH", lambda r: r["block_hash"]),
)
_GOOD = {f"{_PREFIX}COPIED", f"{_PREFIX}PRESENT"}


class _Way(NamedTuple):
    to_tier: str
    from_tier: str | None
    from_peer: PeerTier | None
    move: bool
    parent: bytes
    start_position: int
    adapter_name: str


def _peer_tier(value: str | None) -> PeerTier | None:
    if value is None:
        return None
    endpoint, slash, tier = value.rpartition("/")
    if not slash or not endpoint or not tier:
        raise click.BadParameter(f"{value!r} is not HOST:PORT/TIER, such as node-2:7600/cpu0")
    return PeerTier(endpoint=endpoint, tier=tier)


@click.command()
@hash_arguments
@place_options
@click.option("--to-tier", required=True, help="The tier that takes the copies.")
@click.option("--from-tier", help="The tier of the same node where the blocks are.")
@click.option(
    "--from-peer",
    metavar="HOST:PORT/TIER",
    help="Or a tier of another node, by its address as the node's configuration lists it.",
)
@click.option("--move", is_flag=True, help="Remove the blocks from --from-tier.")
@click.option(
    "--parent",
    type=hash_bytes,
    default=b"",
    metavar="HEX",
    help="The first block's parent; only with --from-peer.",
)
@click.option(
    "--start-position",
    type=click.IntRange(0),
    default=0,
    help="Where the first block starts, in tokens; only with --parent.",
)
@click.option("--adapter-name", default="", help="The adapter's name; only with --from-peer.")
@common_options
@pass_settings
def command(
    settings: Settings,
    /,
    *,
    hashes: tuple[bytes, ...],
    file: Path | None,
    from_peer: str | None,
    namespace: str,
    group: int,
    scope: bytes,
    **options: Any,
) -> None:
    """Copy or move blocks from tier to tier.

    HASHES are a chain, parent first. From a peer they become a chain of the node with the parent
    and the position that are given; within a node each block keeps its own. What became of each
    block is told as soon as it is known. A block that the source has not is told, and the exit code
    is 3; if one could not be copied for another reason it is 1.
    """
    keys = Keys(namespace, group, scope, read_hashes(hashes, file))
    way = _Way(from_peer=_peer_tier(from_peer), **options)
    _check_way(way)
    results: Counter[str] = Counter()
    # On a terminal the rows are the progress, and a bar would stand between them.
    total = None if sys.stdout.isatty() else len(keys.hashes)
    name = block_name_if(*_GOOD)
    with printing(settings, _COLUMNS, name) as printer, progress("copying", total) as moved:

        def tell(records: list[Record]) -> None:
            printer.write(records)
            moved(len(records))
            results.update(record["result"] for record in records)

        run(_copy(settings, keys, way, tell))
    _check(settings.one_endpoint(), results)


def _check_way(way: _Way) -> None:
    if (way.from_tier is None) == (way.from_peer is None):
        raise click.UsageError("name where the blocks are: --from-tier or --from-peer")
    if way.from_peer is not None and way.move:
        raise click.UsageError("blocks move only within a node; leave --move out")
    if way.from_tier is not None and (way.parent or way.adapter_name):
        raise click.UsageError("--parent and --adapter-name are for --from-peer only")
    if bool(way.start_position) != bool(way.parent):
        raise click.UsageError("--parent and --start-position go together")


async def _copy(
    settings: Settings, keys: Keys, way: _Way, tell: Callable[[list[Record]], None]
) -> None:
    """Copy the blocks, and tell what became of each as it is known."""
    async with connected(settings.one_endpoint(), settings) as client:
        namespace = await find_namespace(client, keys.namespace)
        chain = BlockRun(
            group=keys.group,
            scope=keys.scope,
            block_hashes=keys.packed(namespace.hash_width),
            parent_block_hash=way.parent,
            start_position=way.start_position,
            adapter_name=way.adapter_name,
        )
        answers = client.copy(
            namespace.fingerprint,
            [chain],
            to_tier=way.to_tier,
            from_tier=way.from_tier,
            from_peer=way.from_peer,
            move=way.move,
        )
        async with aclosing(answers):
            async for answer in answers:
                tell(
                    [
                        {
                            "tier": way.to_tier,
                            "block_hash": keys.hashes[place].hex(),
                            "result": CopyResult.Name(result),
                        }
                        for place, result in zip(answer.block_indexes, answer.results, strict=True)
                    ]
                )


def _check(endpoint: str, results: Counter[str]) -> None:
    bad = {result: count for result, count in results.items() if result not in _GOOD}
    if not bad:
        return
    told = ", ".join(f"{count} {word(result, _PREFIX)}" for result, count in bad.items())
    what = f"{sum(bad.values())} of {results.total()} blocks were not copied: {told}"
    missing = set(bad) == {f"{_PREFIX}MISS"}
    code = ExitCode.NOT_FOUND if missing else ExitCode.FAILED
    raise CommandError(endpoint, what, reason="MISS" if missing else "", code=code)
