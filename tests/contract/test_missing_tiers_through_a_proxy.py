"""A tier or a member that is not there is a named error through a proxy, and hurts nobody."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from kvtier.client import InvalidArgumentError, KvtierError, NotFoundError, Reason
from kvtier.client.proxy.settings import CascadeSettings

from .conftest import Serve
from .proxied import Proxied, proxied
from .support import cpu_tier, hash_set, payloads, run

NAMES = ["gpu0", "fs0", "obj0", "remote0", ""]
Call = Callable[[Proxied, str], Awaitable[Any]]

CALLS: dict[str, Call] = {
    "store": lambda whole, tier: whole.store("x", tier=tier),
    "prepare_store": lambda whole, tier: whole.proxy.prepare_store(
        tier, whole.namespace, [run("x")]
    ),
    "load": lambda whole, tier: whole.load("far", tier=tier),
    "prepare_load": lambda whole, tier: whole.proxy.prepare_load(
        tier, whole.namespace, [run("far")], wait=False
    ),
}


@pytest.fixture(name="whole")
async def _whole(serve: Serve) -> AsyncIterator[Proxied]:
    """A proxy over two nodes with host memory alone, each with a block of its own."""
    nodes = [await serve(cpu_tier(8)) for _ in range(2)]
    await nodes[0].store("near")
    await nodes[1].store("far")
    async with proxied(nodes) as whole:
        yield whole


async def goes_on(whole: Proxied) -> None:
    """See that the proxy works as ever, and that no node holds anything for a call that failed."""
    for node in whole.nodes:
        assert (await node.client.get_node()).leases == 0
    assert await whole.look_up("near", "far") == ["HIT", "HIT"]
    assert await whole.load("far") == payloads("far")


@pytest.mark.parametrize("tier", NAMES)
@pytest.mark.parametrize("name", CALLS)
async def test_a_tier_that_the_primary_lacks_is_not_found(
    whole: Proxied, name: str, tier: str
) -> None:
    """The error names it and what there is instead; nothing is stored, and all goes on."""
    with pytest.raises(NotFoundError) as refused:
        await CALLS[name](whole, tier)

    assert refused.value.reason == Reason.TIER_UNKNOWN
    assert repr(tier) in refused.value.message
    assert "cpu0" in refused.value.message
    assert await whole.primary.held() == hash_set(["near"])
    await goes_on(whole)


@pytest.mark.parametrize("tier", NAMES)
async def test_a_clear_of_a_tier_that_is_not_there_shows_as_failed(
    whole: Proxied, tier: str
) -> None:
    """By the node and the tier; what else was named is cleared, and the other node untouched."""
    far = whole.nodes[1]
    await far.store("more")

    cleared = await whole.proxy.clear({far.endpoint: [tier, "cpu0"]})
    await whole.settle()

    assert not cleared.complete
    assert isinstance(cleared.failed[far.endpoint], NotFoundError)
    assert repr(tier) in str(cleared.failed[far.endpoint])
    assert await far.held() == set()
    assert await whole.look_up("near", "far") == ["HIT", "MISS"]


async def test_a_cascade_to_a_tier_that_is_not_there_costs_the_store_nothing(
    serve: Serve,
) -> None:
    """Its outcome says which tier of whom; the primary has the block, and no pin is left."""
    nodes = [await serve(cpu_tier(8)) for _ in range(2)]
    named = CascadeSettings(tiers={nodes[1].endpoint: "fs0"})
    async with proxied(nodes, cascades=named) as whole:
        stored = await whole.store("x")

        (outcome,) = await stored.cascade.wait()
        assert isinstance(outcome.error, KvtierError)
        assert "'fs0'" in str(outcome.error)
        assert await nodes[0].held() == hash_set(["x"])
        assert await nodes[1].held() == set()
        assert [(await node.client.get_node()).leases for node in nodes] == [0, 0]


async def test_a_member_that_is_not_there_is_a_bad_argument(whole: Proxied) -> None:
    """Of a cascade and of a clear: nothing is stored, and nothing cleared."""
    with pytest.raises(InvalidArgumentError, match="'nobody'"):
        await whole.store("x", cascade=["nobody"])
    with pytest.raises(InvalidArgumentError, match="'nobody'"):
        await whole.proxy.clear({"nobody": ["cpu0"]})

    await goes_on(whole)
