"""`kvtier clear`."""

from typing import Any

import click

from kvtier.cli.confirm import confirm
from kvtier.cli.connect import connected, find_namespace
from kvtier.cli.options import Settings, common_options, pass_settings
from kvtier.cli.output import printing
from kvtier.cli.output.messages import to_record
from kvtier.cli.run import run


@click.command()
@click.option("--tier", required=True, help="The tier's name.")
@click.option("-n", "--namespace", help="Only the blocks of this namespace, by name.")
@click.option("--force", is_flag=True, help="Also remove blocks under leases.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@common_options
@pass_settings
def command(
    settings: Settings, /, *, tier: str, namespace: str | None, force: bool, yes: bool
) -> None:
    """Remove every block of a tier.

    Stores that are under way there end. While blocks are under leases nothing is removed, unless
    --force says so.
    """
    endpoint = settings.one_endpoint()
    what = f"every block of namespace {namespace}" if namespace else "every block"
    confirm(f"Remove {what} from tier {tier} of {endpoint}?", agreed=yes)
    with printing(settings) as printer:
        record = run(_clear(settings, tier, namespace, force=force))
        printer.one(record, [_sentence(record)])


async def _clear(
    settings: Settings, tier: str, namespace: str | None, *, force: bool
) -> dict[str, Any]:
    async with connected(settings.one_endpoint(), settings) as client:
        only = (await find_namespace(client, namespace)).fingerprint if namespace else b""
        answer = await client.clear(tier, only, force=force)
    return {"tier": tier, **to_record(answer)}


def _sentence(record: dict[str, Any]) -> str:
    ended = f", {record['ended_leases']} stores ended" if record["ended_leases"] else ""
    return f"{record['tier']}: {record['removed_blocks']} blocks removed{ended}"
