"""`kvtier put`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from kvtier.cli.connect import NamedNamespace, connected, find_namespace, namespaces_by_name
from kvtier.cli.exit import CommandError, ExitCode
from kvtier.cli.hashing import chain_hash
from kvtier.cli.keys import Keys, hash_bytes, place_options
from kvtier.cli.options import Settings, common_options, pass_settings
from kvtier.cli.output import Column, Record, printing
from kvtier.cli.output.names import block_name_if
from kvtier.cli.params import block_size
from kvtier.cli.run import run
from kvtier.client import NodeClient
from kvtier.v1.block_pb2 import BlockRun
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.v1.result_pb2 import StoreOutcome, WriteResult

_COLUMNS = (
    Column("TIER", lambda r: r["tier"]),
    Column("POSITION", lambda r: str(r["start_position"]), right=True),
    Column("RESULT", lambda r: _word(r["result"])),
    Column("HASH", lambda r: r["block_hash"]),
)


class _Offer(NamedTuple):
    namespace: str
    group: int
    scope: bytes
    hashes: tuple[bytes, ...]
    parent: bytes
    start_position: int
    tier: str | None
    block_bytes: int | None
    request_id: str


@click.command()
@click.argument(
    "file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
)
@place_options
@click.option("--tier", help="The tier's name; the node's fastest by default.")
@click.option(
    "--hash", "hashes", multiple=True, type=hash_bytes, metavar="HEX", help="A block's hash."
)
@click.option(
    "--parent", type=hash_bytes, default=b"", metavar="HEX", help="The first block's parent."
)
@click.option(
    "--start-position",
    type=click.IntRange(0),
    default=0,
    help="Where the first block starts, in tokens; only with --parent.",
)
@click.option(
    "--block-bytes",
    type=block_size,
    metavar="SIZE",
    help="Register the namespace, with blocks of this size, if the node does not know it.",
)
@click.option("--request-id", default="", help="The request whose blocks these are.")
@common_options
@pass_settings
def command(settings: Settings, /, *, file: Path, **offer: Any) -> None:
    """Store a file as a chain of blocks.

    FILE, or stdin with '-', is cut into blocks of the namespace's size. Their hashes are those of
    --hash, one for each block, or are made from each block's content and its parent's hash.
    """
    data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    with printing(settings, _COLUMNS, block_name_if(*_GOOD)) as printer:
        records = run(_put(settings, _Offer(**offer), data))
        printer.write(records)
    failed = [record["result"] for record in records if record["result"] not in _GOOD]
    if failed:
        what = f"{len(failed)} of {len(records)} blocks were not stored: {_word(failed[0])}"
        raise CommandError(settings.one_endpoint(), what, _REMEDIES.get(failed[0], ""))


_REMEDIES = {
    StoreOutcome.Name(
        StoreOutcome.STORE_OUTCOME_DEFERRED
    ): "put them again: the tier has a store_threshold",
    WriteResult.Name(WriteResult.WRITE_RESULT_FAILED): "see the tier's state: kvtier get tiers",
}
_STORED = WriteResult.Name(WriteResult.WRITE_RESULT_STORED)
_GOOD = (_STORED, StoreOutcome.Name(StoreOutcome.STORE_OUTCOME_PRESENT))


async def _put(settings: Settings, offer: _Offer, data: bytes) -> list[Record]:
    async with connected(settings.one_endpoint(), settings) as client:
        namespace = await _namespace(client, offer)
        tier = offer.tier or (await client.list_tiers())[0].name
        payloads = _cut(data, namespace, offer)
        keys = Keys(offer.namespace, offer.group, offer.scope, _hashes(offer, namespace, payloads))
        run_ = BlockRun(
            group=offer.group,
            scope=offer.scope,
            block_hashes=keys.packed(namespace.hash_width),
            parent_block_hash=offer.parent,
            start_position=offer.start_position,
        )
        report = await client.store(
            tier, namespace.fingerprint, [run_], payloads, request_id=offer.request_id
        )
    step = namespace.description.tokens_per_block
    return [
        {
            "tier": tier,
            "block_hash": block_hash.hex(),
            "start_position": offer.start_position + place * step,
            "result": _result(outcome, result),
        }
        for place, (block_hash, outcome, result) in enumerate(
            zip(keys.hashes, report.outcomes, report.results, strict=True)
        )
    ]


def _word(result: str) -> str:
    return result.rsplit("_", maxsplit=1)[-1].lower()


def _result(outcome: StoreOutcome.ValueType, written: WriteResult.ValueType) -> str:
    return WriteResult.Name(written) if written else StoreOutcome.Name(outcome)


async def _namespace(client: NodeClient, offer: _Offer) -> NamedNamespace:
    """Return the namespace, registering a simple one where the caller gave its block size."""
    if offer.block_bytes is None:
        return await find_namespace(client, offer.namespace)
    known = (await namespaces_by_name(client)).get(offer.namespace)
    if known is not None:
        _check_size(known, offer)
        return known
    description = Namespace(
        name=offer.namespace,
        model=offer.namespace,
        dtype="uint8",
        layout="opaque",
        tokens_per_block=16,
        block_bytes=[offer.block_bytes],
        tp_size=1,
        pp_size=1,
        hash_algorithm="blake2b",
        hash_width=32,
    )
    return NamedNamespace(await client.register_namespace(description), description)


def _check_size(namespace: NamedNamespace, offer: _Offer) -> None:
    sizes = namespace.description.block_bytes
    if offer.block_bytes not in sizes:
        what = f"namespace {offer.namespace!r} has blocks of {', '.join(map(str, sizes))} bytes"
        todo = f"leave --block-bytes out, which says {offer.block_bytes}"
        raise CommandError("kvtier", what, todo, code=ExitCode.USAGE)


def _cut(data: bytes, namespace: NamedNamespace, offer: _Offer) -> list[bytes]:
    sizes = namespace.description.block_bytes
    if offer.group >= len(sizes):
        what = f"group {offer.group} does not exist"
        todo = f"namespace {offer.namespace!r} has {len(sizes)}, counted from 0"
        raise CommandError("kvtier", what, todo, code=ExitCode.USAGE)
    size = sizes[offer.group]
    if not data or len(data) % size:
        what = f"the file has {len(data)} bytes, no multiple of the {size} of a block"
        raise CommandError("kvtier", what, "pad it to whole blocks", code=ExitCode.USAGE)
    return [data[start : start + size] for start in range(0, len(data), size)]


def _hashes(
    offer: _Offer, namespace: NamedNamespace, payloads: Sequence[bytes]
) -> tuple[bytes, ...]:
    if offer.hashes and len(offer.hashes) != len(payloads):
        what = f"{len(offer.hashes)} hashes are given for {len(payloads)} blocks"
        raise CommandError(
            "kvtier", what, "give --hash once for each block, or not at all", code=ExitCode.USAGE
        )
    if offer.hashes:
        return offer.hashes
    parent, made = offer.parent, []
    for data in payloads:
        parent = chain_hash(parent, data, namespace.hash_width)
        made.append(parent)
    return tuple(made)
