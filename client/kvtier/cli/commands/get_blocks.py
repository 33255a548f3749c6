"""`kvtier get blocks`."""

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import click

from kvtier.cli.connect import connected, find_namespace, namespaces_by_name
from kvtier.cli.exit import CommandError
from kvtier.cli.keys import hex_bytes
from kvtier.cli.options import Settings, common_options, pass_settings
from kvtier.cli.output import Column
from kvtier.cli.output.messages import to_record
from kvtier.cli.output.names import block_name
from kvtier.cli.output.times import age
from kvtier.cli.refreshing import Listing, Round, Writer, show, watch_options
from kvtier.cli.tiers import recovering_note, recovering_tiers
from kvtier.client import NodeClient
from kvtier.wire.namespaces import MAX_SCOPE_BYTES
from kvtier.wire.sizes import format_size

_PAGE = 1000
_COLUMNS = (
    Column("NODE", lambda r: r["node_id"]),
    Column("TIER", lambda r: r["tier"]),
    Column("NAMESPACE", lambda r: r["namespace_name"]),
    Column("GROUP", lambda r: str(r["group"]), right=True),
    Column("SCOPE", lambda r: r["scope"][:12]),
    Column("POSITION", lambda r: str(r["start_position"]), right=True),
    Column("SIZE", lambda r: format_size(r["size_bytes"]), right=True),
    Column("LEASES", lambda r: str(r["leases"]), right=True),
    Column("AGE", lambda r: age(r["stored_time"]), right=True, width=4, ages=True),
    Column("HASH", lambda r: r["block_hash"]),
)


class _Filter(NamedTuple):
    namespace: str | None
    tiers: tuple[str, ...]
    group: int | None
    scope: bytes | None


@click.command()
@click.option("-n", "--namespace", help="Only this namespace, by name.")
@click.option("--tier", "tiers", multiple=True, help="Only this tier; may be repeated.")
@click.option("--group", type=click.IntRange(0, 63), help="Only this KV-cache group.")
@click.option(
    "--scope", type=hex_bytes("scope", 0, MAX_SCOPE_BYTES), metavar="HEX", help="Only this scope."
)
@click.option("--limit", type=click.IntRange(1), help="Stop after so many blocks.")
@watch_options
@common_options
@pass_settings
def command(
    settings: Settings,
    /,
    *,
    limit: int | None,
    watch: bool,
    interval: float,
    **wanted: Any,
) -> None:
    """List readable blocks.

    The listing begins at once, however many blocks there are. A note on stderr says so when a tier
    is recovering, and may hold more.

    With --watch a terminal shows as many as its window has lines. Elsewhere blocks that go are not
    told: kvtier watch tells them.
    """
    chosen = _Filter(**wanted)

    async def ask(writer: Writer, most: int | None) -> Round:
        limits = [number for number in (limit, most) if number is not None]
        return await _list(settings, chosen, min(limits, default=None), writer)

    show(settings, Listing(_COLUMNS, block_name, ask), watch=watch, interval=interval)


async def _list(settings: Settings, wanted: _Filter, limit: int | None, writer: Writer) -> Round:
    errors: list[CommandError] = []
    notes: list[str] = []
    for endpoint in settings.endpoints:
        try:
            async with connected(endpoint, settings) as client:
                listed, note = await _list_node(client, wanted, limit, writer)
        except CommandError as error:
            errors.append(error)
            continue
        notes += [note] if note else []
        if limit is not None:
            limit -= listed
            if limit == 0:
                break
    return Round(errors, notes, failed=len(errors) == len(settings.endpoints))


async def _list_node(
    client: NodeClient, wanted: _Filter, limit: int | None, writer: Writer
) -> tuple[int, str]:
    """Write a node's blocks, `limit` at most; return how many, and what is to be said of them."""
    recovering = await recovering_tiers(client, wanted.tiers)
    listed = 0
    async for page in _pages(client, wanted, limit):
        writer.write(page)
        listed += len(page)
    return listed, recovering_note(client.endpoint, recovering)


async def _pages(
    client: NodeClient, wanted: _Filter, limit: int | None
) -> AsyncIterator[list[dict[str, Any]]]:
    node = await client.get_node()
    only = (await find_namespace(client, wanted.namespace)).fingerprint if wanted.namespace else b""
    known = await namespaces_by_name(client)
    names = {each.fingerprint: name for name, each in known.items()}
    size = min(limit or _PAGE, _PAGE)
    page: list[dict[str, Any]] = []
    blocks = client.list_blocks(
        tiers=wanted.tiers,
        namespace=only,
        group=wanted.group,
        scope=wanted.scope,
        page_size=size,
    )
    async for block in blocks:
        name = names.get(block.namespace, "")
        page.append({"node_id": node.node_id, "namespace_name": name, **to_record(block)})
        if limit is not None:
            limit -= 1
        if len(page) == size or limit == 0:
            yield page
            page = []
        if limit == 0:
            return
    if page:
        yield page
