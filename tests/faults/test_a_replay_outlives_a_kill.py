"""A secondary is killed in the middle of a replay and comes back: nothing untrue is ever said."""

import asyncio
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from kvtier.cli.hashing import HASH_WIDTH, payload
from kvtier.cli.replay import Chain, make_chains
from kvtier.cli.workload import Workload
from kvtier.client import NodeClient
from kvtier.v1.result_pb2 import CopyResult
from kvtier.wire.hashes import split_hashes
from tests.contract.support import BLOCK_BYTES
from tests.waiting import until

from .conftest import StartNode
from .processes import NodeProcess, ready
from .replaying import Cluster, Served, Sizes, replaying, start_three

# The files have room for everything, so that what was once said to be there has to stay.
SIZES = Sizes(130, 130, 400, 4000)
REQUESTS = 260
ARRIVED = {CopyResult.COPY_RESULT_COPIED, CopyResult.COPY_RESULT_PRESENT}
RETURN_SECONDS = 20.0


class Witness:
    """Serves requests while a secondary is killed and started again, and checks what is said.

    Args:
        cluster: The cluster.
        chains: The requests.
        victim: The secondary's place among the nodes.
        other: That of the other secondary.

    Attributes:
        claimed: The blocks that were said to be at the secondary.
        lacking: How often a block was found and then did not come.
    """

    def __init__(
        self, cluster: Cluster, chains: Iterator[Chain], *, victim: int, other: int
    ) -> None:
        self.claimed: set[bytes] = set()
        self.lacking = 0
        self._cluster = cluster
        self._chains = chains
        self._victim = victim
        self._other = other

    @property
    def client(self) -> NodeClient:
        """The client of the secondary that is killed."""
        return self._cluster.clients[self._victim]

    async def serve(self, count: int) -> None:
        """Serve so many requests, one after the other."""
        for chain in islice(self._chains, count):
            await self._serve(chain, await self._look_up(chain))

    async def serve_until_needed(self, victim: NodeProcess) -> None:
        """Serve requests; kill the secondary when the load of one is to bring blocks from it."""
        for chain in self._chains:
            found = await self._look_up(chain)
            needed = self._cluster.tier_of(self._victim) in found
            if needed:
                await victim.kill()
            await self._serve(chain, found)
            if needed:
                return
        raise AssertionError("the trace came to its end")

    async def serve_while_killing(self, victim: NodeProcess) -> None:
        """Serve a request, and kill the secondary as soon as the primary has stored its blocks."""
        chain = next(self._chains)
        found = await self._look_up(chain)
        before = self._cluster.head()
        serving = asyncio.create_task(self._serve(chain, found))
        await until(lambda: self._cluster.head() != before)
        await victim.kill()
        await serving

    async def serve_until_it_is_back(self) -> None:
        """Serve a request over and over until the secondary that came back gets its blocks."""
        chain = next(self._chains)
        async with asyncio.timeout(RETURN_SECONDS):
            while not all(arrived(await self._serve(chain, []), self._victim)):  # noqa: ASYNC110 - tried again
                await asyncio.sleep(0.05)
        assert all(await self._cluster.has(self.client, chain))

    async def _look_up(self, chain: Chain) -> list[int]:
        await self._cluster.settle(dead=self.client)
        return await self._cluster.look_up(chain)

    async def _serve(self, chain: Chain, found: list[int]) -> Served:
        """Serve a request, which may lack only what the killed secondary alone has."""
        primary, other = self._cluster.clients[0], self._cluster.clients[self._other]
        elsewhere = await self._cluster.has(other, chain)
        only = self._cluster.tier_of(self._victim)

        served = await self._cluster.serve(chain, len(found))

        for place, (tier, data) in enumerate(zip(found, served.loaded, strict=True)):
            may_lack = tier == only and not elsewhere[place]
            assert data == chain.payloads[place] or (data is None and may_lack)
            self.lacking += data is None
        assert all(served.stored)
        assert all(await self._cluster.has(primary, chain))
        assert all(arrived(served, self._other))
        assert all(await self._cluster.has(other, chain))
        told = arrived(served, self._victim)
        hashes = split_hashes(chain.hashes, HASH_WIDTH)
        self.claimed |= {each for each, came in zip(hashes, told, strict=True) if came}
        return served


def arrived(served: Served, secondary: int) -> list[bool]:
    """Tell of each block whether a secondary was said to have it."""
    return [each in ARRIVED for each in served.cascade[secondary - 1].results]


async def check_views(cluster: Cluster) -> list[set[bytes]]:
    """Compare both views with all listings, and load a sample; return what each tier has."""
    await cluster.settle()
    listings = await cluster.listings()
    assert cluster.known(cluster.view.index) == listings
    assert cluster.known(cluster.proxy.index) == listings
    for tier, held in zip(cluster.tiers, listings, strict=True):
        sample = random.Random(7).sample(sorted(held), min(len(held), 100))
        loaded = await cluster.load_from(tier, sample)
        assert list(loaded) == [payload(digest, BLOCK_BYTES) for digest in sample]
    return listings


@pytest.mark.slow
@pytest.mark.parametrize(("victim", "other"), [(1, 2), (2, 1)], ids=["memory", "files"])
async def test_a_secondary_is_killed_and_comes_back_while_requests_go_on(
    start_node: StartNode, tmp_path: Path, victim: int, other: int
) -> None:
    """When a load needs it, and when a store goes on to it; at the end all views are true."""
    chains = make_chains(Workload(seed=3).requests(REQUESTS), BLOCK_BYTES)
    nodes = await start_three(start_node, tmp_path, SIZES)

    async with replaying(nodes) as cluster:
        witness = Witness(cluster, chains, victim=victim, other=other)
        await witness.serve(60)
        await witness.serve_until_needed(nodes[victim])
        await witness.serve(20)
        again, _ = await asyncio.gather(start_node(nodes[victim]), witness.serve(30))
        await ready(witness.client)
        await witness.serve_until_it_is_back()
        await witness.serve(20)

        await witness.serve_while_killing(again)
        await witness.serve(10)
        await asyncio.gather(start_node(again), witness.serve(10))
        await ready(witness.client)
        await witness.serve_until_it_is_back()
        await witness.serve(20)
        listings = await check_views(cluster)

    assert all(listings)
    if victim == nodes.index(nodes.storage):
        assert witness.lacking
        assert witness.claimed <= listings[-1]
