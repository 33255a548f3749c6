"""Many small blocks by few calls, and what a node's process has in memory."""

import os
import time
from pathlib import Path

from kvtier.client import NodeClient
from kvtier.v1.block_pb2 import BlockRun
from tests.contract.support import WIDTH, namespace

from .processes import NodeProcess

SMALL = 8


def small_tier(blocks: int) -> dict[str, object]:
    """The configuration of a host tier of blocks of a few bytes."""
    return {"name": "cpu0", "medium": "cpu", "capacity": blocks * SMALL, "slot_bytes": SMALL}


class Filler:
    """Stores new small blocks, which evict older ones.

    Attributes:
        took: The seconds that each call took.
    """

    def __init__(self, client: NodeClient, fingerprint: bytes) -> None:
        self.took: list[float] = []
        self._client = client
        self.fingerprint = fingerprint

    @classmethod
    async def of(cls, client: NodeClient) -> "Filler":
        """Register the namespace of the blocks."""
        return cls(client, await client.register_namespace(namespace(block_bytes=[SMALL])))

    async def store(self, blocks: int, together: int) -> None:
        """Store so many blocks, some together in each call."""
        payloads = [bytes(SMALL)] * together
        for _ in range(blocks // together):
            hashes = os.urandom(WIDTH * together)
            start = time.perf_counter()
            run = BlockRun(block_hashes=hashes)
            await self._client.store("cpu0", self.fingerprint, [run], payloads)
            self.took.append(time.perf_counter() - start)


def resident_bytes(node: NodeProcess) -> int:
    """The memory that a node's process has now."""
    pages = int(Path(f"/proc/{node.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
