"""A proxy that knows nothing yet says so, and uses what it knows of some nodes at once."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack

from kvtier.client import Backoff, NodeClient, Quality, TieringProxy, Watch
from kvtier.v1.result_pb2 import LookupResult
from tests.faults.relay import Relay

from .conftest import Serve
from .following import PATIENCE
from .support import Serving, blocks_of, cpu_tier, hash_set, payloads, run, words

BLOCKS = 10_000
STEP = 1000


async def fill(node: Serving, name: str) -> None:
    for first in range(0, BLOCKS, STEP):
        blocks = [(name, number) for number in range(first, first + STEP)]
        await node.client.store("cpu0", node.namespace, [run(*blocks)], payloads(*blocks))


def quick(client: NodeClient) -> Watch:
    return Watch(client, heartbeat_interval=0.5, backoff=Backoff(base=0.01, cap=0.05))


async def asked(proxy: TieringProxy, node: Serving, *blocks: object) -> list[str]:
    (found,) = await proxy.lookup(node.namespace, [blocks_of(*blocks)])
    return words(LookupResult, found.results)


async def until(proxy: TieringProxy, condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)
            proxy.take_events()


async def test_what_is_known_already_is_used_and_what_is_not_is_to_be_asked_again(
    serve: Serve,
) -> None:
    """Four full nodes, one of which is out of reach at first: HIT and RETRY, then HITs alone."""
    nodes = [await serve(cpu_tier(BLOCKS)) for _ in range(4)]
    names = [(await node.client.get_node()).node_id for node in nodes]
    await asyncio.gather(*(fill(node, name) for node, name in zip(nodes, "pabc", strict=True)))
    question = [("p", 7), ("a", 7), ("b", 7), ("c", 7), "nowhere"]

    async with AsyncExitStack() as stack:
        relay = await stack.enter_async_context(Relay(""))
        late = await stack.enter_async_context(NodeClient(relay.endpoint))
        others = [nodes[1].client, nodes[2].client, late]
        proxy = TieringProxy(nodes[0].client, others, watch=quick)
        await stack.enter_async_context(proxy)

        at_first = await asked(proxy, nodes[0], *question)
        await until(proxy, lambda: all(proxy.index.quality(n) is Quality.EXACT for n in names[1:3]))
        in_between = await asked(proxy, nodes[0], *question)
        relay.target = nodes[3].endpoint
        await until(proxy, lambda: proxy.index.quality(names[3]) is Quality.EXACT)
        in_the_end = await asked(proxy, nodes[0], *question)
        held = {key.block_hash for key in proxy.index.blocks(names[3], "cpu0")}

    assert at_first == ["HIT", "RETRY", "RETRY", "RETRY", "RETRY"]
    assert in_between in (
        ["HIT", "HIT", "HIT", "RETRY", "RETRY"],
        # Once it is known to be down, a node counts as having nothing.
        ["HIT", "HIT", "HIT", "MISS", "MISS"],
    )
    assert in_the_end == ["HIT", "HIT", "HIT", "HIT", "MISS"]
    assert held == hash_set([("c", number) for number in range(BLOCKS)])
