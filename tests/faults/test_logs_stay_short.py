"""What a node logs at its default level does not grow with what it does."""

import asyncio
import json
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest

from kvtier.client import NodeClient
from kvtier.v1.lookup_pb2 import LookupBlocksRequest
from kvtier.v1.removal_pb2 import DeleteBlocksRequest
from kvtier.v1.tier_service_pb2 import PrepareLoadRequest
from tests.contract.raw_calls import raw
from tests.contract.scraping import scrape
from tests.contract.support import WIDTH, block_hash, blocks_of

from .bulk import Filler, small_tier
from .conftest import StartNode
from .processes import NodeProcess

if TYPE_CHECKING:
    from google.protobuf.message import Message

EVENTS, REFUSED = 100_000, 10_000
AT_ONCE = 64
TOKEN = "Bearer c2VjcmV0LXRva2VuLXZhbHVl"


@pytest.mark.slow
async def test_lines_are_far_fewer_than_events_and_bad_requests(start_node: StartNode) -> None:
    """A hundred thousand blocks come and go, and ten thousand calls are refused, in some lines.

    Each refused call has a line or is counted in one; no line has a block's hash or a token.
    """
    node = await start_node(tiers=[small_tier(1024)], metrics_listen="127.0.0.1:0")
    async with NodeClient(node.endpoint) as client:
        filler = await Filler.of(client)
        await filler.store(EVENTS // 2, together=512)
        (tier,) = await client.list_tiers()
        await refuse(node, filler.fingerprint)
        metrics = await scrape(metrics_address(node))
    await node.terminate()

    lines = [json.loads(line) for line in node.log.splitlines()]
    assert tier.counters.stored + tier.counters.removed > 0.95 * EVENTS
    assert told(lines) == REFUSED
    refused = {"grpc_code": "INVALID_ARGUMENT"}
    assert metrics.total("grpc_server_handled_total", **refused) == REFUSED
    assert metrics.total("kvtier_tier_removals_total") == tier.counters.removed
    assert len(lines) < 200
    for word in (block_hash("named").hex(), TOKEN):
        assert word not in node.log


async def refuse(node: NodeProcess, fingerprint: bytes) -> None:
    """Make calls that are wrong in different ways, each naming a block and a token."""
    named = blocks_of("named")
    half = blocks_of("named")
    half.block_hashes = half.block_hashes[: WIDTH // 2]
    bad: list[tuple[str, bytes | Message]] = [
        ("LookupBlocks", b"\xff\xff"),
        ("LookupBlocks", LookupBlocksRequest(namespace=fingerprint, chains=[half])),
        ("DeleteBlocks", DeleteBlocksRequest(namespace=fingerprint, blocks=[half])),
        ("PrepareLoad", PrepareLoadRequest(namespace=fingerprint, tier="cpu0", blocks=[named])),
    ]
    encoded = [(m, r if isinstance(r, bytes) else r.SerializeToString()) for m, r in bad]
    async with grpc.aio.insecure_channel(node.endpoint) as channel:
        calls = [raw(channel, method) for method, _ in encoded]

        async def some(count: int) -> None:
            for number in range(count):
                which = number % len(encoded)
                call = calls[which](
                    encoded[which][1], metadata=(("authorization", TOKEN),), timeout=60
                )
                assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT

        shares = [REFUSED // AT_ONCE + (each < REFUSED % AT_ONCE) for each in range(AT_ONCE)]
        await asyncio.gather(*map(some, shares))


def metrics_address(node: NodeProcess) -> str:
    """Return where a node serves its metrics, as its log says."""
    lines = map(json.loads, node.log.splitlines())
    return next(str(line["listen"]) for line in lines if line["event"] == "metrics")


def told(lines: list[dict[str, Any]]) -> int:
    """Return how many refused calls lines tell of: one each, or as a number."""
    return sum(
        line["calls"] if line["event"] == "refused calls were not logged" else 1
        for line in lines
        if line["event"] in {"refused", "refused calls were not logged"}
    )
