"""Loading some of the blocks that a follower knows of."""

import random

from kvtier.cli.follow import Follower, TierKey
from kvtier.cli.hashing import payload
from kvtier.client import NodeClient
from kvtier.v1.block_pb2 import BlockSet


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
