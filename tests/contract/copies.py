"""Copies of blocks from node to node, made by the client as a cascade or a promotion would."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from kvtier.client import StoreReport, block_sizes
from kvtier.v1.block_pb2 import BlockRun, BlockSet, Lease

from .support import Serving
from .support import namespace as description

_TIER = "cpu0"


@dataclass(frozen=True)
class Copy:
    """A copy under way: its blocks are pinned at the source until it ends."""

    source: Serving
    target: Serving
    runs: Sequence[BlockRun]
    lease: Lease

    @classmethod
    async def begin(cls, source: Serving, target: Serving, *runs: BlockRun) -> Self:
        """Pin the blocks of these runs in the source's host tier."""
        pinned = await source.client.prepare_load(_TIER, source.namespace, _sets(runs))
        return cls(source, target, runs, pinned.lease)

    async def finish(self) -> StoreReport:
        """Read the blocks, store them at the target, and let go of them."""
        sizes = block_sizes(description(), self.runs)
        read = await self.source.client.read_blocks(self.lease, sizes)
        payloads = [payload for payload in read.payloads if payload is not None]
        assert len(payloads) == len(sizes), "what is pinned can be read"
        report = await self.target.client.store(_TIER, self.target.namespace, self.runs, payloads)
        await self.source.client.complete_load(self.lease)
        return report

    async def fail(self) -> None:
        """Reserve room at the target, give it back unwritten, and let go of the blocks."""
        prepared = await self.target.client.prepare_store(_TIER, self.target.namespace, self.runs)
        await self.target.client.complete_store(prepared.lease, failed=True)
        await self.source.client.complete_load(self.lease)


async def copy(source: Serving, target: Serving, *runs: BlockRun) -> StoreReport:
    """Copy blocks from one node's host tier to another's."""
    return await (await Copy.begin(source, target, *runs)).finish()


def _sets(runs: Sequence[BlockRun]) -> list[BlockSet]:
    return [
        BlockSet(group=run.group, scope=run.scope, block_hashes=run.block_hashes) for run in runs
    ]
