"""CopyBlocks."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

from kvtier.server.node import Node
from kvtier.server.operations.pulling import Results, pull
from kvtier.server.operations.requests import check_accepts
from kvtier.server.operations.runs import reading_runs
from kvtier.server.tiering.carrier import COPIED, FAILED, MISS, PRESENT
from kvtier.server.tiering.links import most_blocks
from kvtier.server.tiers.offer import Run
from kvtier.server.tiers.table import READY
from kvtier.server.tiers.tier import Tier
from kvtier.server.transfers.limit import transfer
from kvtier.v1.copying_pb2 import CopyBlocksRequest, CopyBlocksResponse
from kvtier.wire.errors import aborted, invalid, quote

Send = Callable[[CopyBlocksResponse], Awaitable[None]]
# A caller that does not read its answers for so long is given up, in seconds.
_PATIENCE = 30.0


async def copy_blocks(node: Node, request: CopyBlocksRequest, send: Send) -> None:
    """Copy blocks to a tier, and tell what became of each as soon as it is known."""
    node.refuse_when_closing()
    namespace, target = node.registry.get(request.namespace), node.tier(request.to_tier)
    check_accepts(target)
    with reading_runs(node, target, namespace, request.runs) as runs:
        places: dict[bytes, list[int]] = {}
        sizes: dict[bytes, int] = {}
        blocks = ((key, run.space) for run in runs for key in run.space.keys(run.hashes))
        for place, (key, space) in enumerate(blocks):
            places.setdefault(key, []).append(place)
            sizes[key] = space.block_bytes
        copied_bytes = 0
        async with aclosing(_results(node, request, target, runs, list(places))) as outcomes:
            async for results in outcomes:
                copied_bytes += sum(sizes[key] for key, got in results.items() if got == COPIED)
                told = [(place, result) for key, result in results.items() for place in places[key]]
                indexes, each = zip(*sorted(told), strict=True)
                answer = CopyBlocksResponse(
                    block_indexes=indexes, results=each, copied_bytes=copied_bytes
                )
                await _send_in_time(send, answer)


async def _send_in_time(send: Send, answer: CopyBlocksResponse) -> None:
    try:
        async with asyncio.timeout(_PATIENCE):
            await send(answer)
    except TimeoutError:
        raise aborted(f"no answer was read for {_PATIENCE:g} s: the rest is not copied") from None


def _results(
    node: Node,
    request: CopyBlocksRequest,
    target: Tier,
    runs: Sequence[Run],
    keys: Sequence[bytes],
) -> AsyncGenerator[Results, None]:
    match request.WhichOneof("source"):
        case "from_peer":
            if request.move:
                raise invalid("move is set with from_peer; blocks move only within a node")
            return pull(node, request.from_peer, target, runs)
        case "from_tier":
            source = node.tier(request.from_tier)
            if source is target:
                raise invalid(
                    f"from_tier and to_tier are both {quote(target.name)}; name two tiers"
                )
            return _copy_within(node, source, target, keys, move=request.move)
        case _:
            raise invalid("the request names no source; set from_tier or from_peer")


async def _copy_within(
    node: Node, source: Tier, target: Tier, keys: Sequence[bytes], *, move: bool
) -> AsyncGenerator[Results, None]:
    """Copy step by step; a step that began ends, also when the caller has left."""
    most, offer = most_blocks(source, target), frozenset(keys)
    with transfer(node):
        for first in range(0, len(keys), most):
            rest = keys[first : first + most]
            while rest:
                results = await _one_step(node, source, target, rest, move=move, offer=offer)
                yield results
                rest = [key for key in rest if key not in results]


async def _one_step(
    node: Node,
    source: Tier,
    target: Tier,
    keys: Sequence[bytes],
    *,
    move: bool,
    offer: frozenset[bytes],
) -> Results:
    """Return what became of the first of some blocks, of one at least."""
    node.refuse_when_closing()
    await node.tiering.copying.wait_for_others(target, keys)
    results: Results = {}
    slots: dict[bytes, int] = {}
    absent = FAILED if source.health.recovering else MISS
    for key in keys:
        slot = source.table.index.get(key)
        if slot is None or source.table.state[slot] != READY:
            results[key] = PRESENT if target.holds(key) else absent
        else:
            slots[key] = slot
    if slots:
        step = node.tiering.copying.start(
            source, target, list(slots.values()), move=move, offer=offer
        )
        results |= zip(slots, await asyncio.shield(step), strict=False)
    return results
