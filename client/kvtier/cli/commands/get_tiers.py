"""`kvtier get tiers`."""

from typing import Any

import click

from kvtier.cli.connect import ask_all, raise_first
from kvtier.cli.options import Settings, common_options, pass_settings
from kvtier.cli.output import Column, Record, printing
from kvtier.cli.output.messages import to_record, word
from kvtier.cli.output.times import length
from kvtier.cli.run import run
from kvtier.client import NodeClient
from kvtier.wire.sizes import format_size


def _use(record: Record) -> str:
    if not record["capacity_blocks"]:
        return ""
    return f"{record['ready_blocks'] / record['capacity_blocks']:.0%}"


def _oldest_lease(record: Record) -> str:
    lease = record["oldest_lease"]
    return f"{length(lease['age'])} {lease['owner']}" if lease else ""


_COLUMNS = (
    Column("NODE", lambda r: r["node_id"]),
    Column("TIER", lambda r: r["name"]),
    Column("MEDIUM", lambda r: word(r["medium"], "MEDIUM_")),
    Column("DEVICE", lambda r: r["device"]),
    Column("STATE", lambda r: word(r["state"], "TIER_STATE_")),
    Column("POLICY", lambda r: r["policy"]),
    Column("SIZE", lambda r: format_size(r["capacity_bytes"]), right=True),
    Column("BLOCKS", lambda r: str(r["ready_blocks"]), right=True),
    Column("OF", lambda r: str(r["capacity_blocks"]), right=True),
    Column("USE", _use, right=True),
    Column("LEASED", lambda r: str(r["leased_blocks"]), right=True),
    Column("PINNED", lambda r: str(r["pinned_blocks"]), right=True, wide=True),
    Column("DRAINING", lambda r: str(r["draining_blocks"]), right=True, wide=True),
    Column("QUARANTINED", lambda r: str(r["quarantined_blocks"]), right=True, wide=True),
    Column("OLDEST LEASE", _oldest_lease, wide=True),
    Column("STORED", lambda r: str(r["counters"]["stored"]), right=True),
    Column("EVICTED", lambda r: str(r["counters"]["evicted"]), right=True),
    Column("DEMOTED", lambda r: str(r["counters"]["demoted"]), right=True, wide=True),
    Column("PROMOTED", lambda r: str(r["counters"]["promoted"]), right=True, wide=True),
    Column("DROPPED", lambda r: str(r["counters"]["dropped"]), right=True, wide=True),
    Column("ON EVICT", lambda r: r["on_evict"] or "drop", wide=True),
    Column("WRITE THROUGH", lambda r: ", ".join(r["write_through"]) or "none", wide=True),
)


@click.command()
@common_options
@pass_settings
def command(settings: Settings) -> None:
    """List tiers, with use and counters.

    With -o wide also what is pinned, what holds room though its block is gone (draining under a
    lease, or quarantined), the oldest lease other than a pin, and what went down to a slower tier,
    came up from one, or was dropped on the way down.
    """
    answers = run(ask_all(settings, _describe))
    with printing(settings, _COLUMNS) as printer:
        printer.write([record for answer in answers for record in answer.value or ()])
    raise_first(answer.error for answer in answers)


async def _describe(client: NodeClient) -> list[dict[str, Any]]:
    node, tiers = await client.get_node(), await client.list_tiers()
    return [{"node_id": node.node_id, **to_record(tier)} for tier in tiers]
