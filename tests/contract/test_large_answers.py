"""However much a node holds, its answers fit what clients of any make accept by default."""

from collections import Counter
from typing import Any

import grpc.aio
import pytest

from kvtier.v1.block_pb2 import BlockRun, BlockSet
from kvtier.v1.event_service_pb2 import EventView
from kvtier.v1.listing_pb2 import (
    ListBlocksRequest,
)
from kvtier.v1.lookup_pb2 import LookupBlocksRequest
from kvtier.v1.result_pb2 import LookupResult
from kvtier.v1.tier_service_pb2 import PrepareStoreRequest
from kvtier.v1.tier_service_pb2_grpc import TierServiceStub

from .conftest import Connect, Serve
from .folding import listed
from .following import following
from .support import Serving, namespace, run

BLOCKS, CHAIN, WIDTH, SIZE = 300_000, 10_000, 64, 8
ASKED, MOVED, OFFERED = 100_000, 65_536, 16_384
# Names and scopes as long as they may be, so that every block's description is as large.
ADAPTER, SCOPE = "a" * 256, b"s" * 32
DESCRIPTION = namespace("wide", hash_width=WIDTH, block_bytes=[SIZE])
TIER = {"name": "cpu0", "medium": "cpu", "slot_bytes": SIZE}


def hashes(first: int, count: int) -> bytes:
    """The hashes of consecutive blocks."""
    return b"".join(n.to_bytes(8, "big") * (WIDTH // 8) for n in range(first, first + count))


async def fill(node: Serving, fingerprint: bytes) -> None:
    """Store the blocks, one chain a call."""
    for first in range(0, BLOCKS, CHAIN):
        offer = BlockRun(scope=SCOPE, block_hashes=hashes(first, CHAIN), adapter_name=ADAPTER)
        await node.client.store("cpu0", fingerprint, [offer], [bytes(SIZE)] * CHAIN)


@pytest.mark.slow
async def test_a_client_with_stock_limits_reads_a_large_node(serve: Serve) -> None:
    """Listing, a lookup of 100,000 blocks and a late joiner's snapshot stay below 4 MiB."""
    node = await serve({**TIER, "capacity": BLOCKS * SIZE})
    fingerprint = await node.client.register_namespace(DESCRIPTION)
    await fill(node, fingerprint)
    async with grpc.aio.insecure_channel(node.endpoint) as channel:
        stub: Any = TierServiceStub(channel)

        listed = 0
        request = ListBlocksRequest(page_size=1 << 30)
        while page := await stub.ListBlocks(request):
            listed += len(page.blocks)
            request.page_token = page.next_page_token
            if not page.next_page_token:
                break
        answer = await stub.LookupBlocks(
            LookupBlocksRequest(
                namespace=fingerprint,
                chains=[BlockSet(scope=SCOPE, block_hashes=hashes(0, ASKED))],
                include_blocks=True,
            )
        )
    async with following(node.endpoint) as late:
        pass

    assert listed == BLOCKS
    (chain,) = answer.chains
    assert list(chain.prefix_lengths) == [ASKED]
    assert set(chain.results) == {LookupResult.LOOKUP_RESULT_HIT}
    assert len(late.fold.view) == BLOCKS


@pytest.mark.slow
async def test_a_client_with_stock_limits_follows_large_calls(
    serve: Serve, connect: Connect
) -> None:
    """Events of large stores, evictions and deletes come in parts that it accepts."""
    node = await serve({**TIER, "capacity": MOVED * SIZE})
    client = await connect(node, timeout=60)
    fingerprint = await client.register_namespace(DESCRIPTION)
    async with following(node.endpoint) as follower:
        for first in range(0, 2 * MOVED, OFFERED):
            offer = BlockRun(scope=SCOPE, block_hashes=hashes(first, OFFERED))
            await client.store("cpu0", fingerprint, [offer], [bytes(SIZE)] * OFFERED)
        everything = BlockSet(scope=SCOPE, block_hashes=hashes(MOVED, MOVED))
        await client.delete(fingerprint, [everything])
        await follower.settle(client)

    whats = Counter(told.what for told in follower.fold.told)
    assert whats == {"stored": 2 * MOVED, "removed": 2 * MOVED}
    assert follower.fold.most["cpu0"] == MOVED
    assert follower.fold.view == {}


@pytest.mark.slow
async def test_a_client_with_stock_limits_makes_the_largest_offer(serve: Serve) -> None:
    """An answer that tells of all that was evicted, each in its own scope, stays below 4 MiB."""
    node = await serve({**TIER, "capacity": OFFERED * SIZE})
    fingerprint = await node.client.register_namespace(DESCRIPTION)
    for first in range(0, OFFERED, 4096):
        alone = [
            BlockRun(scope=place.to_bytes(32, "big"), block_hashes=hashes(place, 1))
            for place in range(first, first + 4096)
        ]
        await node.client.store("cpu0", fingerprint, alone, [bytes(SIZE)] * 4096)
    async with grpc.aio.insecure_channel(node.endpoint) as channel:
        stub: Any = TierServiceStub(channel)
        request = PrepareStoreRequest(
            tier="cpu0", namespace=fingerprint, lease_id=bytes(16), owner="stock"
        )
        request.runs.add(block_hashes=hashes(OFFERED, OFFERED))

        answer = await stub.PrepareStore(request)

        assert len(answer.evicted) == OFFERED
        request.lease_id = bytes(15) + b"x"
        request.runs[0].block_hashes += hashes(2 * OFFERED, 1)
        with pytest.raises(grpc.aio.AioRpcError, match="at most 16384"):
            await stub.PrepareStore(request)


@pytest.mark.slow
async def test_a_client_with_stock_limits_follows_many_token_ids(serve: Serve) -> None:
    """Token ids that fill a request come in parts, live as in a snapshot."""
    node = await serve({**TIER, "capacity": 600 * SIZE})
    fingerprint = await node.client.register_namespace(
        namespace("long", tokens_per_block=4096, block_bytes=[SIZE], keep_token_ids=True)
    )
    tokens = [1 << 20] * 4096
    full = EventView.EVENT_VIEW_FULL
    async with following(node.endpoint, view=full) as follower:
        for chain in range(2):
            blocks = [(chain, place) for place in range(300)]
            offer = run(*blocks, token_ids=tokens * 300)
            await node.client.store("cpu0", fingerprint, [offer], [bytes(SIZE)] * 300)
        await follower.settle(node.client)
    async with following(node.endpoint, view=full) as late:
        pass

    assert late.fold.view == follower.fold.view == await listed(node.client)
    assert len(late.fold.tokens) == 600
    assert late.fold.tokens == follower.fold.tokens
