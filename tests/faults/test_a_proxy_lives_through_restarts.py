"""Who works through a proxy goes on by itself when the primary starts anew, and is told no lie."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from kvtier.client import LoadReport, NodeClient, StoreReport, TieringProxy
from kvtier.client.proxy.settings import CascadeSettings
from kvtier.v1.block_pb2 import BlockRun, BlockSet
from tests.contract.conftest import Serve
from tests.contract.managed import befriend
from tests.contract.support import cpu_tier, hash_set, namespace, payloads, run
from tests.contract.viewing import proxying
from tests.waiting import until

from .conftest import StartNode
from .processes import NodeProcess
from .working import stores, working

RECOVERY_SECONDS = 5.0
BLOCKS = 1 << 16
CASCADES = CascadeSettings(catch_up=True, pause=0.1, longest_pause=0.5)


class Through:
    """A proxy by the calls of a node's client, for whoever works with either."""

    def __init__(self, proxy: TieringProxy) -> None:
        self._proxy = proxy

    async def store(self, *offer: Any) -> StoreReport:
        return (await self._proxy.store(*offer)).report

    async def load(self, tier: str, fingerprint: bytes, blocks: Sequence[BlockSet]) -> LoadReport:
        runs = [BlockRun(block_hashes=each.block_hashes) for each in blocks]
        return await self._proxy.load(tier, fingerprint, runs)

    async def lookup(self, fingerprint: bytes, chains: Sequence[BlockSet], **_: Any) -> Any:
        return SimpleNamespace(chains=await self._proxy.lookup(fingerprint, chains))


@pytest.mark.slow
@pytest.mark.parametrize(
    "end_life", [NodeProcess.terminate, NodeProcess.kill], ids=["stopped", "killed"]
)
async def test_operations_succeed_soon_after_the_primary_serves(
    start_node: StartNode, serve: Serve, end_life: Callable[[NodeProcess], Awaitable[object]]
) -> None:
    """Nobody registers anything again; what was stored before comes back from the secondary."""
    far = await serve(cpu_tier(BLOCKS))
    near = await start_node(tiers=[cpu_tier(BLOCKS)], peers=[far.endpoint])
    befriend(far, [near.endpoint])
    async with (
        NodeClient(near.endpoint) as primary,
        proxying(primary, [far.client], cascades=CASCADES) as (proxy, view),
        working(Through(proxy), await primary.register_namespace(namespace())) as worker,
    ):
        about = await primary.get_node()
        name, first = about.node_id, about.head.epoch
        await view.until(lambda: len(stores(view, name, first)) > 20)
        lanes = proxy.managing.cascades.counts()
        await until(lambda: lanes[far.endpoint].sent > 20)

        known = len(worker.confirmed)
        await end_life(near)
        await start_node(near)
        async with asyncio.timeout(RECOVERY_SECONDS):
            await worker.all_succeed()
        recovered = len(worker.failures)
        for _ in range(10):
            await worker.all_succeed()
        await worker.finish()
        again = await primary.get_node()
        await view.settle(primary)
        listed = {block.block_hash async for block in primary.list_blocks()}
        report = await proxy.load("cpu0", far.namespace, [run(worker.confirmed[0])])

    assert len(worker.failures) == recovered
    assert hash_set(worker.confirmed[known + 1 :]) <= listed
    assert list(report.payloads) == payloads(worker.confirmed[0])
    assert first != again.head.epoch
    for epoch in (first, again.head.epoch):
        assert set(stores(view, name, epoch).values()) == {1}
    assert {key.block_hash for key in proxy.index.blocks(name, "cpu0")} >= listed
