"""`kvtier get namespaces`."""

import click

from kvtier.cli.connect import namespaces_by_name
from kvtier.cli.options import Settings, common_options, pass_settings
from kvtier.cli.output import Column, Record
from kvtier.cli.output.messages import to_record
from kvtier.cli.output.names import namespace_name
from kvtier.cli.refreshing import Listing, asking_all, show, watch_options
from kvtier.client import NodeClient
from kvtier.wire.sizes import format_size


def _rank(record: Record) -> str:
    ranks = (f"{axis}{record[f'{axis}_rank']}/{record[f'{axis}_size']}" for axis in ("tp", "pp"))
    return " ".join(ranks)


_COLUMNS = (
    Column("NODE", lambda r: r["node_id"]),
    Column("NAME", lambda r: r["name"]),
    Column("MODEL", lambda r: r["model"]),
    Column("DTYPE", lambda r: r["dtype"]),
    Column("LAYOUT", lambda r: r["layout"]),
    Column("TOKENS", lambda r: str(r["tokens_per_block"]), right=True),
    Column("BLOCK", lambda r: ", ".join(map(format_size, r["block_bytes"])), right=True),
    Column("RANK", _rank),
    Column("HASH", lambda r: f"{r['hash_algorithm']}, {r['hash_width']} bytes"),
    Column("FINGERPRINT", lambda r: r["fingerprint"][:12]),
)


@click.command()
@watch_options
@common_options
@pass_settings
def command(settings: Settings, /, *, watch: bool, interval: float) -> None:
    """List registered namespaces."""
    listing = Listing(_COLUMNS, namespace_name, asking_all(settings, _describe))
    show(settings, listing, watch=watch, interval=interval)


async def _describe(client: NodeClient) -> list[Record]:
    node = await client.get_node()
    return [
        {
            "node_id": node.node_id,
            "fingerprint": each.fingerprint.hex(),
            **to_record(each.description),
        }
        for each in (await namespaces_by_name(client)).values()
    ]
