"""Promotion: a load that asks for it brings up what a slower tier has."""

import asyncio

from kvtier.v1.result_pb2 import LookupResult

from .conftest import Connect, Follow, Serve
from .copy_gate import CopyGate
from .folding import listed
from .support import Serving, blocks_of, cpu_tier, gpu_tier, payload, payloads, run, words
from .tiers_of_two import (
    CPU,
    GPU,
    by_batch,
    exclusive,
    inclusive,
    load_up,
    places,
    removed,
    stored,
)


async def below(node: Serving, *blocks: object) -> None:
    """Store blocks in the slower tier, each by a request of its own."""
    for block in blocks:
        await node.client.store(CPU, node.namespace, [run(block)], payloads(block))


async def test_a_block_moves_up_in_one_batch(serve: Serve, follow: Follow) -> None:
    """Where the slower tier takes over what is evicted, a block is in one of both."""
    node = await serve(*exclusive(2, 2))
    await below(node, "A")
    follower = await follow(node)

    assert await load_up(node, "A") == ["HIT"]

    assert by_batch(await follower.news()) == [{removed("A", CPU, "PROMOTED"), stored("A", GPU)}]
    assert await node.load("A", tier=GPU) == [payload("A")]


async def test_a_block_is_copied_up(serve: Serve, follow: Follow) -> None:
    """Where the faster tier writes through, the slower one keeps its copy."""
    node = await serve(*inclusive(2, 2))
    await below(node, "A")
    follower = await follow(node)

    assert await load_up(node, "A") == ["HIT"]

    assert by_batch(await follower.news()) == [{stored("A", GPU)}]
    assert await places(node, "A") == ["gpu0+cpu0"]


async def test_a_promoted_block_is_told_as_it_was_stored(serve: Serve) -> None:
    """Its event and its listing carry the parent, position and adapter of the first store."""
    node = await serve(*inclusive(4, 4))
    await below(node, "A")
    offer = run("B", after="A", adapter_name="tenant-7")
    await node.client.store(CPU, node.namespace, [offer], payloads("B"))

    await load_up(node, "A", "B")

    above, under = await listed(node.client, GPU), await listed(node.client, CPU)
    assert {k.block_hash: v for k, v in above.items()} == {
        k.block_hash: v for k, v in under.items()
    }


async def test_full_tiers_change_blocks(serve: Serve, follow: Follow) -> None:
    """What moves up leaves the room that what moves down takes, and nothing is lost."""
    node = await serve(*exclusive(2, 2))
    await below(node, "A", "B")
    await node.store("C", "D", tier=GPU)
    follower = await follow(node)

    assert await load_up(node, "A", "B") == ["HIT", "HIT"]

    await follower.settle()
    assert dict(follower.fold.most) == {GPU: 2, CPU: 2}
    assert all(len(batch) == 4 for batch in by_batch(await follower.news()))
    assert await places(node, *"ABCD") == [GPU, GPU, CPU, CPU]
    assert await node.load("C", "D") == payloads("C", "D")


async def test_a_load_without_the_wish_brings_nothing(serve: Serve, follow: Follow) -> None:
    """Nor does a lookup, however often."""
    node = await serve(*exclusive(2, 2))
    await below(node, "A")
    follower = await follow(node)

    await node.look_up("A")
    result = await load_up(node, "A", promote=False, wait=False)

    assert result == ["MISS"]
    assert await follower.news() == []


async def test_without_waiting_blocks_are_pending_until_they_are_there(
    serve: Serve, gate: CopyGate
) -> None:
    """The answer comes at once, and what is there already is pinned."""
    node = await serve(*inclusive(4, 4))
    await below(node, "B")
    await node.store("A", tier=GPU)
    await node.client.delete(node.namespace, [blocks_of("A")], tiers=[CPU])
    gate.shut()

    assert await load_up(node, "A", "B", wait=False) == ["HIT", "HIT_PENDING"]
    assert await node.look_up("A", "B") == ["HIT", "HIT"]

    gate.let_through()
    await node.comes_to({"ready": 2}, GPU)
    assert await load_up(node, "A", "B", wait=False) == ["HIT", "HIT"]


async def test_a_wait_ends_in_time_for_the_answer(
    serve: Serve, connect: Connect, gate: CopyGate
) -> None:
    """The caller hears what is still on its way before its deadline."""
    node = await serve(*inclusive(4, 4))
    await below(node, "A")
    hurried = await connect(node, timeout=0.5)
    gate.shut()

    answer = await hurried.prepare_load(
        GPU, node.namespace, [blocks_of("A")], promote=True, wait=True
    )

    assert words(LookupResult, answer.results) == ["HIT_PENDING"]


async def test_as_long_a_prefix_as_has_room(serve: Serve) -> None:
    """The head comes up; what finds no room is to be asked for again, and stays below."""
    node = await serve(*inclusive(2, 4))
    await below(node, *"ABCD")

    assert await load_up(node, *"ABCD") == ["HIT", "HIT", "RETRY", "RETRY"]

    assert await places(node, *"ABCD") == ["gpu0+cpu0"] * 2 + [CPU] * 2


async def test_a_hole_ends_the_prefix(serve: Serve) -> None:
    """What is behind a block that nobody has is not brought up."""
    node = await serve(*inclusive(4, 4))
    await below(node, "A", "C")

    assert await load_up(node, "A", "B", "C") == ["HIT", "MISS", "RETRY"]


async def test_however_many_ask_a_block_is_brought_once(serve: Serve, gate: CopyGate) -> None:
    """Twenty loads of the same blocks are one transfer, and all of them get their blocks."""
    node = await serve(*inclusive(8, 8))
    await below(node, *"ABC")
    gate.blocks = 0
    gate.shut()
    loads = [asyncio.create_task(load_up(node, *"ABC")) for _ in range(20)]
    await gate.reached()
    await asyncio.sleep(0.1)

    gate.let_through()

    assert await asyncio.gather(*loads) == [["HIT"] * 3] * 20
    assert gate.blocks == 3
    assert (await node.tier(GPU)).counters.promoted == 3
    assert await node.gauges(GPU) == {"ready": 3}


async def test_promotions_leave_room_for_stores(serve: Serve, connect: Connect) -> None:
    """Loads that hold what they brought up never take the last part of a tier from stores."""
    node = await serve(gpu_tier(16, promotion_limit=0.5), cpu_tier(64))
    await below(node, *range(40))
    clients = [await connect(node) for _ in range(4)]

    held = [
        await client.prepare_load(
            GPU, node.namespace, [blocks_of(*range(i * 10, i * 10 + 10))], promote=True, wait=True
        )
        for i, client in enumerate(clients)
    ]
    for number in range(100, 140):
        await node.store(number, tier=GPU)

    found = [words(LookupResult, answer.results).count("HIT") for answer in held]
    assert sum(found) == 8
    assert (await node.tier(GPU)).counters.refused == 0


async def test_loads_that_are_not_taken_up_starve_no_store(
    serve: Serve, connect: Connect, gate: CopyGate
) -> None:
    """Twenty clients ask for fifty blocks each and use none, while another stores all the time.

    What is read below is less than twice what they were given.
    """
    node = await serve(gpu_tier(16), cpu_tier(1000))
    chains = [list(range(first, first + 50)) for first in range(0, 1000, 50)]
    for chain in chains:
        await node.client.store(CPU, node.namespace, [run(*chain)], payloads(*chain))
    clients = [await connect(node) for _ in range(5)]
    given = 0

    async def ask(number: int) -> None:
        nonlocal given
        client = clients[number % len(clients)]
        wanted = [blocks_of(*chains[number])]
        await client.lookup(node.namespace, wanted)
        answer = await client.prepare_load(GPU, node.namespace, wanted, promote=True, wait=True)
        given += words(LookupResult, answer.results).count("HIT")
        await client.complete_load(answer.lease)

    async def store() -> None:
        for number in range(5000, 5100):
            await node.store(number, tier=GPU)

    await asyncio.gather(store(), *map(ask, range(20)))

    assert (await node.tier(GPU)).counters.refused == 0
    assert given > 0
    assert gate.blocks < 2 * given


async def test_a_block_that_is_leased_below_is_copied(serve: Serve) -> None:
    """A lease on the slower copy keeps it, also where blocks else move."""
    node = await serve(*exclusive(2, 2))
    await below(node, "A")
    lease = (await node.client.prepare_load(CPU, node.namespace, [blocks_of("A")])).lease

    assert await load_up(node, "A") == ["HIT"]

    assert await places(node, "A") == ["gpu0+cpu0"]
    await node.client.complete_load(lease)


async def test_a_block_with_wrong_bytes_does_not_come_up(
    serve: Serve, follow: Follow, gate: CopyGate
) -> None:
    """The good blocks before it do; the slower tier drops it, so that nobody tries again."""
    node = await serve(*inclusive(4, 4))
    await below(node, "A", "B")
    slot = node.node.tiers[1].table.key.index(
        next(k for k in node.node.tiers[1].table.key if k.endswith(blocks_of("B").block_hashes))
    )
    node.node.tiers[1].arena.write(node.node.tiers[1].position_of(slot), b"rotten")
    follower = await follow(node)

    assert await node.look_up("A", "B") == ["HIT", "HIT"]
    assert await load_up(node, "A", "B") == ["HIT", "MISS"]

    assert await node.look_up("A", "B") == ["HIT", "MISS"]
    told = await follower.news()
    assert removed("B", CPU, "CORRUPT") in {c for batch in by_batch(told) for c in batch}
    assert await load_up(node, "A", "B") == ["HIT", "MISS"]
    assert gate.blocks == 2, "nobody tries to read it again"
    assert await node.gauges(GPU) == {"ready": 1}


async def test_a_copy_that_fails_is_no_hit(serve: Serve, gate: CopyGate) -> None:
    """The load answers, the block stays below, and nothing is held."""
    node = await serve(*inclusive(4, 4))
    await below(node, "A")
    gate.error = OSError("the device is gone")

    assert await load_up(node, "A") == ["RETRY"]

    assert await node.gauges(GPU) == {}
    assert await node.gauges(CPU) == {"ready": 1}


async def test_a_caller_that_leaves_holds_nothing(serve: Serve, gate: CopyGate) -> None:
    """What it asked for arrives, and may be evicted like anything else."""
    node = await serve(*inclusive(2, 4))
    await below(node, "A", "B")
    gate.shut()
    loading = asyncio.create_task(load_up(node, "A", "B"))
    await gate.reached()

    loading.cancel()
    async with asyncio.timeout(10):
        while node.node.turns._taken:  # noqa: ASYNC110 - nothing tells that the node heard of it
            await asyncio.sleep(0.01)
    gate.let_through()
    await node.comes_to({"ready": 2}, GPU)
    await node.store("C", "D", tier=GPU)

    assert (await node.client.get_node()).leases == 0
    await node.comes_to({"ready": 2}, GPU)  # once C and D were copied down


async def test_an_eviction_in_one_tier_leaves_the_other(serve: Serve, follow: Follow) -> None:
    """One removal, tagged with its tier; the block is still found in the slower one."""
    node = await serve(*inclusive(1, 4))
    await node.store("H", tier=GPU)
    await node.comes_to({"ready": 1}, CPU)
    follower = await follow(node)

    await node.client.prepare_store(GPU, node.namespace, [run("X")])

    assert by_batch(await follower.news()) == [{removed("H", GPU, "EVICTED")}]
    assert await places(node, "H") == [CPU]
