"""`kvtier describe block`."""

from typing import Any

import click

from kvtier.cli.connect import Answer, ask_all, find_namespace, raise_first
from kvtier.cli.exit import ExitCode
from kvtier.cli.keys import Keys, hash_bytes, place_options
from kvtier.cli.options import Settings, common_options, pass_settings
from kvtier.cli.output import Column, Record, printing
from kvtier.cli.output.messages import to_record, word
from kvtier.cli.output.names import block_name
from kvtier.cli.output.table import field_lines, table_lines
from kvtier.cli.output.times import age, length
from kvtier.cli.run import run
from kvtier.client import NodeClient
from kvtier.wire.sizes import format_size

_COPIES = (
    Column("NODE", lambda r: r["node_id"]),
    Column("TIER", lambda r: r["tier"]),
    Column("SIZE", lambda r: format_size(r["size_bytes"]), right=True),
    Column("CHECKSUM", lambda r: r["checksum"]),
    Column("LEASES", lambda r: str(r["leases"]), right=True),
    Column("AGE", lambda r: age(r["stored_time"]), right=True),
)
_LEASES = (
    Column("NODE", lambda r: r["node_id"]),
    Column("TIER", lambda r: r["tier"]),
    Column("KIND", lambda r: word(r["kind"], "LEASE_KIND_")),
    Column("OWNER", lambda r: r["owner"]),
    Column("LEFT", lambda r: length(r["remaining"]), right=True),
)


@click.command()
@click.argument("block_hash", metavar="HASH", type=hash_bytes)
@place_options
@common_options
@pass_settings
def command(
    settings: Settings, /, *, block_hash: bytes, namespace: str, group: int, scope: bytes
) -> None:
    """Tell where a block is, and who holds leases on it."""
    keys = Keys(namespace, group, scope, (block_hash,))

    async def ask(client: NodeClient) -> dict[str, list[Record]]:
        return await _describe(client, keys)

    with printing(settings, name=block_name) as printer:
        answers = run(ask_all(settings, ask))
        record = _merge(keys, answers)
        printer.one(record, _lines(record, titles=settings.headers))
    # A node that does not have the block is no failure as long as another one does.
    raise_first(a.error for a in answers if a.error and a.error.code is not ExitCode.NOT_FOUND)


async def _describe(client: NodeClient, keys: Keys) -> dict[str, list[Record]]:
    node = await client.get_node()
    namespace = await find_namespace(client, keys.namespace)
    block_hash = keys.packed(namespace.hash_width)
    answer = await client.describe_block(namespace.fingerprint, keys.group, keys.scope, block_hash)
    place = {"node_id": node.node_id}
    return {
        "copies": [place | to_record(copy) for copy in answer.copies],
        "leases": [place | to_record(lease) for lease in answer.leases],
    }


def _merge(keys: Keys, answers: list[Answer[dict[str, list[Record]]]]) -> dict[str, Any]:
    found = [answer.value for answer in answers if answer.value is not None]
    if not found:
        raise_first(answer.error for answer in answers)
    return {
        "block_hash": keys.hashes[0].hex(),
        "namespace_name": keys.namespace,
        "group": keys.group,
        "scope": keys.scope.hex(),
        "copies": [copy for value in found for copy in value["copies"]],
        "leases": [lease for value in found for lease in value["leases"]],
    }


def _lines(record: dict[str, Any], *, titles: bool) -> list[str]:
    fields = [
        ("hash", record["block_hash"]),
        ("namespace", record["namespace_name"]),
        ("group", str(record["group"])),
        ("scope", record["scope"] or "none"),
    ]
    if record["copies"]:
        copy = record["copies"][0]
        fields += [
            ("position", f"{copy['start_position']} tokens"),
            ("parent", copy["parent_block_hash"] or "none"),
        ]
    lines = [*field_lines(fields), "", *table_lines(_COPIES, record["copies"], titles=titles)]
    if record["leases"]:
        lines += ["", *table_lines(_LEASES, record["leases"], titles=titles)]
    return lines
