"""What only a secondary has is brought to the primary once, and loaded there."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from kvtier.client import InvalidArgumentError
from kvtier.client.proxy.settings import PromotionSettings
from kvtier.v1.event_service_pb2 import SourceState
from kvtier.v1.result_pb2 import LookupResult, ReadResult
from tests.waiting import until

from .conftest import Follow, Serve
from .folding import listed
from .managed import Managed, befriend, call_down, counting_pulls, holding_up, managing
from .support import (
    BLOCK_BYTES,
    Serving,
    block_hash,
    blocks_of,
    cpu_tier,
    gpu_tier,
    hash_set,
    payloads,
    run,
    words,
)

QUICK = PromotionSettings(deadline=5.0, pause=0.2, longest_pause=0.4, stall=0.1)


@pytest.fixture(name="three")
async def _three(serve: Serve) -> AsyncIterator[Managed]:
    """Three nodes with room for a pull of eight blocks in one step."""
    async with managing([await serve(cpu_tier(32)) for _ in range(3)], promotions=QUICK) as managed:
        yield managed


async def store(managed: Managed, number: int, *blocks: object, **more: object) -> Serving:
    """Store blocks at one node, by its number, and wait until that is known."""
    node = managed.nodes[number]
    await node.store(*blocks, **more)  # type: ignore[arg-type]
    await managed.settle()
    return node


async def test_what_only_the_last_secondary_has_is_loaded(three: Managed, follow: Follow) -> None:
    """By one transfer; the primary tells that it stored the blocks, and the secondary nothing."""
    await store(three, 2, 1, 2, 3)
    primary, secondary = await follow(three.nodes[0]), await follow(three.nodes[2])

    async with counting_pulls() as pulled:
        loaded = await three.load(1, 2, 3)

    assert loaded == payloads(1, 2, 3)
    assert pulled == [three.nodes[2].endpoint]
    (batch,) = await primary.batches()
    (stored,) = batch.stored
    assert stored.block_hashes == run(1, 2, 3).block_hashes
    assert list(stored.start_positions) == [0]
    assert await secondary.batches() == []
    await three.nothing_is_left()


async def test_without_waiting_it_is_pending_then_there(three: Managed) -> None:
    """The first call answers at once; what it began comes all the same."""
    await store(three, 2, 1, 2)

    async with holding_up(three.nodes[0]) as gate:
        pending = await three.prepare(1, 2, wait=False)
        gate.set()
        await until(lambda: not three.managing.promotions.under_way)

    assert pending == ["HIT_PENDING"] * 2
    assert await three.prepare(1, 2, wait=False) == ["HIT", "HIT"]
    await three.nothing_is_left()


async def test_many_who_ask_at_one_time_move_a_block_once(three: Managed) -> None:
    """Also when their chains overlap in part."""
    await store(three, 1, 1, 2, 3, 4)

    async with counting_pulls() as pulled, holding_up(three.nodes[0]) as gate:
        asked = [
            asyncio.create_task(three.load(*chain)) for chain in ((1, 2, 3, 4), (1, 2), (1, 2, 3))
        ]
        await until(lambda: len(three.nodes[0].node.leases) == 3)
        await until(lambda: three.managing.promotions.under_way == 4)
        gate.set()
        loaded = await asyncio.gather(*asked)

    assert loaded == [payloads(1, 2, 3, 4), payloads(1, 2), payloads(1, 2, 3)]
    assert len(pulled) == 1
    assert (await three.nodes[0].tier()).counters.stored == 4
    await three.nothing_is_left()


async def test_each_block_comes_from_the_first_that_has_it(three: Managed) -> None:
    """What the primary has stays; of two secondaries the first in order gives."""
    await store(three, 0, 1)
    await store(three, 1, 1, 2)
    await store(three, 2, 1, 2, 3)

    async with counting_pulls() as pulled:
        assert await three.load(1, 2, 3) == payloads(1, 2, 3)

    assert sorted(pulled) == sorted([three.nodes[1].endpoint, three.nodes[2].endpoint])
    counts = three.managing.promotions.counts
    assert {node: count.copied for node, count in counts.items()} == {
        three.nodes[1].endpoint: 1,
        three.nodes[2].endpoint: 1,
    }


async def test_what_a_secondary_does_not_have_after_all_is_a_miss(
    three: Managed, follow: Follow
) -> None:
    """The rest is there and announced, nothing stays pending, and it is not asked again."""
    node = await store(three, 2, 1, 2, 3)
    follower = await follow(three.nodes[0])
    lose(node, 2)

    async with counting_pulls() as pulled:
        first = await three.prepare(1, 2, 3)
        again = await three.prepare(1, 2, 3)

    assert first == again == ["HIT", "MISS", "HIT"]
    assert pulled == [node.endpoint]
    told = b"".join(s.block_hashes for b in await follower.batches() for s in b.stored)
    assert told == block_hash(1) + block_hash(3)
    assert await three.nodes[0].gauges() == {"ready": 2}
    verdicts = three.managing.verdicts
    key = (node.node.node_id, three.namespace, 0, b"")
    assert verdicts.denied(*key, [block_hash(1), block_hash(2)]) == [False, True]
    await three.nothing_is_left()


async def test_a_verdict_ends_when_the_block_is_stored_again(three: Managed) -> None:
    """The node's own event is believed, and the block comes."""
    node = await store(three, 2, 1, 2)
    lose(node, 2)
    assert await three.prepare(1, 2) == ["HIT", "MISS"]

    await node.store(2, after=1)
    await until(lambda: not len(three.managing.verdicts))

    assert await three.load(1, 2) == payloads(1, 2)


async def test_another_secondary_gives_what_the_first_lacks(three: Managed) -> None:
    """In the same load."""
    first = await store(three, 1, 1, 2)
    await store(three, 2, 1, 2)
    lose(first, 2)

    assert await three.load(1, 2) == payloads(1, 2)


async def test_no_room_is_a_miss_for_now_and_evicts_nothing(serve: Serve) -> None:
    """Nothing on the primary changes; when there is room the block comes."""
    async with managing([await serve(cpu_tier(2)), await serve(cpu_tier(4))]) as managed:
        primary = managed.nodes[0]
        await store(managed, 0, 1, 2)
        await store(managed, 1, 9)
        pinned = await primary.client.prepare_load("cpu0", primary.namespace, [blocks_of(1, 2)])
        before = await listed(primary.client)

        refused = await managed.prepare(9)
        after = await listed(primary.client)
        await primary.client.complete_load(pinned.lease)

        assert refused == ["MISS"]
        assert after == before
        assert await managed.load(9) == payloads(9)
        await managed.nothing_is_left()


async def test_more_than_is_admitted_is_told_to_ask_again(serve: Serve) -> None:
    """Promotions leave room for stores: what is refused is RETRY, and comes when asked again."""
    few = PromotionSettings(blocks=2)
    nodes = [await serve(cpu_tier(8)), await serve(cpu_tier(8))]
    async with managing(nodes, promotions=few) as managed:
        await store(managed, 1, 1, 2, 3)

        assert await managed.prepare(1, 2, 3) == ["HIT", "HIT", "RETRY"]
        assert await managed.prepare(1, 2, 3) == ["HIT", "HIT", "HIT"]
        await managed.nothing_is_left()


async def test_a_secondary_that_hangs_costs_the_deadline_once(three: Managed) -> None:
    """Then it is left alone: who asks again is told so at once, and the other still gives."""
    await store(three, 1, 1, 2)
    await store(three, 2, 2)
    loop = asyncio.get_running_loop()

    async with holding_up(three.nodes[0]) as gate:
        hung = await three.prepare(1, 2, deadline=0.3)
        began = loop.time()
        left_alone = await three.prepare(1, wait=True)
        took = loop.time() - began
        gate.set()
        other = await three.load(2)

    assert hung == ["RETRY", "RETRY"]
    assert left_alone == ["RETRY"]
    assert took < 0.3
    assert other == payloads(2)
    await three.nothing_is_left()


async def test_a_dead_secondary_is_told_to_ask_again_then_left_alone(serve: Serve) -> None:
    """What the primary has is given at once, and no lease is left."""
    nodes = [await serve(cpu_tier(8)), await serve(cpu_tier(8))]
    async with managing(nodes, promotions=QUICK) as managed:
        await store(managed, 0, 1)
        await store(managed, 1, 2)
        befriend(nodes[0], [])

        results = await managed.prepare(1, 2)

        assert results == ["HIT", "RETRY"]
        assert "peers" in managed.managing.promotions.counts[nodes[1].endpoint].error
        await managed.nothing_is_left()


async def test_a_load_that_is_cancelled_leaves_nothing(three: Managed) -> None:
    """Not on the primary, not at the secondary, and no task; others that wait still get theirs."""
    await store(three, 1, 1, 2)

    async with holding_up(three.nodes[0]) as gate:
        gone = asyncio.create_task(three.load(1, 2))
        stays = asyncio.create_task(three.load(2))
        flights = three.managing.promotions._under_way
        await until(lambda: [each.wanted for each in flights.values()] == [2, 2])
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        still = three.managing.promotions.under_way
        stays.cancel()
        await asyncio.gather(stays, return_exceptions=True)
        await three.nothing_is_left()
        gate.set()

    assert still == 2
    assert await three.nodes[0].held() == set()
    # One of which nothing came until nobody waited any more may be left alone for a moment.
    await until(lambda: len(three.managing.promotions.order()) == 2)
    assert await three.load(1, 2) == payloads(1, 2)


async def test_who_asks_right_after_one_who_left_is_served(three: Managed) -> None:
    """What is being ended is not what it waits for."""
    await store(three, 1, 1, 2)

    async with holding_up(three.nodes[0]) as gate:
        gone = asyncio.create_task(three.load(1, 2))
        await until(lambda: three.managing.promotions.under_way == 2)
        gone.cancel()
        comes = asyncio.create_task(three.load(1, 2))
        await asyncio.gather(gone, return_exceptions=True)
        gate.set()
        loaded = await comes

    assert loaded == payloads(1, 2)
    await three.nothing_is_left()


async def test_slower_tiers_of_the_primary_come_up_first(serve: Serve) -> None:
    """What the primary has below is promoted there, and only the rest is pulled."""
    nodes = [await serve(gpu_tier(4), cpu_tier(4)), await serve(cpu_tier(4))]
    async with managing(nodes) as managed:
        await nodes[0].store(1)
        await nodes[1].store(1, 2)
        await managed.settle()

        report = await managed.managing.loading.load("gpu0", managed.namespace, [run(1, 2)])

        assert list(report.payloads) == payloads(1, 2)
        assert managed.managing.promotions.counts[nodes[1].endpoint].copied == 1
        assert await nodes[0].held("gpu0") == hash_set([1, 2])
        await managed.nothing_is_left()


async def test_what_is_pinned_twice_for_a_moment_is_no_reason_to_fail(serve: Serve) -> None:
    """A load of as many bytes as its owner may lease works."""
    limit = {"leased_bytes_per_owner": 2 * BLOCK_BYTES}
    nodes = [await serve(cpu_tier(8), limits=limit), await serve(cpu_tier(8))]
    async with managing(nodes) as managed:
        await store(managed, 0, 1)
        await store(managed, 1, 1, 2)

        assert await managed.load(1, 2) == payloads(1, 2)
        await managed.nothing_is_left()


async def test_a_namespace_that_the_primary_does_not_know_is_told_to_it(serve: Serve) -> None:
    """As the secondary's events describe it."""
    nodes = [await serve(cpu_tier(8), register=False), await serve(cpu_tier(8))]
    async with managing(nodes) as managed:
        await store(managed, 1, 1)

        assert await managed.load(1) == payloads(1)


async def test_deadlines_that_are_short_add_up(three: Managed) -> None:
    """A secondary that stands still is left alone, however little time each load has."""
    await store(three, 1, 1)
    (member, _) = three.secondaries

    async with holding_up(three.nodes[0]) as gate:
        for _ in range(20):
            await three.prepare(1, deadline=0.02)
            if three.managing.promotions.pausing(member):
                break
        gate.set()

    assert three.managing.promotions.pausing(member)
    await three.nothing_is_left()


async def test_closing_ends_what_is_on_its_way(three: Managed) -> None:
    """Who waits is told to ask again, and nothing more is begun."""
    await store(three, 1, 1)
    await store(three, 2, 1)

    async with holding_up(three.nodes[0]) as gate, counting_pulls() as pulled:
        waiting = asyncio.create_task(three.prepare(1))
        pending = await three.prepare(1, wait=False)
        await three.managing.close()
        results = await waiting
        await three.nothing_is_left()
        gate.set()

    assert (pending, results) == (["HIT_PENDING"], ["RETRY"])
    assert len(pulled) <= 1


async def test_what_nobody_has_is_a_miss(three: Managed) -> None:
    """While a secondary is out of sync it is RETRY; while one is down it is a MISS."""
    await store(three, 0, 1)
    assert await three.prepare(1, 7) == ["HIT", "MISS"]
    report = await three.managing.loading.load("cpu0", three.namespace, [run(7)])
    assert words(ReadResult, report.results) == ["MISS"]

    standing = call_down(three.secondaries[0])
    down = await three.prepare(7)
    standing.state = SourceState.SOURCE_STATE_CONNECTING
    unheard = await three.prepare(7)
    standing.state = SourceState.SOURCE_STATE_LIVE

    assert (unheard, down) == (["RETRY"], ["MISS"])
    await three.nothing_is_left()


async def test_runs_that_leave_a_gap_are_refused(three: Managed) -> None:
    """The primary's own error reaches who asked, and nothing is left."""
    await store(three, 1, 1, 2)
    await store(three, 0, 1)

    with pytest.raises(InvalidArgumentError, match="start_position"):
        await three.managing.loading.prepare_load(
            "cpu0", three.namespace, [run(2, after=1, start=64)]
        )

    await three.nothing_is_left()


async def test_a_block_that_is_named_twice_is_answered_twice(three: Managed) -> None:
    """And brought once."""
    await store(three, 1, 1, 2)

    answer = await three.managing.loading.prepare_load(
        "cpu0", three.namespace, [run(1, 2), run(1, 2)]
    )
    await three.primary.client.release_leases([answer.lease])

    assert words(LookupResult, answer.results) == ["HIT"] * 4
    assert (await three.nodes[0].tier()).counters.stored == 2


def lose(node: Serving, block: object) -> None:
    """Take a block away from a node without a word to its followers."""
    tier = node.node.tier("cpu0")
    told = tier.announcer.removed
    tier.announcer.removed = lambda *_: None  # type: ignore[method-assign]
    (slot,) = [
        slot
        for slot, key in enumerate(tier.table.key)
        if key.endswith(block_hash(block)) and tier.table.state[slot]
    ]
    tier.remove([slot], 1)
    tier.announcer.removed = told  # type: ignore[method-assign]
