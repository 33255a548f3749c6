"""Checking a follower and a node against each other."""

import random
from collections.abc import Iterable
from typing import NamedTuple

from kvtier.cli.follow import Follower, TierKey
from kvtier.cli.hashing import payload
from kvtier.client import BlockKey, NodeClient
from kvtier.v1.block_pb2 import BlockSet
from kvtier.v1.event_service_pb2 import TierState
from kvtier.v1.tier_pb2 import Block

_ATTEMPTS = 10


class Comparison(NamedTuple):
    """What a comparison of a follower's view with a node's listings found.

    Attributes:
        listed: Blocks in the listings, over all tiers.
        missing: Blocks that are listed but not in the view.
        surplus: Blocks that are in the view but not listed.
        settled: The listings and the view are of one position of the node's log. If the node
            never stood still for long enough, nothing can be said.
    """

    listed: int
    missing: int
    surplus: int
    settled: bool = True

    @property
    def equal(self) -> bool:
        """The view is exactly what the node lists."""
        return self.settled and not self.missing and not self.surplus


async def compare(client: NodeClient, follower: Follower) -> Comparison:
    """Compare a follower's view of every tier with the node's own listing, at one position."""
    for _ in range(_ATTEMPTS):
        before = await client.get_node()
        listed = [block async for block in client.list_blocks(page_size=5000)]
        after = await client.get_node()
        if before.head == after.head:
            await follower.reach(before.node_id, before.head.sequence)
            return _difference(listed, follower, before.node_id, await _telling(client))
    return Comparison(0, 0, 0, settled=False)


async def _telling(client: NodeClient) -> list[str]:
    """Return the names of the tiers that tell their events."""
    silent = TierState.TIER_STATE_SILENT
    return [tier.name for tier in await client.list_tiers() if tier.state != silent]


def _difference(
    listed: Iterable[Block], follower: Follower, node_id: str, tiers: Iterable[str]
) -> Comparison:
    by_tier: dict[str, set[BlockKey]] = {name: set() for name in tiers}
    for block in listed:
        if block.tier in by_tier:
            key = BlockKey(block.namespace, block.group, block.scope, block.block_hash)
            by_tier[block.tier].add(key)
    views = {name: follower.index.blocks(node_id, name) for name in by_tier}
    return Comparison(
        listed=sum(map(len, by_tier.values())),
        missing=sum(len(by_tier[name] - views[name]) for name in by_tier),
        surplus=sum(len(views[name] - by_tier[name]) for name in by_tier),
    )


async def load_sample(
    client: NodeClient, follower: Follower, key: TierKey, *, count: int, chance: random.Random
) -> tuple[int, int]:
    """Load some of the blocks that a follower knows of in a tier, and check every byte.

    Only for blocks of one group whose payload is made from their hash.

    Returns:
        How many blocks were asked for, and how many of them came back exact.
    """
    known = sorted(follower.index.blocks(key.node_id, key.tier))
    sample = chance.sample(known, min(count, len(known)))
    exact = 0
    for block in sample:
        blocks = BlockSet(group=block.group, scope=block.scope, block_hashes=block.block_hash)
        report = await client.load(key.tier, block.namespace, [blocks])
        data = report.payloads[0]
        size = follower.index.namespaces()[block.namespace].block_bytes[block.group]
        exact += data == payload(block.block_hash, size)
    return len(sample), exact
