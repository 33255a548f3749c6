"""Demotion: what is evicted from a tier is taken over by the tier below it."""

import asyncio

import pytest

from kvtier.client import ExhaustedError, KvtierError

from .conftest import Follow, Serve
from .copy_gate import CopyGate
from .folding import listed
from .support import (
    Serving,
    block_hash,
    blocks_of,
    cpu_tier,
    evicted_hashes,
    gpu_tier,
    payload,
    payloads,
    run,
)
from .tiers_of_two import CPU, GPU, by_batch, exclusive, places, removed, stored


async def prepare(node: Serving, *blocks: object) -> list[bytes]:
    """Offer blocks to the faster tier, and return what was evicted for them."""
    answer = await node.client.prepare_store(GPU, node.namespace, [run(*blocks)])
    return evicted_hashes(answer.evicted)


async def count(node: Serving, what: str, tier: str = GPU) -> int:
    """Return one of a tier's counters."""
    number: int = getattr((await node.tier(tier)).counters, what)
    return number


async def test_the_tier_below_takes_over_in_one_batch(serve: Serve, follow: Follow) -> None:
    """From batch to batch the block is somewhere, and its removal says that it was demoted."""
    node = await serve(*exclusive(2, 4))
    await node.store("A", "B", tier=GPU)
    follower = await follow(node)

    evicted = await prepare(node, "C")

    assert evicted == [block_hash("B")]
    assert by_batch(await follower.news()) == [{removed("B", GPU, "DEMOTED"), stored("B", CPU)}]
    assert await places(node, "A", "B") == [GPU, CPU]
    assert await node.load("B") == [payload("B")]


async def test_a_demoted_block_is_told_as_it_was_stored(serve: Serve) -> None:
    """Its parent, position and adapter are those of its first store."""
    node = await serve(*exclusive(2, 4))
    offer = run("B", after="A", adapter_name="tenant-7")
    await node.client.store(GPU, node.namespace, [run("A")], payloads("A"))
    await node.client.store(GPU, node.namespace, [offer], payloads("B"))
    before = {key.block_hash: facts for key, facts in (await listed(node.client, GPU)).items()}

    await prepare(node, "C", "D")

    after = {key.block_hash: facts for key, facts in (await listed(node.client, CPU)).items()}
    assert after == before


async def test_a_block_that_is_below_already_is_not_stored_again(
    serve: Serve, follow: Follow
) -> None:
    """Its eviction is told as a demotion, and no bytes move."""
    node = await serve(*exclusive(1, 4))
    await node.store("A", tier=CPU)
    await node.store("A", tier=GPU)
    follower = await follow(node)

    await prepare(node, "B")

    assert by_batch(await follower.news()) == [{removed("A", GPU, "DEMOTED")}]
    assert await count(node, "dropped") == 0


async def test_victims_keep_their_order_below(serve: Serve) -> None:
    """What was used longest ago leaves the node first, whichever way it came down."""
    node = await serve(*exclusive(2, 4))
    for block in "ABCDEF":
        await node.client.store(
            GPU, node.namespace, [run(block)], payloads(block), request_id=block
        )
    assert await places(node, *"ABCDEF") == [CPU] * 4 + [GPU] * 2

    await node.client.touch(node.namespace, [blocks_of("A")], request_id="later")
    await node.store("G", "H", tier=GPU)

    assert await places(node, *"ABCDEF") == [CPU, "", "", CPU, CPU, CPU]


async def test_a_full_tier_below_hands_down_further(serve: Serve) -> None:
    """Three tiers in a row: the oldest block ends in the slowest."""
    node = await serve(
        gpu_tier(1, on_evict=CPU, demote_wait=10),
        cpu_tier(1, on_evict="cpu1", demote_wait=10),
        cpu_tier(2, "cpu1"),
    )

    for block in "ABC":
        await node.store(block, tier=GPU)

    assert await places(node, *"CBA") == [GPU, CPU, "cpu1"]


async def test_without_room_below_the_block_is_dropped_and_counted(
    serve: Serve, follow: Follow
) -> None:
    """A tier below whose blocks are all leased takes nothing; the store goes on."""
    node = await serve(*exclusive(1, 1))
    await node.store("kept", tier=CPU)
    await node.client.prepare_load(CPU, node.namespace, [blocks_of("kept")])
    await node.store("A", tier=GPU)
    follower = await follow(node)

    await prepare(node, "B")

    assert by_batch(await follower.news()) == [{removed("A", GPU, "EVICTED")}]
    assert await count(node, "dropped") == 1


async def test_a_failed_copy_is_a_drop(serve: Serve, gate: CopyGate) -> None:
    """The store gets its room, the loss is counted, and nothing shows below."""
    node = await serve(*exclusive(1, 2))
    await node.store("A", tier=GPU)
    gate.error = OSError("the device is gone")

    assert await prepare(node, "B") == [block_hash("A")]

    assert await count(node, "dropped") == 1
    assert await node.held(CPU) == set()
    assert await node.gauges(CPU) == {}


async def test_a_block_with_wrong_bytes_is_not_handed_down(serve: Serve, follow: Follow) -> None:
    """Its checksum is looked at on the way; the tier drops it and says why."""
    node = await serve(*exclusive(1, 2))
    await node.store("A", tier=GPU)
    tier = node.node.tiers[0]
    tier.arena.write(0, b"rotten")
    follower = await follow(node)

    await prepare(node, "B")

    assert by_batch(await follower.news()) == [{removed("A", GPU, "CORRUPT")}]
    assert await node.held(CPU) == set()


class TestWhileTheCopyIsUnderWay:
    """A victim stays readable until its copy ends."""

    async def test_it_is_a_hit_and_loads(self, serve: Serve, gate: CopyGate) -> None:
        """Nothing of it can be seen from outside."""
        node = await serve(*exclusive(1, 2))
        await node.store("A", tier=GPU)
        gate.shut()
        storing = asyncio.create_task(prepare(node, "B"))
        await gate.reached()

        assert await places(node, "A") == [GPU]
        assert await node.load("A", tier=GPU) == [payload("A")]

        gate.let_through()
        assert await storing == [block_hash("A")]

    async def test_a_load_takes_it_back_and_another_goes(
        self, serve: Serve, gate: CopyGate
    ) -> None:
        """A block that is leased meanwhile stays where it is."""
        node = await serve(*exclusive(2, 2))
        await node.store("B", tier=GPU)
        await node.store("A", tier=GPU)
        gate.shut()
        storing = asyncio.create_task(prepare(node, "C"))
        await gate.reached()

        await node.client.prepare_load(GPU, node.namespace, [blocks_of("B")])
        gate.let_through()

        assert await storing == [block_hash("A")]
        assert await places(node, "A", "B") == [CPU, GPU]

    async def test_an_offer_takes_it_back(self, serve: Serve, gate: CopyGate) -> None:
        """A block that is offered anew is used: it stays."""
        node = await serve(*exclusive(2, 2))
        await node.store("B", tier=GPU)
        await node.store("A", tier=GPU)
        gate.shut()
        storing = asyncio.create_task(prepare(node, "C"))
        await gate.reached()

        await node.store("B", tier=GPU)
        gate.let_through()

        assert await storing == [block_hash("A")]
        assert await places(node, "A", "B") == [CPU, GPU]

    async def test_a_delete_is_obeyed(self, serve: Serve, follow: Follow, gate: CopyGate) -> None:
        """The copy is not busy for it, and does not bring the block back elsewhere."""
        node = await serve(*exclusive(1, 2))
        await node.store("A", tier=GPU)
        follower = await follow(node)
        gate.shut()
        storing = asyncio.create_task(prepare(node, "B"))
        await gate.reached()

        answer = await node.client.delete(node.namespace, [blocks_of("A")])
        gate.let_through()
        await storing

        assert [list(tier.results) for tier in answer.tiers] == [[1], [1]]
        assert by_batch(await follower.news()) == [{removed("A", GPU, "DELETED")}]
        assert await node.gauges(CPU) == {}

    async def test_a_clear_is_obeyed_in_either_tier(self, serve: Serve, gate: CopyGate) -> None:
        """A cleared tier stays empty when the copy ends."""
        node = await serve(*exclusive(1, 2))
        await node.store("A", tier=GPU)
        gate.shut()
        storing = asyncio.create_task(prepare(node, "B"))
        await gate.reached()

        await node.client.clear(CPU)
        await node.client.clear(GPU)
        gate.let_through()
        await storing

        assert await places(node, "A") == [""]
        assert await node.gauges(CPU) == {}

    async def test_its_slot_is_not_written(self, serve: Serve, gate: CopyGate) -> None:
        """What arrives below is the block, whatever was stored above meanwhile."""
        node = await serve(*exclusive(2, 4, demote_wait=0.05))
        await node.store("A", tier=GPU)
        await node.store("B", tier=GPU)
        gate.shut()

        await node.store("C", tier=GPU)
        gate.let_through()
        await node.comes_to({"ready": 1}, CPU)

        assert await node.load("A") == [payload("A")]
        assert await node.load("C", tier=GPU) == [payload("C")]


async def test_a_store_waits_no_longer_than_demote_wait(serve: Serve, gate: CopyGate) -> None:
    """Then another block is dropped, and counted; the slow copy ends by itself."""
    node = await serve(*exclusive(2, 2, demote_wait=0.05))
    await node.store("A", tier=GPU)
    await node.store("B", tier=GPU)
    gate.shut()

    evicted = await prepare(node, "C")

    assert evicted == [block_hash("B")]
    assert await count(node, "dropped") == 1
    assert await places(node, "A", "B") == [GPU, ""]
    gate.let_through()
    await node.comes_to({"ready": 1}, CPU)
    assert await places(node, "A") == [CPU]
    assert await count(node, "demoted") == 1


async def test_a_caller_that_leaves_gives_everything_back(serve: Serve, gate: CopyGate) -> None:
    """No slot, lease or space is left of an offer whose caller went away while it waited."""
    node = await serve(*exclusive(2, 4))
    await node.store("A", "B", tier=GPU)
    gate.shut()
    storing = asyncio.create_task(prepare(node, "C", "D"))
    await gate.reached()

    storing.cancel()
    with pytest.raises((asyncio.CancelledError, KvtierError)):
        await storing
    gate.let_through()
    await node.comes_to({"ready": 1}, CPU)

    await node.comes_to({"ready": 1}, GPU)
    assert (await node.client.get_node()).leases == 0
    await node.store("E", "F", tier=GPU)


async def test_the_same_offer_twice_waits_for_one_answer(serve: Serve, gate: CopyGate) -> None:
    """A repeat that comes while the first still waits gets the same answer."""
    node = await serve(*exclusive(1, 2))
    await node.store("A", tier=GPU)
    gate.shut()
    offer = (GPU, node.namespace, [run("B")])
    first, second = (
        asyncio.create_task(node.client.prepare_store(*offer, lease_id=b"i" * 16)) for _ in "12"
    )
    await gate.reached()
    await asyncio.sleep(0.05)

    gate.let_through()

    assert await first == await second
    assert await node.gauges(GPU) == {"pending": 1}


async def test_an_offer_that_can_never_fit_moves_nothing(serve: Serve, follow: Follow) -> None:
    """It is refused before anything is demoted."""
    node = await serve(*exclusive(2, 4))
    await node.store("A", "B", tier=GPU)
    follower = await follow(node)

    with pytest.raises(ExhaustedError):
        await prepare(node, "C", "D", "E")

    assert await follower.news() == []


async def test_a_part_of_the_tier_is_kept_free(serve: Serve) -> None:
    """Blocks go down ahead of need, so that a store finds room at once."""
    node = await serve(*exclusive(8, 16, free_target=0.5))

    await node.store(*"ABCDEFGH", tier=GPU)

    await node.comes_to({"ready": 4}, GPU)
    assert await places(node, *"ABCDEFGH") == [GPU] * 4 + [CPU] * 4


async def test_no_tier_is_shown_beyond_its_capacity(serve: Serve, follow: Follow) -> None:
    """A follower never counts more blocks than fit, at any batch."""
    node = await serve(*exclusive(3, 4))
    follower = await follow(node)

    for first in range(0, 40, 2):
        await node.store(first, first + 1, tier=GPU)

    await follower.settle()
    assert dict(follower.fold.most) == {GPU: 3, CPU: 4}
    assert follower.fold.view == await listed(node.client)
