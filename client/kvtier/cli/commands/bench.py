"""`kvtier bench`."""

import secrets
from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from kvtier.cli.bench.bench import bench
from kvtier.cli.bench.plan import Plan, block_bytes_for, choose_tier, dangers
from kvtier.cli.confirm import confirm
from kvtier.cli.connect import connected
from kvtier.cli.latencies import milliseconds
from kvtier.cli.options import Settings, common_options, pass_settings
from kvtier.cli.output import Column, printing
from kvtier.cli.params import block_size
from kvtier.cli.run import run
from kvtier.v1.tier_pb2 import Tier
from kvtier.wire.sizes import format_size

_COLUMNS = (
    Column("OPERATION", lambda r: r["operation"]),
    Column("CALLS", lambda r: str(r["calls"]), right=True),
    Column("REFUSED", lambda r: str(r["refused"]), right=True),
    Column("MISSED", lambda r: str(r["missed_blocks"]), right=True, wide=True),
    Column("CALLS/S", lambda r: f"{r['calls_per_s']:,.0f}", right=True),
    Column("BLOCKS/S", lambda r: f"{r['blocks_per_s']:,.0f}", right=True),
    Column("BYTES/S", lambda r: format_size(round(r["bytes_per_s"])), right=True),
    Column("P50 MS", lambda r: milliseconds(r["p50_ms"]), right=True),
    Column("P99 MS", lambda r: milliseconds(r["p99_ms"]), right=True),
    Column("MAX MS", lambda r: milliseconds(r["max_ms"]), right=True, wide=True),
)


class _Options(NamedTuple):
    tier: str | None
    block_bytes: int | None
    blocks: int
    chains: int
    callers: int
    seconds: float


@click.command()
@click.option("--tier", help="The tier's name; the node's fastest by default.")
@click.option(
    "--block-bytes",
    type=block_size,
    metavar="SIZE",
    help="Bytes of each block; the tier's by default.",
)
@click.option(
    "--blocks",
    type=click.IntRange(1, 1024),
    default=16,
    show_default=True,
    help="Blocks of a chain, stored and loaded at once.",
)
@click.option(
    "--chains",
    type=click.IntRange(1, 128),
    default=8,
    show_default=True,
    help="Chains that each caller keeps and looks up at once.",
)
@click.option(
    "--callers",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    help="Callers at one time, each with connections of its own.",
)
@click.option(
    "--for",
    "seconds",
    type=click.FloatRange(min=0.1, max=600),
    metavar="SECONDS",
    default=5,
    show_default=True,
    help="How long to go on.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask when others' blocks may be evicted.")
@common_options
@pass_settings
def command(settings: Settings, /, *, yes: bool, **options: Any) -> None:
    """Measure lookups, stores and loads of a node by a small load.

    Each caller in turn deletes its oldest chain, stores another, looks all of its chains up and
    loads the new one, which is compared. Rates are those of this mix, from one process, over gRPC.

    The load has a namespace of its own, which is removed with its blocks at the end, and on Ctrl-C.
    It asks first when the tier, or one that its blocks go on to, has not room for all of them, or
    when the node has no slots yet: their size would be that of these blocks.
    """
    endpoint, chosen = settings.one_endpoint(), _Options(**options)
    tiers = run(_tiers(settings))
    tier = choose_tier(endpoint, tiers, chosen.tier)
    plan = Plan(
        **chosen._asdict()
        | {"tier": tier.name, "block_bytes": chosen.block_bytes or block_bytes_for(tier)}
    )
    plan.check()
    told = dangers(tiers, plan)
    if told:
        question = f"{endpoint}: {', and '.join(told)}. Go on?"
        confirm(question, agreed=yes, what=f"may cost others their blocks: {', and '.join(told)}")
    records = run(bench(settings, plan, f"kvtier-bench-{secrets.token_hex(6)}"))
    with printing(settings, _COLUMNS) as printer:
        printer.write(records)


async def _tiers(settings: Settings) -> Sequence[Tier]:
    async with connected(settings.one_endpoint(), settings) as client:
        return await client.list_tiers()
