"""Blocks whose parent a follower never saw are known all the same."""

from itertools import pairwise

import pytest

from kvtier.client import BlockKey

from .conftest import Serve
from .support import TOKENS, block_hash, blocks_of, cpu_tier, payloads, run
from .viewing import proxying, watching

CHAIN = ["root", "child", "grandchild"]


@pytest.mark.parametrize("joins", ["late", "before"])
async def test_a_child_and_a_grandchild_without_a_parent_are_found(
    serve: Serve, joins: str
) -> None:
    """Both are where they are; a prefix honestly ends before the parent that nobody has."""
    near, far = await serve(cpu_tier(8)), await serve(cpu_tier(8))
    client, fingerprint = far.client, far.namespace
    if joins == "before":
        await far.store("root")
        await client.delete(fingerprint, [blocks_of("root")])
    async with watching(client) as view, proxying(near.client, [client]) as (proxy, merged):
        await view.settle(client)
        child, grandchild = (
            run(block, after=parent, start=place * TOKENS)
            for place, (parent, block) in enumerate(pairwise(CHAIN), start=1)
        )
        await client.store("cpu0", fingerprint, [child], payloads("child"))
        await client.store("cpu0", fingerprint, [grandchild], payloads("grandchild"))
        await view.settle(client)
        await merged.settle(client)
        (found,) = await proxy.lookup(fingerprint, [blocks_of(*CHAIN)])
        name = (await client.get_node()).node_id

    for block in CHAIN[1:]:
        key = BlockKey(fingerprint, 0, b"", block_hash(block))
        assert view.index.locate(key) == ((name, "cpu0"),)
    whole = [block_hash(block) for block in CHAIN]
    assert view.index.prefix(fingerprint, 0, b"", whole).nodes == {name: 0}
    assert view.index.prefix(fingerprint, 0, b"", whole[1:]).nodes == {name: 2}
    assert found.sources == (None, 1, 1)
    assert found.prefix_lengths == (0, 0)
    assert view.index.bad_events == 0
