"""A trace that is replayed through a proxy over four tiers of three nodes."""

import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import pytest

from kvtier.cli.hashing import block_hash
from kvtier.cli.replay import make_chains
from kvtier.cli.trace import Request, read_trace
from kvtier.cli.workload import Workload
from tests.contract.support import BLOCK_BYTES
from tests.model.plain_cluster import PlainCluster, PlainTier

from .conftest import StartNode
from .replaying import Cluster, Sizes, replaying, start_three

TRACES = Path(os.environ.get("KVTIER_TRACES") or Path(__file__).parents[3] / "shared" / "traces")
TRACE = TRACES / "conversation_trace.jsonl"


async def check_replay(cluster: Cluster, model: PlainCluster, requests: Sequence[Request]) -> None:
    """Serve requests, and compare where each block came from and what the events told."""
    for chain, request in zip(make_chains(requests, BLOCK_BYTES), requests, strict=True):
        await cluster.settle()
        expected = model.serve(chain.number, request.hash_ids)

        found = await cluster.look_up(chain)
        served = await cluster.serve(chain, len(found))

        assert found == expected, f"request {chain.number}"
        assert served.loaded == chain.payloads[: len(expected)]
        assert all(served.stored)
    await cluster.settle()
    told = cluster.told()
    assert [tier.stored for tier in told] == [tier.stored for tier in model.tiers]
    assert [tier.removed for tier in told] == [+tier.removed for tier in model.tiers]
    # The primary's tiers also hand out what goes on to the secondaries.
    given = await cluster.loads_by_tier()
    assert given[2:] == [tier.served for tier in model.tiers][2:]


async def check_end(cluster: Cluster, model: PlainCluster) -> None:
    """Compare what is in each tier by the rules, by its node, the merged stream and the proxy."""
    held = [{block_hash(block.id) for block in tier.blocks} for tier in model.tiers]
    assert await cluster.listings() == held
    assert cluster.known(cluster.view.index) == held
    assert cluster.known(cluster.proxy.index) == held


def plain(sizes: Sizes) -> PlainCluster:
    gpu, cpu, *secondaries = map(PlainTier, sizes)
    return PlainCluster(gpu, cpu, secondaries)


@pytest.mark.slow
async def test_a_replay_is_served_by_each_tier_as_the_rules_say(
    start_node: StartNode, tmp_path: Path
) -> None:
    """Block by block, in tiers so small that one load needs several of them."""
    sizes = Sizes(130, 130, 400, 1500)
    model, requests = plain(sizes), list(Workload(seed=3).requests(250))
    nodes = await start_three(start_node, tmp_path, sizes)

    async with replaying(nodes) as cluster:
        await check_replay(cluster, model, requests)
        await check_end(cluster, model)

    assert all(tier.served and tier.removed for tier in model.tiers[:3])
    assert model.tiers[3].served


@pytest.mark.slow
@pytest.mark.skipif(not TRACE.exists(), reason=f"no public trace in {TRACES}; see KVTIER_TRACES")
async def test_the_public_trace_is_served_by_each_tier_as_the_rules_say(
    start_node: StartNode, tmp_path: Path
) -> None:
    """Hits, stores and removals of all four tiers are those of a plain model."""
    sizes = Sizes(400, 2000, 3000, 9000)
    model, requests = plain(sizes), list(islice(read_trace(TRACE), 500))
    nodes = await start_three(start_node, tmp_path, sizes)

    async with replaying(nodes) as cluster:
        await check_replay(cluster, model, requests)
        await check_end(cluster, model)

    assert all(tier.served and tier.removed for tier in model.tiers)
