"""CopyBlocks."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from kvtier.server.node import Node
from kvtier.server.operations.runs import reading_runs
from kvtier.server.tiering.carrier import COPIED, MISS, PRESENT
from kvtier.server.tiers.table import READY
from kvtier.server.tiers.tier import Tier
from kvtier.v1.copying_pb2 import CopyBlocksRequest, CopyBlocksResponse
from kvtier.v1.result_pb2 import CopyResult
from kvtier.wire.errors import invalid, quote

Results = dict[bytes, CopyResult.ValueType]
Send = Callable[[CopyBlocksResponse], Awaitable[None]]
_STEP = 256


async def copy_blocks(node: Node, request: CopyBlocksRequest, send: Send) -> None:
    """Copy blocks to a tier, and tell what became of each as soon as it is known."""
    node.refuse_when_closing()
    namespace, target = node.registry.get(request.namespace), node.tier(request.to_tier)
    with reading_runs(node, target, namespace, request.runs) as runs:
        places: dict[bytes, list[int]] = {}
        for place, key in enumerate(key for run in runs for key in run.space.keys(run.hashes)):
            places.setdefault(key, []).append(place)
        copied_bytes = 0
        async for results in _results(node, request, target, list(places)):
            copied_bytes += _bytes_of(target, results)
            told = [(place, result) for key, result in results.items() for place in places[key]]
            indexes, each = zip(*told, strict=True)
            await send(
                CopyBlocksResponse(block_indexes=indexes, results=each, copied_bytes=copied_bytes)
            )


def _results(
    node: Node, request: CopyBlocksRequest, target: Tier, keys: Sequence[bytes]
) -> AsyncIterator[Results]:
    if not request.WhichOneof("source"):
        raise invalid("the request names no source; set from_tier or from_peer")
    source = node.tier(request.from_tier)
    if source is target:
        raise invalid(f"from_tier and to_tier are both {quote(target.name)}; name two tiers")
    return _copy_within(node, source, target, keys, move=request.move)


async def _copy_within(
    node: Node, source: Tier, target: Tier, keys: Sequence[bytes], *, move: bool
) -> AsyncIterator[Results]:
    """Copy step by step; a step that began ends, also when the caller has left."""
    rest = keys
    while rest:
        await node.tiering.copying.wait_for_others(target, rest[:_STEP])
        results: Results = {}
        slots: dict[bytes, int] = {}
        for key in rest[:_STEP]:
            slot = source.table.index.get(key)
            if slot is None or source.table.state[slot] != READY:
                results[key] = PRESENT if target.holds(key) else MISS
            else:
                slots[key] = slot
        if slots:
            step = node.tiering.copying.start(source, target, list(slots.values()), move=move)
            results |= zip(slots, await asyncio.shield(step), strict=False)
        yield results
        rest = [key for key in rest if key not in results]


def _bytes_of(target: Tier, results: Results) -> int:
    """Return the bytes of the blocks that were copied; their slots still say what was there."""
    slots = target.table.index.get_many(key for key, got in results.items() if got == COPIED)
    origins = (target.table.origin[slot] for slot in slots if slot is not None)
    return sum(origin.space.block_bytes for origin in origins)
