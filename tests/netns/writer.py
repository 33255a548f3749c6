"""A program on a node's own host that stores and deletes blocks, without end.

Run it as `python -m tests.netns.writer ENDPOINT SEED`: it says so once it has begun.
"""

import asyncio
import random
import sys

from kvtier.client import KvtierError, NodeClient
from tests.contract.support import blocks_of, namespace, payloads, run

SMALL_TIER = "small0"
NAMES = range(200)
PAUSE = 0.02


async def write(endpoint: str, seed: int) -> None:
    """Store runs of blocks, more than there is room for, and delete some."""
    dice = random.Random(seed)
    async with NodeClient(endpoint, timeout=2.0) as client:
        fingerprint = await client.register_namespace(namespace())
        sys.stdout.write("writing\n")
        sys.stdout.flush()
        while True:
            names = [(seed, name) for name in dice.sample(NAMES, 4)]
            try:
                if dice.random() < 0.25:
                    await client.delete(fingerprint, [blocks_of(*names)])
                else:
                    runs = [run(name) for name in names]
                    await client.store(SMALL_TIER, fingerprint, runs, payloads(*names))
            except KvtierError:
                # The node was stopped for a while.
                await asyncio.sleep(PAUSE)
            await asyncio.sleep(PAUSE)


if __name__ == "__main__":
    asyncio.run(write(sys.argv[1], int(sys.argv[2])))
