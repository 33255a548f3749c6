"""What is stored on the primary goes on to the secondaries, and costs the primary nothing."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from kvtier.client import ExhaustedError, InvalidArgumentError
from kvtier.client.proxy.cascades.cascade import Skip
from kvtier.client.proxy.settings import CascadeSettings
from kvtier.v1.event_service_pb2 import SourceState
from kvtier.v1.result_pb2 import CopyResult
from tests.waiting import until

from .conftest import Follow, Serve
from .managed import Managed, call_down, counting_pulls, holding_up, managing
from .support import (
    BLOCK_BYTES,
    Serving,
    blocks_of,
    cpu_tier,
    gpu_tier,
    hash_set,
    payload,
    payloads,
    run,
    words,
)

QUICK = CascadeSettings(pause=0.05, longest_pause=0.2, stall=0.5)


@pytest.fixture(name="three")
async def _three(serve: Serve) -> AsyncIterator[Managed]:
    """Three nodes of eight blocks each."""
    async with managing([await serve(cpu_tier(8)) for _ in range(3)], cascades=QUICK) as managed:
        yield managed


def sent(managed: Managed, node: Serving) -> int:
    """How many blocks were sent to a node so far."""
    return managed.managing.cascades.counts()[node.endpoint].sent


async def test_a_store_reaches_every_secondary(three: Managed) -> None:
    """With the bytes and parents that it has on the primary."""
    stored = await three.store(1, 2, 3, wait=True)

    outcomes = await stored.cascade.wait()
    assert [words(CopyResult, each.results) for each in outcomes] == [["COPIED"] * 3] * 2
    assert [each.endpoint for each in outcomes] == [node.endpoint for node in three.nodes[1:]]
    for node in three.nodes:
        assert await node.load(1, 2, 3) == payloads(1, 2, 3)
        listed = {b.block_hash: b.start_position async for b in node.client.list_blocks()}
        assert sorted(listed.values()) == [0, 16, 32]
    await three.nothing_is_left()


async def test_nobody_is_asked_before_the_primary_has_it(three: Managed) -> None:
    """A store in steps goes on when it is completed, and what failed of it does not."""
    storing = three.managing.storing
    prepared = await storing.prepare_store("cpu0", three.namespace, [run(1, 2)])
    await three.primary.client.write_blocks(
        prepared.lease, {0: payload(1), 1: payload(2)}, [BLOCK_BYTES] * 2
    )

    async with counting_pulls() as pulled:
        before = list(pulled)
        completed = await storing.complete_store(prepared.lease, failed_blocks=[1], wait=True)

    assert before == []
    assert len(pulled) == 2
    assert completed.cascade is not None
    for outcome in await completed.cascade.wait():
        assert words(CopyResult, outcome.results) == ["COPIED", "UNSPECIFIED"]
    assert await three.nodes[1].held() == await three.nodes[2].held() == hash_set([1])
    await three.nothing_is_left()


async def test_a_failed_store_goes_nowhere(three: Managed, follow: Follow) -> None:
    """No secondary is asked, and nobody tells of anything."""
    followers = [await follow(node) for node in three.nodes]
    prepared = await three.managing.storing.prepare_store("cpu0", three.namespace, [run(1)])

    async with counting_pulls() as pulled:
        done = await three.managing.storing.complete_store(prepared.lease, failed=True, wait=True)

    assert done.cascade is not None
    assert await done.cascade.wait() == ()
    assert pulled == []
    assert [await follower.batches() for follower in followers] == [[], [], []]
    await three.nothing_is_left()


async def test_each_cascade_pins_the_blocks_until_it_ends(serve: Serve) -> None:
    """A primary full of blocks on their way refuses a store, and takes it when one has ended."""
    nodes = [await serve(cpu_tier(2)), await serve(cpu_tier(2)), await serve(cpu_tier(2))]
    async with managing(nodes, cascades=QUICK) as managed, holding_up(*nodes[1:]) as gate:
        await managed.store(1, 2)
        await until(lambda: len(nodes[0].node.leases) == 2)

        assert (await nodes[0].gauges())["leased"] == 2
        with pytest.raises(ExhaustedError):
            await nodes[0].store(3)
        gate.set()
        await until(lambda: not len(nodes[0].node.leases))
        await nodes[0].store(3)

        assert await nodes[1].held() == await nodes[2].held() == hash_set([1, 2])
        await managed.nothing_is_left()


async def test_what_a_secondary_has_is_not_sent_again(three: Managed, follow: Follow) -> None:
    """It is known by the index, nothing is read, and that secondary tells of nothing."""
    await three.nodes[1].store(1, 2)
    await three.settle()
    follower = await follow(three.nodes[1])

    async with counting_pulls() as pulled:
        stored = await three.store(1, 2, cascade=[three.nodes[1].endpoint], wait=True)

    (outcome,) = await stored.cascade.wait()
    assert words(CopyResult, outcome.results) == ["PRESENT"] * 2
    assert pulled == []
    assert await follower.batches() == []
    assert three.managing.cascades.counts()[three.nodes[1].endpoint].present == 2


async def test_who_wants_it_is_said_by_name(three: Managed) -> None:
    """By address, by node id, all, or none; an unknown name stores nothing."""
    second = three.nodes[2]

    await three.store(1, cascade="none", wait=True)
    await three.store(2, cascade=[second.node.node_id], wait=True)
    with pytest.raises(InvalidArgumentError, match="no secondary's"):
        await three.store(3, cascade=["nobody"])
    with pytest.raises(InvalidArgumentError, match="'all', 'none'"):
        await three.store(3, cascade="everybody")

    assert await three.nodes[0].held() == hash_set([1, 2])
    assert await three.nodes[1].held() == set()
    assert await second.held() == hash_set([2])


async def test_blocks_go_to_the_first_tier_that_is_no_gpu(serve: Serve) -> None:
    """Unless the configuration names another."""
    nodes = [
        await serve(cpu_tier(4)),
        await serve(gpu_tier(4), cpu_tier(4)),
        await serve(gpu_tier(4)),
    ]
    named = CascadeSettings(tiers={nodes[2].endpoint: "gpu0"})
    async with managing(nodes, cascades=named) as managed:
        await managed.store(1, wait=True)

    assert (await nodes[1].held("gpu0"), await nodes[1].held("cpu0")) == (set(), hash_set([1]))
    assert await nodes[2].held("gpu0") == hash_set([1])


async def test_a_secondary_without_room_costs_nobody_anything(
    three: Managed, follow: Follow
) -> None:
    """It tells of nothing, the other secondary has the blocks, and no pin is left."""
    full = three.nodes[1]
    await full.store(*range(100, 108))
    pinned = await full.client.prepare_load("cpu0", full.namespace, [blocks_of(*range(100, 108))])
    follower = await follow(full)

    stored = await three.store(1, 2, wait=True)

    outcomes = await stored.cascade.wait()
    assert await follower.batches() == []
    assert [words(CopyResult, each.results)[0] for each in outcomes] == ["NO_ROOM", "COPIED"]
    assert three.managing.cascades.counts()[full.endpoint].failed == 2
    await full.client.complete_load(pinned.lease)
    await three.nothing_is_left()


async def test_a_namespace_that_a_secondary_does_not_know_is_told_to_it(serve: Serve) -> None:
    """As the primary's own description says it."""
    nodes = [await serve(cpu_tier(4)), await serve(cpu_tier(4), register=False)]
    async with managing(nodes) as managed:
        await managed.store(1, wait=True)

    assert await nodes[1].held() == hash_set([1])


async def test_a_slow_secondary_delays_nobody(serve: Serve) -> None:
    """The other has each store at once; what the slow one's queue cannot take is skipped."""
    nodes = [await serve(cpu_tier(16)) for _ in range(3)]
    short = CascadeSettings(queue_blocks=2, stall=30.0)
    async with managing(nodes, cascades=short) as managed, holding_up(nodes[1]) as gate:
        cascades = []
        for block in range(5):
            cascades.append((await managed.store(block)).cascade)
            await until(lambda done=block + 1: sent(managed, nodes[2]) == done)  # type: ignore[misc]
        counts = managed.managing.cascades.counts()[nodes[1].endpoint]
        skipped = dict(counts.skipped)
        gate.set()
        outcomes = [(await cascade.wait())[0] for cascade in cascades]

        assert skipped == {Skip.BUSY: 2}
        assert [each.skipped for each in outcomes] == [None] * 3 + [Skip.BUSY] * 2
        assert await nodes[1].held() == hash_set([0, 1, 2])
        assert await nodes[2].held() == hash_set(range(5))
        await managed.nothing_is_left()


async def test_what_was_skipped_is_sent_later_by_choice(serve: Serve) -> None:
    """When the queue is empty again, in the end nothing is missing."""
    nodes = [await serve(cpu_tier(16)) for _ in range(2)]
    catching_up = CascadeSettings(queue_blocks=1, catch_up=True)
    async with managing(nodes, cascades=catching_up) as managed, holding_up(nodes[1]) as gate:
        for block in range(6):
            await managed.store(block)
        counts = managed.managing.cascades.counts()[nodes[1].endpoint]
        assert counts.skipped[Skip.BUSY] == 4
        gate.set()
        await until(lambda: counts.sent == 6)

        assert await nodes[1].held() == hash_set(range(6))
        await managed.nothing_is_left()


async def test_a_dead_secondary_is_caught_up_when_it_is_back(serve: Serve) -> None:
    """It is skipped while it is down, and the blocks that it missed come once it is heard of."""
    nodes = [await serve(cpu_tier(16)), await serve(cpu_tier(16))]
    catching_up = CascadeSettings(catch_up=True, pause=0.05, longest_pause=0.2)
    async with managing(nodes, cascades=catching_up) as managed:
        (member,) = managed.secondaries
        standing = call_down(member)
        stored = await managed.store(1, 2)
        (outcome,) = await stored.cascade.wait()
        held_while_down = await nodes[1].held()
        standing.state = SourceState.SOURCE_STATE_LIVE
        await until(lambda: managed.managing.cascades.counts()[member.endpoint].sent == 2)

        assert outcome.skipped is Skip.DOWN
        assert held_while_down == set()
        assert await nodes[1].held() == hash_set([1, 2])
        await managed.nothing_is_left()


async def test_a_failed_secondary_is_left_alone_for_a_while(serve: Serve) -> None:
    """One that may not pull from the primary is asked once, then skipped, then asked again."""
    nodes = [await serve(cpu_tier(16)), await serve(cpu_tier(16))]
    async with managing(nodes, cascades=CascadeSettings(pause=0.3)) as managed:
        nodes[1].node.peers._peers.clear()
        (failed,) = await (await managed.store(1, wait=True)).cascade.wait()
        (skipped,) = await (await managed.store(2, wait=True)).cascade.wait()
        await asyncio.sleep(0.35)
        (again,) = await (await managed.store(3, wait=True)).cascade.wait()

        assert "peers" in str(failed.error)
        assert skipped.skipped is Skip.PAUSED
        assert again.error is not None
        await managed.nothing_is_left()


async def test_closing_ends_what_is_under_way(serve: Serve) -> None:
    """What waits is told CLOSED, and no lease is left on the primary."""
    nodes = [await serve(cpu_tier(16)) for _ in range(2)]
    async with managing(nodes) as managed, holding_up(nodes[1]):
        cascades = [(await managed.store(block)).cascade for block in range(3)]
        await until(lambda: len(nodes[0].node.leases))
        await managed.managing.close()
        outcomes = [(await cascade.wait())[0].skipped for cascade in cascades]

        assert outcomes == [Skip.CLOSED] * 3
        await managed.nothing_is_left()
