"""A writer that dies half way leaves nothing behind: no block, no reservation, no obstacle."""

import pytest

from kvtier.v1.result_pb2 import LookupResult, StoreOutcome, WriteResult

from .conftest import Follow, Serve
from .support import (
    ANY_TIER,
    FILE_BYTES,
    TIER_KINDS,
    MakeTier,
    block_hash,
    blocks_of,
    namespace,
    payload,
    run,
    words,
)
from .vanishing import Job, vanishing
from .ways import Store

DEFAULT_TTL = 30
SMALL, LARGE = 64, 1 << 20


BEGUN = {
    f"{what} {name}": (what, size)
    for what in ("reserve", "offer", "place")
    for name, size in (("small", SMALL), ("large", LARGE))
}


def for_blocks_of(size: int, tier: dict[str, object]) -> dict[str, object]:
    """Give a tier room for one block of a size."""
    if tier["medium"] == "fs":
        return tier | {"capacity": -(-size // FILE_BYTES) * FILE_BYTES + FILE_BYTES}
    return tier | {"capacity": size, "slot_bytes": size}


@pytest.mark.parametrize("begun", BEGUN.values(), ids=BEGUN)
async def test_a_killed_writer_leaves_room_for_the_next(
    serve: Serve, follow: Follow, any_tier: MakeTier, store: Store, begun: tuple[str, int]
) -> None:
    """The block is never found; the room returns; another writer stores it, told once."""
    what, size = begun
    if what == "place" and any_tier is not TIER_KINDS["cpu"]:
        pytest.skip("only a host tier can be mapped here")
    node = await serve(for_blocks_of(size, any_tier(1)))
    sized = namespace("sized", block_bytes=[size])
    fingerprint = await node.client.register_namespace(sized)
    follower = await follow(node)
    offer = (node.client, ANY_TIER, fingerprint, [run("H")], [payload("H", size)])
    job = Job(
        what, node.endpoint, ANY_TIER, fingerprint.hex(), block_hash("H").hex(), part=size // 2
    )

    async with vanishing(job) as process:
        seen = await node.client.prepare_load(ANY_TIER, fingerprint, [blocks_of("H")])
        listing = await node.held(ANY_TIER)
        meanwhile = await store(*offer)
        process.kill()
        await process.wait()
    if what != "offer":
        # Nobody can tell a dead owner from a slow one: only time ends its lease.
        assert await node.gauges(ANY_TIER) == {"pending": 1}
        node.clock.advance(DEFAULT_TTL)
    await node.comes_to({}, ANY_TIER)
    gone = await node.client.prepare_load(ANY_TIER, fingerprint, [blocks_of("H")])
    again = await store(*offer)

    assert words(LookupResult, seen.results) == ["HIT_PENDING"]
    assert listing == set()
    assert words(StoreOutcome, meanwhile.outcomes) == ["PENDING"]
    assert words(LookupResult, gone.results) == ["MISS"]
    assert words(WriteResult, again.results) == ["STORED"]
    report = await node.client.load(ANY_TIER, fingerprint, [blocks_of("H")])
    assert list(report.payloads) == [payload("H", size)]
    assert [(each.what, each.block_hash) for each in await follower.news()] == [
        ("stored", block_hash("H"))
    ]
    assert (await node.tier(ANY_TIER)).counters.abandoned == 1
