"""`kvtier delete-namespace`."""

from typing import Any

import click

from kvtier.cli.confirm import confirm
from kvtier.cli.connect import connected, find_namespace
from kvtier.cli.options import Settings, common_options, pass_settings
from kvtier.cli.output import printing
from kvtier.cli.output.messages import to_record
from kvtier.cli.output.names import namespace_name
from kvtier.cli.run import run


@click.command()
@click.argument("name")
@click.option("--force", is_flag=True, help="Also remove blocks under leases and pins.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@common_options
@pass_settings
def command(settings: Settings, /, *, name: str, force: bool, yes: bool) -> None:
    """Remove a namespace and all its blocks.

    They are removed from every tier of the node, and stores that are under way end. While blocks
    are under leases or pins nothing is removed, unless --force says so. An engine that still uses
    the namespace registers it again.
    """
    endpoint = settings.one_endpoint()
    confirm(f"Remove namespace {name} and all its blocks from {endpoint}?", agreed=yes)
    with printing(settings, name=namespace_name) as printer:
        record = run(_delete(settings, name, force=force))
        printer.one(record, [_sentence(record)])


async def _delete(settings: Settings, name: str, *, force: bool) -> dict[str, Any]:
    async with connected(settings.one_endpoint(), settings) as client:
        namespace = await find_namespace(client, name)
        answer = await client.delete_namespace(namespace.fingerprint, force=force)
    return {"name": name, "fingerprint": namespace.fingerprint.hex(), **to_record(answer)}


def _sentence(record: dict[str, Any]) -> str:
    ended = f", {record['ended_leases']} stores ended" if record["ended_leases"] else ""
    return f"{record['name']}: deleted, {record['removed_blocks']} blocks removed{ended}"
