"""`kvtier get nodes`."""

from typing import Any

import click

from kvtier.cli.connect import ask_all
from kvtier.cli.options import Settings, common_options, pass_settings
from kvtier.cli.output import Column, Record
from kvtier.cli.output.messages import number, to_record
from kvtier.cli.output.names import node_name
from kvtier.cli.output.times import age
from kvtier.cli.reaching import STATE_TONE, reached
from kvtier.cli.refreshing import Listing, Round, Writer, show, watch_options
from kvtier.cli.tiers import has_room_by_bytes, is_told
from kvtier.client import NodeClient


def _tiers(record: Record) -> str:
    return ", ".join(map(_tier, record["tiers"]))


def _tier(tier: Record) -> str:
    if not is_told(tier):
        return f"{tier['name']} unreachable"
    held = f"{tier['name']} {tier['ready_blocks']}"
    return held if has_room_by_bytes(tier) else f"{held}/{tier['capacity_blocks']}"


_COLUMNS = (
    Column("NODE", lambda r: r["node_id"]),
    Column("ENDPOINT", lambda r: r["endpoint"]),
    Column("STATE", lambda r: r["state"], tone=STATE_TONE),
    Column("VERSION", lambda r: r["version"]),
    Column("UP", lambda r: age(r["start_time"]), right=True, ages=True),
    Column("HEAD", lambda r: str(r["head"]["sequence"]) if r["head"] else "", right=True),
    Column("FOLLOWERS", lambda r: number(r["followers"]), right=True),
    Column("LEASES", lambda r: number(r["leases"]), right=True),
    Column("BLOCKS BY TIER", _tiers),
)


@click.command()
@watch_options
@common_options
@pass_settings
def command(settings: Settings, /, *, watch: bool, interval: float) -> None:
    """List nodes, with what each tier holds.

    A node that does not answer keeps its row, in state "unreachable", and the exit code is 4.
    """

    async def ask(writer: Writer, most: int | None) -> Round:
        answers = await ask_all(settings, _describe)
        writer.write([reached(answer, answer.value) for answer in answers][:most])
        errors = [answer.error for answer in answers if answer.error is not None]
        return Round(errors, failed=len(errors) == len(answers))

    show(settings, Listing(_COLUMNS, node_name, ask), watch=watch, interval=interval)


async def _describe(client: NodeClient) -> dict[str, Any]:
    node, tiers = await client.get_node(), await client.list_tiers()
    return {**to_record(node), "tiers": [to_record(tier) for tier in tiers]}
