"""`kvtier get nodes`."""

from typing import Any

import click

from kvtier.cli.connect import Answer, ask_all, raise_first
from kvtier.cli.exit import ExitCode
from kvtier.cli.options import Settings, common_options, pass_settings
from kvtier.cli.output import Column, Record, printing
from kvtier.cli.output.messages import to_record
from kvtier.cli.output.times import age
from kvtier.cli.run import run
from kvtier.client import NodeClient


def _tiers(record: Record) -> str:
    tiers = (f"{t['name']} {t['ready_blocks']}/{t['capacity_blocks']}" for t in record["tiers"])
    return ", ".join(tiers)


_COLUMNS = (
    Column("NODE", lambda r: r["node_id"]),
    Column("ENDPOINT", lambda r: r["endpoint"]),
    Column("STATE", lambda r: r["state"]),
    Column("VERSION", lambda r: r["version"]),
    Column("UP", lambda r: age(r["start_time"]), right=True),
    Column("HEAD", lambda r: str(r["head"]["sequence"]) if r["head"] else "", right=True),
    Column("FOLLOWERS", lambda r: str(r["followers"]), right=True),
    Column("LEASES", lambda r: str(r["leases"]), right=True),
    Column("BLOCKS BY TIER", _tiers),
)
_UNREACHED: Record = {
    "node_id": "",
    "version": "",
    "start_time": None,
    "head": None,
    "followers": "",
    "leases": "",
    "tiers": [],
}


@click.command()
@common_options
@pass_settings
def command(settings: Settings) -> None:
    """List nodes, with what each tier holds.

    A node that does not answer keeps its row, in state "unreachable", and the exit code is 4.
    """
    answers = run(ask_all(settings, _describe))
    with printing(settings, _COLUMNS) as printer:
        printer.write([_record(answer) for answer in answers])
    raise_first(answer.error for answer in answers)


async def _describe(client: NodeClient) -> dict[str, Any]:
    node, tiers = await client.get_node(), await client.list_tiers()
    return {**to_record(node), "tiers": [to_record(tier) for tier in tiers]}


def _record(answer: Answer[dict[str, Any]]) -> Record:
    if answer.error is not None:
        state = "unreachable" if answer.error.code is ExitCode.UNREACHABLE else "refusing"
        return {"endpoint": answer.endpoint, "state": state, **_UNREACHED}
    assert answer.value is not None
    return {"endpoint": answer.endpoint, "state": "serving", **answer.value}
