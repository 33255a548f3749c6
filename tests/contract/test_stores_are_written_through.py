"""Write-through: what is stored in a tier is copied to slower ones."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from xxhash import xxh3_64_intdigest

from kvtier.v1.tier_service_pb2 import PrepareStoreRequest
from kvtier.v1.transfer_service_pb2 import WriteBlocksRequest
from tests.model.check_tables import check_node

from .conftest import Follow, Serve
from .copy_gate import CopyGate
from .support import (
    Serving,
    blocks_of,
    cpu_tier,
    gpu_tier,
    hash_set,
    payload,
    payloads,
    run,
)
from .tiers_of_two import CPU, GPU, by_batch, inclusive, places, stored
from .wire import METHODS, wire


async def store_and_wait(node: Serving, *blocks: object, tier: str = GPU) -> None:
    """Store blocks as one chain under a lease, and wait for their copies."""
    offer = await node.client.prepare_store(tier, node.namespace, [run(*blocks)])
    wanted = {place: payload(blocks[place]) for place, got in enumerate(offer.outcomes) if got == 1}
    if wanted:
        await node.client.write_blocks(offer.lease, wanted, [len(payload(0))] * len(blocks))
    await node.client.complete_store(offer.lease, wait_copies=True)


async def test_a_copy_follows_in_a_batch_of_its_own(serve: Serve, follow: Follow) -> None:
    """Two facts of two tiers: first the store, then the copy."""
    node = await serve(*inclusive(4, 4))
    follower = await follow(node)

    await store_and_wait(node, "A", "B")

    assert by_batch(await follower.news()) == [
        {stored("A", GPU), stored("B", GPU)},
        {stored("A", CPU)},
        {stored("B", CPU)},
    ]
    assert await node.load("A", "B") == payloads("A", "B")


async def test_each_tier_gets_what_it_lacks(serve: Serve, follow: Follow) -> None:
    """A chain of which the tiers hold parts of different length ends whole in both."""
    node = await serve(*inclusive(8, 8))
    await node.store("a", tier=CPU)
    await node.store("a", "b", "c", tier=GPU)
    await node.comes_to({"ready": 3}, CPU)
    await node.client.delete(node.namespace, [blocks_of("b", "c")], tiers=[CPU])
    follower = await follow(node)

    await store_and_wait(node, *"abcd")

    told = [change for batch in by_batch(await follower.news()) for change in batch]
    assert sorted(told) == sorted([stored("d", GPU), *(stored(b, CPU) for b in "bcd")])
    assert await node.held(CPU) == await node.held(GPU) == hash_set("abcd")


async def test_the_deeper_tier_is_not_written_again(serve: Serve, follow: Follow) -> None:
    """Blocks that only the slower tier has are stored in the faster one alone."""
    node = await serve(*inclusive(8, 8))
    await node.store("a", "b", "c", tier=CPU)
    await node.store("a", tier=GPU)
    follower = await follow(node)

    await store_and_wait(node, *"abcd")

    told = [change for batch in by_batch(await follower.news()) for change in batch]
    assert sorted(told) == sorted([*(stored(b, GPU) for b in "bcd"), stored("d", CPU)])


async def test_a_slow_tier_holds_up_no_store(serve: Serve, gate: CopyGate) -> None:
    """Stores go on in a full tier while the copies stand still."""
    node = await serve(*inclusive(8, 64))
    gate.shut()

    for number in range(40):
        await node.store(number, tier=GPU)

    assert await node.gauges(CPU) == {"pending": 2}
    gate.let_through()
    await _until_idle(node)
    about = await node.tier(CPU)
    assert about.ready_blocks == about.counters.written_through
    assert about.counters.written_through + about.counters.copies_failed == 40


async def test_copies_take_no_room_from_leases(serve: Serve) -> None:
    """What finds no room is counted, and the store is none the worse."""
    node = await serve(*inclusive(4, 1))
    await node.store("kept", tier=CPU)
    await node.client.prepare_load(CPU, node.namespace, [blocks_of("kept")])

    await store_and_wait(node, "A")

    assert await places(node, "A", "kept") == [GPU, CPU]
    assert (await node.tier(CPU)).counters.copies_failed == 1


async def test_a_block_twice_in_an_offer_is_copied_once(serve: Serve) -> None:
    """The slower tier has it once, and neither tier holds anything of it."""
    node = await serve(*inclusive(4, 4))
    runs, bytes_ = [run("a"), run("a"), run("b")], payloads("a", "a", "b")

    await node.client.store(GPU, node.namespace, runs, bytes_)
    await _until_idle(node)

    assert await node.gauges(CPU) == await node.gauges(GPU) == {"ready": 2}
    counters = (await node.tier(CPU)).counters
    assert (counters.written_through, counters.copies_failed) == (2, 0)
    check_node(node.node)


async def test_what_is_not_stored_is_no_failed_copy(serve: Serve) -> None:
    """Blocks of an offer that the tier does not hold are none of the copies' affair."""
    node = await serve(gpu_tier(4, write_through=[CPU], store_threshold=2), cpu_tier(4))

    await node.client.store(GPU, node.namespace, [run("a", "b")], payloads("a", "b"))
    await _until_idle(node)

    assert (await node.tier(CPU)).counters.copies_failed == 0


async def test_what_was_stored_before_its_lease_ended_is_written_through(serve: Serve) -> None:
    """A call that breaks off after its first block leaves that block in both tiers."""
    node = await serve(*inclusive(4, 4))
    first = payload("a")
    offer = PrepareStoreRequest(
        tier=GPU, namespace=node.namespace, runs=[run("a", "b")], lease_id=b"i" * 16, owner="me"
    )
    ended = asyncio.Event()

    async def one_block() -> AsyncIterator[bytes]:
        yield WriteBlocksRequest(offer=offer).SerializeToString()
        checksums = [xxh3_64_intdigest(first)]
        yield WriteBlocksRequest(data=first, checksums=checksums).SerializeToString()
        await ended.wait()

    async with wire(node.endpoint) as raw:
        call = raw.open(METHODS["TransferService.WriteBlocks"], one_block())
        await node.comes_to({"ready": 1, "pending": 1}, GPU)
        node.clock.advance(400)

        await node.comes_to({"ready": 1}, GPU)
        ended.set()
        await call.code()

    await node.comes_to({"ready": 1}, CPU)


@pytest.mark.parametrize("error", [OSError("no space"), MemoryError(), KeyError("a fault")])
async def test_a_copy_that_fails_shows_nowhere(
    serve: Serve, gate: CopyGate, error: Exception
) -> None:
    """The store stands; the slower tier has nothing, and holds nothing."""
    node = await serve(*inclusive(4, 4))
    gate.error = error

    await store_and_wait(node, "A")

    assert await places(node, "A") == [GPU]
    assert await node.gauges(CPU) == {}
    assert (await node.tier(CPU)).counters.copies_failed == 1


async def test_a_repeated_completion_waits_too(serve: Serve, gate: CopyGate) -> None:
    """Whoever lost the first answer gets it when the copies have ended."""
    node = await serve(*inclusive(4, 4))
    offer = await node.client.prepare_store(GPU, node.namespace, [run("A")])
    await node.client.write_blocks(offer.lease, {0: payload("A")}, [len(payload("A"))])
    gate.shut()
    first, second = (
        asyncio.create_task(node.client.complete_store(offer.lease, wait_copies=True)) for _ in "12"
    )
    await gate.reached()
    assert not first.done()

    gate.let_through()

    assert await first == await second
    assert await places(node, "A") == ["gpu0+cpu0"]


async def test_one_tier_writes_through_to_several(serve: Serve) -> None:
    """Every tier that is named gets a copy."""
    node = await serve(gpu_tier(4, write_through=[CPU, "cpu1"]), cpu_tier(4), cpu_tier(4, "cpu1"))

    await store_and_wait(node, "A")

    assert await places(node, "A") == ["gpu0+cpu0+cpu1"]


async def _until_idle(node: Serving) -> None:
    for _ in range(500):
        if not node.node.tiering.jobs:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("copies go on and on")
