"""What secondaries hold is found and loaded, also of a namespace that the primary does not know."""

import pytest

from kvtier.client import NodeClient, NotFoundError
from tests.waiting import until

from .conftest import Serve
from .proxied import proxied
from .support import blocks_of, cpu_tier, payloads
from .viewing import proxying


async def test_what_a_secondary_has_is_found_and_loaded(serve: Serve) -> None:
    """The lookup tells the primary nothing; the load does, and then it has the block, too."""
    nodes = [await serve(cpu_tier(8), register=False), await serve(cpu_tier(8))]
    async with proxied(nodes) as whole:
        await nodes[1].store("there")
        await whole.settle()

        found = await whole.find("there", "nowhere")
        known = await nodes[0].client.list_namespaces()

        assert (found.sources, found.prefix_lengths) == ((1, None), (0, 1))
        assert await whole.look_up("there", "nowhere") == ["HIT", "MISS"]
        assert list(known) == []
        assert await whole.load("there") == payloads("there")
        assert (await whole.find("there")).sources == (0,)


async def test_a_primary_that_started_anew_hides_nothing_of_the_others(serve: Serve) -> None:
    """Nobody who knows the description need be there; what it had itself is found no more."""
    far = await serve(cpu_tier(8))
    near = await serve(cpu_tier(8))
    await far.store("far")
    await near.store("near")
    async with (
        NodeClient(near.endpoint) as client,
        proxying(client, [far.client]) as (proxy, view),
    ):
        await view.settle(client)
        await view.settle(far.client)
        again = await near.again(serve, cpu_tier(8), listen=near.endpoint)
        await view.settle(again.client)
        await until(lambda: proxy.members.trusts(again.node.node_id))

        (found,) = await proxy.lookup(far.namespace, [blocks_of("far", "near")])

    assert found.sources == (1, None)
    assert found.prefix_lengths == (0, 1)


async def test_a_namespace_that_nobody_knows_is_not_found(serve: Serve) -> None:
    """Neither the primary nor any event has told what it is."""
    nodes = [await serve(cpu_tier(8), register=False) for _ in range(2)]
    async with proxied(nodes) as whole:
        with pytest.raises(NotFoundError, match="register"):
            await whole.look_up("anything")
