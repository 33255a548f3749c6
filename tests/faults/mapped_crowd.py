"""Many clients in one process that store, load and delete at random, through memory and streams.

Run as a program, with an endpoint, a number of clients, seconds, and a seed, it prints what came of
all calls as JSON. The bytes of a block follow from its name, so every load can be checked.
"""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from kvtier.client import AbortedError, Blocks, ExhaustedError, NodeClient
from kvtier.client.mapped.file import open_shared
from kvtier.v1.block_pb2 import BlockRun, BlockSet
from kvtier.v1.result_pb2 import WRITE_RESULT_STORED
from tests.contract.support import block_hash, namespace, payload

# One is copied on the loop, the other in threads.
SIZES = [4096, 200_000]
NAMESPACE = namespace("crowd", block_bytes=SIZES)
NAMES = 150


@lru_cache(NAMES)
def content(name: int) -> bytes:
    """The bytes of a block, and by them its group."""
    return payload(name, SIZES[name % 2])


def offer(names: Sequence[int]) -> list[BlockRun]:
    return [BlockRun(group=name % 2, block_hashes=block_hash(name)) for name in names]


def asked(names: Sequence[int]) -> list[BlockSet]:
    return [BlockSet(group=name % 2, block_hashes=block_hash(name)) for name in names]


@dataclass
class Member:
    """One client of the crowd.

    Args:
        client: Its client.
        blocks: Its way to the tier.
        mapping: The number of a mapping that the process holds.
        namespace: The fingerprint.
        random: What its choices come from.
        tally: Counts what came of all members' calls.
    """

    client: NodeClient
    blocks: Blocks
    mapping: int
    namespace: bytes
    random: Random
    tally: Counter[str]

    async def act(self) -> None:
        """Do one thing."""
        acts = [self.store, self.store, self.load, self.read, self.drop]
        act = self.random.choice(acts) if self.random.random() < 0.98 else self.abandon
        try:
            await act(self.random.sample(range(NAMES), self.random.randint(1, 4)))
        except ExhaustedError:
            self.tally["refused"] += 1
            await asyncio.sleep(0.01)
        except AbortedError:
            self.tally["aborted"] += 1

    async def store(self, names: Sequence[int]) -> None:
        report = await self.blocks.store(
            self.namespace, offer(names), [content(name) for name in names]
        )
        self.tally[f"stored by {report.path.value}"] += report.results.count(WRITE_RESULT_STORED)

    async def load(self, names: Sequence[int]) -> None:
        found = await self.blocks.load(self.namespace, asked(names))
        self._check(f"loaded by {found.path.value}", names, found.payloads)

    async def read(self, names: Sequence[int]) -> None:
        async with self.blocks.read(self.namespace, asked(names)) as found:
            for _ in range(2):
                self._check(f"read by {found.path.value}", names, found.payloads)
                await asyncio.sleep(0)

    async def drop(self, names: Sequence[int]) -> None:
        if self.random.random() < 0.3:
            force = self.random.random() < 0.5
            await self.client.delete(self.namespace, asked(names), force=force)
            self.tally["deleted"] += 1

    async def abandon(self, names: Sequence[int]) -> None:
        """Take a lease, and never speak of it again."""
        await self.client.prepare_store(
            "cpu0", self.namespace, offer(names[:1]), mapping=self.mapping, ttl=0.05
        )
        self.tally["abandoned"] += 1

    def _check(self, what: str, names: Sequence[int], views: Sequence[memoryview | None]) -> None:
        for name, view in zip(names, views, strict=True):
            if view is not None:
                self.tally[what if view == content(name) else f"WRONG: {what}"] += 1


async def main(endpoint: str, number: int, seconds: float, seed: int) -> None:
    tally: Counter[str] = Counter()
    async with AsyncExitStack() as stack:
        members = []
        for place in range(number):
            client = await stack.enter_async_context(NodeClient(endpoint, timeout=30))
            fingerprint = await client.register_namespace(NAMESPACE)
            # One of these does several times as much as one of the others.
            blocks = client.blocks("cpu0", shared_memory=place % 4 == 0)
            await stack.enter_async_context(blocks)
            told = await client.map_tier("cpu0")
            stack.callback(open_shared(told.shared_file, None).close)
            chance = Random(seed * number + place)
            members.append(Member(client, blocks, told.mapping, fingerprint, chance, tally))
        end = asyncio.get_running_loop().time() + seconds

        async def work(member: Member) -> None:
            while asyncio.get_running_loop().time() < end:
                await member.act()

        await asyncio.gather(*map(work, members))
    sys.stdout.write(json.dumps(tally))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])))
