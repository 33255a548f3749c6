"""A copy of which a part failed is told as what it is, and a copy is told like the original."""

import pytest
from xxhash import xxh3_64_intdigest

from kvtier.v1.block_pb2 import BlockRun, BlockSet
from kvtier.v1.event_service_pb2 import EventView
from kvtier.v1.result_pb2 import WriteResult
from kvtier.v1.tier_service_pb2 import (
    PrepareStoreRequest,
)
from kvtier.v1.transfer_service_pb2 import WriteBlocksRequest, WriteBlocksResponse
from kvtier.wire.hashes import join_hashes

from .conftest import Serve
from .folding import Key, listed
from .following import Following, following
from .support import (
    TOKENS,
    Serving,
    block_hash,
    cpu_tier,
    gpu_tier,
    hash_set,
    hashes,
    namespace,
    payload,
    payloads,
    words,
)
from .wire import METHODS, wire

KEEPING = namespace("kept", keep_token_ids=True)
GROUP, SCOPE, ADAPTER = 1, b"tenant", "adapter-7"
BLOCKS = ("A", "B", "C")
FIRST_START = 2 * TOKENS
FULL = EventView.EVENT_VIEW_FULL


async def store_original(node: Serving) -> bytes:
    """Store a chain that has everything, in the host tier; return the fingerprint."""
    fingerprint = await node.client.register_namespace(KEEPING)
    chain = BlockRun(
        group=GROUP,
        scope=SCOPE,
        block_hashes=hashes(*BLOCKS),
        parent_block_hash=block_hash("parent"),
        start_position=FIRST_START,
        token_ids=range(TOKENS * len(BLOCKS)),
        adapter_name=ADAPTER,
    )
    await node.client.store("cpu0", fingerprint, [chain], payloads(*BLOCKS))
    return fingerprint


async def runs_of(source: Serving, told: Following) -> list[BlockRun]:
    """Make an offer of what a node lists and told, block by block, in the order of the chain."""
    found = [block async for block in source.client.list_blocks(tiers=["cpu0"])]
    tokens = {key.block_hash: ids for key, ids in told.fold.tokens.items()}
    return [
        BlockRun(
            group=block.group,
            scope=block.scope,
            block_hashes=block.block_hash,
            parent_block_hash=block.parent_block_hash,
            start_position=block.start_position,
            token_ids=tokens[block.block_hash],
            adapter_name=block.adapter_name,
        )
        for block in sorted(found, key=lambda block: block.start_position)
    ]


async def write(
    target: Serving, tier: str, fingerprint: bytes, runs: list[BlockRun], *damaged: str
) -> dict[int, str]:
    """Offer blocks and write them, some with bytes that do not fit their checksum."""
    offer = PrepareStoreRequest(
        tier=tier, namespace=fingerprint, runs=runs, lease_id=b"copy" * 4, owner="copier"
    )
    parts = [
        WriteBlocksRequest(
            block_index=place,
            checksums=[xxh3_64_intdigest(payload(block)) ^ (block in damaged)],
            data=payload(block),
        )
        for place, block in enumerate(BLOCKS)
    ]
    async with wire(target.endpoint) as raw:
        method = METHODS["TransferService.WriteBlocks"]
        outcome = await raw.call(method, WriteBlocksRequest(offer=offer), *parts)
    assert outcome.code == "OK"
    results: dict[int, str] = {}
    for answer in map(WriteBlocksResponse.FromString, outcome.answers):
        results |= zip(answer.block_indexes, words(WriteResult, answer.results), strict=True)
    return results


async def load(node: Serving, tier: str, fingerprint: bytes) -> list[bytes | None]:
    wanted = BlockSet(group=GROUP, scope=SCOPE, block_hashes=join_hashes(map(block_hash, BLOCKS)))
    return list((await node.client.load(tier, fingerprint, [wanted])).payloads)


@pytest.mark.parametrize(
    ("tier", "elsewhere"),
    [("gpu0", False), ("cpu0", True)],
    ids=["up to another tier", "to another node"],
)
async def test_a_copy_of_which_a_block_failed(serve: Serve, tier: str, elsewhere: bool) -> None:
    """Told is what loads, with every field of the original; the other block has its own error."""
    source = await serve(gpu_tier(8), cpu_tier(8))
    target = await serve(cpu_tier(8)) if elsewhere else source
    async with (
        following(source.endpoint, view=FULL) as original,
        following(target.endpoint, view=FULL) as follower,
    ):
        fingerprint = await store_original(source)
        await target.client.register_namespace(KEEPING)
        await original.settle(source.client)
        runs = await runs_of(source, original)

        results = await write(target, tier, fingerprint, runs, "B")
        await follower.settle(target.client)

    def facts(told: Following, where: str, block: str) -> object:
        key = Key(where, fingerprint, GROUP, SCOPE, block_hash(block))
        return told.fold.view[key], told.fold.tokens[key]

    copied = {key.block_hash for key in follower.fold.view if key.tier == tier}
    assert results == {0: "STORED", 1: "CORRUPT", 2: "STORED"}
    assert copied == hash_set("AC") == await target.held(tier)
    assert await load(target, tier, fingerprint) == [payload("A"), None, payload("C")]
    assert follower.fold.view == await listed(target.client)
    for block in "AC":
        assert facts(follower, tier, block) == facts(original, "cpu0", block)
    assert follower.fold.count("stored", block_hash("B"), tier) == 0
