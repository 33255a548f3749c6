"""A proxy over real nodes."""

import asyncio
from collections.abc import Callable, Sequence

from kvtier.client import Quality, TieringProxy, Watch
from kvtier.v1.event_service_pb2 import SourceState, WatchEventsResponse
from kvtier.v1.result_pb2 import LookupResult
from kvtier.v1.tier_pb2 import Node

from .conftest import Serve
from .support import Serving, blocks_of, cpu_tier, words


def _blocks(messages: Sequence[WatchEventsResponse]) -> list[str]:
    """The nodes of the messages that tell of blocks, in order, repeats left out."""
    nodes = [each.node_id for each in messages if each.HasField("batches")]
    return [node for place, node in enumerate(nodes) if nodes[:place][-1:] != [node]]


async def _take(
    proxy: TieringProxy, enough: Callable[[list[WatchEventsResponse]], bool]
) -> list[WatchEventsResponse]:
    found: list[WatchEventsResponse] = []
    async with asyncio.timeout(20):
        while not enough(found):
            await asyncio.sleep(0.01)
            found += proxy.take_events()
    return found


async def _caught_up(proxy: TieringProxy, described: Node) -> None:
    await _take(proxy, lambda _: proxy.index.position(described.node_id) == described.head)


def _live(messages: Sequence[WatchEventsResponse]) -> set[str]:
    return {each.node_id for each in messages if each.state.source == SourceState.SOURCE_STATE_LIVE}


def _proxy(nodes: Sequence[Serving]) -> TieringProxy:
    primary, *secondaries = (node.client for node in nodes)
    return TieringProxy(
        primary, secondaries, watch=lambda client: Watch(client, heartbeat_interval=0.5)
    )


async def test_one_take_brings_the_primary_then_the_secondaries(serve: Serve) -> None:
    """Copies that ended in the other order are told in the configured one."""
    nodes = [await serve(cpu_tier(8)) for _ in range(3)]
    names = [(await node.client.get_node()).node_id for node in nodes]

    async with _proxy(nodes) as proxy:
        await _take(proxy, lambda found: _live(found) == set(names))
        for node in reversed(nodes):
            await node.store(1, 2)
        await asyncio.sleep(0.5)
        taken = proxy.take_events()

    assert _blocks(taken) == names


async def test_the_mirror_equals_the_secondaries_listings(serve: Serve) -> None:
    """After evictions on every node each mirror holds what its node lists."""
    nodes = [await serve(cpu_tier(8)) for _ in range(3)]
    async with _proxy(nodes) as proxy:
        for number in range(40):
            await nodes[number % 3].store(number, number + 100)
        for node in nodes[1:]:
            described = await node.client.get_node()
            await _caught_up(proxy, described)
            keys = proxy.index.blocks(described.node_id, "cpu0")
            assert {key.block_hash for key in keys} == await node.held()
            assert len(keys) == 8
            assert proxy.index.quality(described.node_id) is Quality.EXACT
        assert proxy.index.bad_events == 0


async def test_a_lookup_finds_the_first_node_that_has_a_block(serve: Serve) -> None:
    """A block on the primary is the primary's; what only a secondary holds is found there."""
    nodes = [await serve(cpu_tier(8)) for _ in range(3)]
    names = {(await node.client.get_node()).node_id for node in nodes}
    async with _proxy(nodes) as proxy:
        await _take(proxy, lambda found: _live(found) == names)
        await nodes[0].store(1)
        await nodes[1].store(1, 2)
        await nodes[2].store(1, 2, 3)
        for node in nodes[1:]:
            await _caught_up(proxy, await node.client.get_node())

        (found,) = await proxy.lookup(nodes[0].namespace, [blocks_of(1, 2, 3, 4)])

    assert words(LookupResult, found.results) == ["HIT", "HIT", "HIT", "MISS"]
    assert found.sources == (0, 1, 2, None)
    assert found.prefix_lengths == (1, 2, 3)
    assert found.longest == (2, 3)


async def test_a_touch_on_the_proxy_spares_the_block_everywhere(serve: Serve) -> None:
    """The touched block outlives the others on the primary and on every secondary."""
    nodes = [await serve(cpu_tier(2)) for _ in range(3)]
    names = {(await node.client.get_node()).node_id for node in nodes}
    async with _proxy(nodes) as proxy:
        await _take(proxy, lambda found: _live(found) == names)
        for node in nodes:
            await node.store(1)
            await node.store(2)

        await proxy.touch(nodes[0].namespace, [blocks_of(1)], request_id="r")

        for node in nodes:
            await node.store(3)
            assert await node.look_up(1) == ["HIT"]


async def test_a_secondary_that_drains_is_told_and_the_rest_goes_on(serve: Serve) -> None:
    """No removal is made up for it; its hits are left out, and the primary's events come."""
    nodes = [await serve(cpu_tier(8)) for _ in range(2)]
    name = (await nodes[1].client.get_node()).node_id
    async with _proxy(nodes) as proxy:
        await nodes[1].store(7)
        await _take(proxy, lambda found: len(_live(found)) == 2)

        await nodes[1].server.drain_and_stop()
        found = await _take(
            proxy,
            lambda found: any(
                each.node_id == name and each.state.source == SourceState.SOURCE_STATE_DOWN
                for each in found
            ),
        )
        await nodes[0].store(1)
        found += await _take(proxy, lambda found: bool(_blocks(found)))
        (looked,) = await proxy.lookup(nodes[0].namespace, [blocks_of(1, 7)])

    removed = [each for m in found for batch in m.batches.batches for each in batch.removed]
    reasons = [each.state.reason for each in found if each.node_id == name and each.state.reason]
    assert removed == []
    assert any("draining" in reason for reason in reasons)
    assert words(LookupResult, looked.results) == ["HIT", "MISS"]
