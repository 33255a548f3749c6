"""`kvtier drain`."""

from typing import Any

import click

from kvtier.cli.confirm import confirm
from kvtier.cli.connect import connected
from kvtier.cli.options import Settings, common_options, pass_settings
from kvtier.cli.output import printing
from kvtier.cli.output.messages import to_record
from kvtier.cli.run import run

_LEFT = {
    "leases": "leases open",
    "transfers": "transfers under way",
    "copies": "copies given up",
    "followers": "followers not sent off",
    "undeleted_blocks": "removed blocks not deleted yet",
}


@click.command()
@click.option(
    "--wait",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Longest wait for the end of the drain.  [default: as long as it takes]",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@common_options
@pass_settings
def command(settings: Settings, /, *, wait: float | None, yes: bool) -> None:
    """Take a node out of service.

    It takes no stores and loads any more, lets what is under way end for its drain_timeout at most,
    and sends its followers off. Its process stays until it is stopped, and a start of it is the way
    back. A drain that is waited for no longer goes on.
    """
    endpoint = settings.one_endpoint()
    confirm(
        f"Take {endpoint} out of service until it is started anew?",
        agreed=yes,
        what="takes a node out of service",
    )
    with printing(settings) as printer:
        record = run(_drain(settings, wait))
        printer.one(record, [_sentence(record)])


async def _drain(settings: Settings, wait: float | None) -> dict[str, Any]:
    endpoint = settings.one_endpoint()
    async with connected(endpoint, settings) as client:
        answer = await (client.drain() if wait is None else client.drain(deadline=wait))
    return {"endpoint": endpoint, **to_record(answer)}


def _sentence(record: dict[str, Any]) -> str:
    left = [f"{record[name]} {words}" for name, words in _LEFT.items() if record[name]]
    return f"{record['endpoint']}: drained, {', '.join(left) if left else 'nothing left'}"
