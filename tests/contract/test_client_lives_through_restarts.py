"""A client and its followers go on when a node starts anew on its address."""

import asyncio
from collections.abc import Callable

from kvtier.client import BlockIndex, Quality, Watch
from kvtier.v1.result_pb2 import CopyResult

from .conftest import Serve
from .support import (
    Serving,
    block_hash,
    blocks_of,
    cpu_tier,
    hash_set,
    namespace,
    payloads,
    run,
    words,
)


async def _restart(serve: Serve, node: Serving) -> Serving:
    """Stop a node and start another with its name and address, and an empty tier."""
    name = (await node.client.get_node()).node_id
    await node.server.drain_and_stop()
    return await serve(cpu_tier(64), node_id=name, listen=node.endpoint)


async def _follow(watch: Watch, index: BlockIndex, done: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not done():
            index.apply(await anext(watch))


def _held(index: BlockIndex, node_id: str) -> set[bytes]:
    return {key.block_hash for key in index.blocks(node_id, "cpu0")}


async def test_a_view_holds_only_the_second_life(serve: Serve) -> None:
    """Nothing of the first life is left, though the second log grew past the old position."""
    first = await serve(cpu_tier(64))
    for number in range(5):
        await first.store(number)
    name = (await first.client.get_node()).node_id
    index = BlockIndex()

    async with Watch(first.client, heartbeat_interval=0.5) as watch:
        await _follow(watch, index, lambda: _held(index, name) == hash_set(range(5)))
        epoch = index.position(name)
        second = await _restart(serve, first)
        for number in range(100, 120):
            await second.store(number)
        await _follow(watch, index, lambda: _held(index, name) == hash_set(range(100, 120)))

    position = index.position(name)
    assert epoch is not None
    assert position is not None
    assert position.epoch != epoch.epoch
    assert index.quality(name) is Quality.EXACT
    assert await second.held() == _held(index, name)


async def test_calls_go_on_and_the_namespace_is_told_again(serve: Serve) -> None:
    """The old client stores and loads on the new node, without a word from its user."""
    first = await serve(cpu_tier(64))
    mine = await first.client.register_namespace(namespace("mine"))
    await first.client.store("cpu0", mine, [run(1)], payloads(1))
    second = await _restart(serve, first)
    assert "mine" not in [each.name for each in await second.client.list_namespaces()]

    await first.client.store("cpu0", mine, [run(2)], payloads(2))

    loaded = await first.client.load("cpu0", mine, [blocks_of(1, 2)])
    assert list(loaded.payloads) == [None, *payloads(2)]


async def test_a_resumed_stream_is_contiguous(serve: Serve) -> None:
    """Over many connections, each from where the last one ended, every sequence comes once."""
    node = await serve(cpu_tier(64))
    kinds: list[str | None] = []
    sequences: list[int] = []
    watch = Watch(node.client)
    await _until_synced(watch)

    for number in range(30):
        await node.store(number)
        positions = watch.positions
        await watch.close()
        watch = Watch(node.client, positions=positions)
        await node.store(1000 + number)
        async with asyncio.timeout(10):
            while len(sequences) < 2 * number + 2:
                message = await anext(watch)
                kinds.append(message.WhichOneof("kind"))
                sequences += [batch.sequence for batch in message.batches.batches]
    await watch.close()

    head = (await node.client.get_node()).head.sequence
    assert sequences == list(range(head - len(sequences) + 1, head + 1))
    assert "reset" not in kinds


async def _until_synced(watch: Watch) -> None:
    async for message in watch:
        if message.HasField("synced"):
            return


async def test_a_follower_of_one_tier_sees_that_tier(serve: Serve) -> None:
    """A filtered follower accounts for every sequence, and its count agrees."""
    node = await serve(cpu_tier(64), cpu_tier(64, "cpu1"))
    await node.store(1)
    await node.store(2, tier="cpu1")
    name = (await node.client.get_node()).node_id
    index = BlockIndex()

    async with Watch(node.client, tiers=["cpu1"]) as watch:
        await _follow(watch, index, lambda: index.quality(name) is Quality.EXACT)
        await node.store(3)
        await node.store(4, tier="cpu1")
        head = (await node.client.get_node()).head
        await _follow(watch, index, lambda: index.position(name) == head)

    assert index.blocks(name, "cpu0") == set()
    assert {key.block_hash for key in index.blocks(name, "cpu1")} == hash_set([2, 4])
    assert block_hash(1) in await node.held()
    assert index.bad_events == 0


async def test_a_copy_goes_on_and_the_namespace_is_told_again(serve: Serve) -> None:
    """A copy that meets a node which forgot the namespace finds nothing there, and no error."""
    first = await serve(cpu_tier(4), cpu_tier(4, "cpu1"))
    mine = await first.client.register_namespace(namespace("mine"))
    name = (await first.client.get_node()).node_id
    await first.server.drain_and_stop()
    second = await serve(cpu_tier(4), cpu_tier(4, "cpu1"), node_id=name, listen=first.endpoint)

    await first.client.get_node()
    answers = [
        list(answer.results)
        async for answer in first.client.copy(mine, [run(1)], from_tier="cpu0", to_tier="cpu1")
    ]

    assert [words(CopyResult, results) for results in answers] == [["MISS"]]
    assert "mine" in [each.name for each in await second.client.list_namespaces()]
