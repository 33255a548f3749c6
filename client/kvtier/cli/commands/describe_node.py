"""`kvtier describe node`."""

from collections.abc import Sequence
from typing import Any

import click

from kvtier.cli.connect import Answer, ask_all, raise_first
from kvtier.cli.exit import CommandError, ExitCode
from kvtier.cli.node_text import node_lines
from kvtier.cli.options import Settings, common_options, pass_settings
from kvtier.cli.output import printing
from kvtier.cli.output.messages import to_record
from kvtier.cli.output.names import node_name, without_kind
from kvtier.cli.run import run
from kvtier.client import NodeClient


@click.command()
@click.argument("node", required=False)
@common_options
@pass_settings
def command(settings: Settings, /, *, node: str | None) -> None:
    """Tell everything that a node says of itself and its tiers.

    NODE is its id, which may be left out when only one endpoint is named.
    """
    wanted = without_kind("node", node) if node is not None else None
    with printing(settings, name=node_name) as printer:
        if wanted is None:
            settings.one_endpoint()
        record = _pick(wanted, run(ask_all(settings, _describe)))
        printer.one(record, node_lines(record))


async def _describe(client: NodeClient) -> dict[str, Any]:
    node, tiers = await client.get_node(), await client.list_tiers()
    return {
        "endpoint": client.endpoint,
        **to_record(node),
        "tiers": [to_record(tier) for tier in tiers],
    }


def _pick(wanted: str | None, answers: Sequence[Answer[dict[str, Any]]]) -> dict[str, Any]:
    """Return the node of an id; without one, the only node."""
    found = [answer.value for answer in answers if answer.value is not None]
    for record in found:
        if wanted in {None, record["node_id"]}:
            return record
    raise_first(answer.error for answer in answers)
    what = f"none of {len(answers)} endpoints is node {wanted!r}"
    todo = f"they are {', '.join(record['node_id'] for record in found)}"
    raise CommandError("kvtier", what, todo, code=ExitCode.NOT_FOUND)
