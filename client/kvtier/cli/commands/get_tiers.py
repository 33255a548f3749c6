"""`kvtier get tiers`."""

from collections.abc import Callable

import click

from kvtier.cli.options import Settings, common_options, pass_settings
from kvtier.cli.output import Column, Record
from kvtier.cli.output.messages import to_record, word
from kvtier.cli.output.names import tier_name
from kvtier.cli.output.times import length
from kvtier.cli.refreshing import Listing, asking_all, show, watch_options
from kvtier.cli.tiers import STATE_TONE, has_room_by_bytes, is_told, state_text, use_of
from kvtier.client import NodeClient
from kvtier.wire.sizes import format_size


def _blocks(name: str) -> Callable[[Record], str]:
    return lambda record: str(record[f"{name}_blocks"]) if is_told(record) else ""


def _bytes(name: str) -> Callable[[Record], str]:
    return lambda record: format_size(record[f"{name}_bytes"]) if is_told(record) else ""


def _of(record: Record) -> str:
    return "" if has_room_by_bytes(record) else _blocks("capacity")(record)


def _on_evict(record: Record) -> str:
    return record["on_evict"] or "drop" if is_told(record) else ""


def _write_through(record: Record) -> str:
    return ", ".join(record["write_through"]) or "none" if is_told(record) else ""


def _use(record: Record) -> str:
    use = use_of(record)
    return "" if use is None else f"{use:.0%}"


def _oldest_lease(record: Record) -> str:
    lease = record["oldest_lease"]
    return f"{length(lease['age'])} {lease['owner']}" if lease else ""


def _counted(name: str) -> Callable[[Record], str]:
    return lambda record: str(record["counters"][name]) if record["counters"] else ""


_COLUMNS = (
    Column("NODE", lambda r: r["node_id"]),
    Column("TIER", lambda r: r["name"]),
    Column("MEDIUM", lambda r: word(r["medium"], "MEDIUM_")),
    Column("DEVICE", lambda r: r["device"]),
    Column("LOCALITY", lambda r: word(r["locality"], "LOCALITY_"), wide=True),
    Column("STATE", lambda r: state_text(r["state"], r["state_reason"]), tone=STATE_TONE),
    Column("POLICY", lambda r: r["policy"]),
    Column("SIZE", _bytes("capacity"), right=True),
    Column("USED", _bytes("used"), right=True, wide=True),
    Column("BLOCKS", _blocks("ready"), right=True),
    Column("OF", _of, right=True),
    Column("USE", _use, right=True),
    Column("LEASED", _blocks("leased"), right=True),
    Column("PINNED", _blocks("pinned"), right=True, wide=True),
    Column("DRAINING", _blocks("draining"), right=True, wide=True),
    Column("QUARANTINED", _blocks("quarantined"), right=True, wide=True),
    Column("OLDEST LEASE", _oldest_lease, wide=True, ages=True),
    Column("STORED", _counted("stored"), right=True),
    Column("EVICTED", _counted("evicted"), right=True),
    Column("DEMOTED", _counted("demoted"), right=True, wide=True),
    Column("PROMOTED", _counted("promoted"), right=True, wide=True),
    Column("DROPPED", _counted("dropped"), right=True, wide=True),
    Column("CORRUPT", _counted("corrupt"), right=True, wide=True),
    Column("LOST", _counted("lost"), right=True, wide=True),
    Column("TRIMMED", _counted("trimmed"), right=True, wide=True),
    Column("SCRUBBED", _counted("scrubbed"), right=True, wide=True),
    Column("ON EVICT", _on_evict, wide=True),
    Column("WRITE THROUGH", _write_through, wide=True),
)


@click.command()
@watch_options
@common_options
@pass_settings
def command(settings: Settings, /, *, watch: bool, interval: float) -> None:
    """List tiers, with use and counters.

    STATE says why a tier is recovering or read-only; why a proxy does not reach one is told by
    kvtier describe node. USE of a tier of files or objects is in bytes:
    it has room for more blocks where they are smaller, so that no OF is told.

    With -o wide also the bytes in use, what is pinned, what holds room though its block is gone
    (draining under a lease, or quarantined), the oldest lease other than a pin, and what went down
    to a slower tier, came up from one, or was dropped on the way down; and blocks that were found
    to be damaged (corrupt) or to have vanished (lost), that a start left out because they are
    beyond the capacity (trimmed), and that were read to look for damage (scrubbed).
    """
    listing = Listing(_COLUMNS, tier_name, asking_all(settings, _describe))
    show(settings, listing, watch=watch, interval=interval)


async def _describe(client: NodeClient) -> list[Record]:
    node, tiers = await client.get_node(), await client.list_tiers()
    return [{"node_id": node.node_id, **to_record(tier)} for tier in tiers]
