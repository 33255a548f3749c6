"""On the way to other nodes, and in what is known of them, a block keeps its whole identity."""

import pytest

from kvtier.client import BlockKey
from kvtier.v1.result_pb2 import LookupResult

from .conftest import Serve
from .identities import IDENTITIES, Identity
from .support import cpu_tier, words
from .viewing import proxying
from .ways import store_in_one_call

Three = tuple[Identity, Identity, Identity]
each_kind = pytest.mark.parametrize("three", IDENTITIES.values(), ids=IDENTITIES)


@each_kind
async def test_a_proxy_finds_each_where_it_is(serve: Serve, three: Three) -> None:
    """One identity's block is on the primary, another's on the secondary, a third's nowhere."""
    primary, secondary = await serve(cpu_tier(2)), await serve(cpu_tier(2))
    one, two, _ = three
    await one.store(primary.client, "cpu0", store_in_one_call)
    await two.store(secondary.client, "cpu0", store_in_one_call)

    async with proxying(primary.client, [secondary.client]) as (proxy, view):
        await view.settle(primary.client)
        await view.settle(secondary.client)
        answers = [
            (await proxy.lookup(await each.register(primary.client), [each.blocks]))[0]
            for each in three
        ]
        ids = [(await node.client.get_node()).node_id for node in (primary, secondary)]
        located = [
            view.index.locate(BlockKey(*(await each.key(primary.client, "cpu0"))[1:]))
            for each in three
        ]

    assert [words(LookupResult, answer.results) for answer in answers] == [
        ["HIT"],
        ["HIT"],
        ["MISS"],
    ]
    assert [answer.sources for answer in answers] == [(0,), (1,), (None,)]
    assert located == [((ids[0], "cpu0"),), ((ids[1], "cpu0"),), ()]


@each_kind
async def test_a_copy_arrives_under_the_identity_that_it_left(serve: Serve, three: Three) -> None:
    """Copied to a node that holds the hash under another identity, both are read there, exact."""
    source, target = await serve(cpu_tier(2)), await serve(cpu_tier(2))
    one, two, _ = three
    await one.store(source.client, "cpu0", store_in_one_call)
    await two.store(target.client, "cpu0", store_in_one_call)

    read = await one.load(source.client, "cpu0")
    assert read == one.payload
    await one.store(target.client, "cpu0", store_in_one_call)

    loaded = [await each.load(target.client, "cpu0") for each in three]
    assert loaded == [one.payload, two.payload, None]
    assert await two.load(source.client, "cpu0") is None
