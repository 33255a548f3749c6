"""Loads through a proxy while a secondary, or the link to it, is in trouble."""

import asyncio

import pytest

from tests.contract.support import payloads, run
from tests.faults.conftest import StartNode

from .cluster import FINGERPRINT, Cluster, serving
from .lab import PORT, Lab
from .troubles import Trouble, cut, flapping, paused, unplugged

DEADLINE_SECONDS, PATIENCE_SECONDS = 1.0, 20.0
PEERS = [f"10.77.0.{number}:{PORT}" for number in range(2, 5)]


async def load(cluster: Cluster, block: object) -> tuple[bytes | None, float]:
    """Load one block through the proxy; return its bytes, and the seconds that it took."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    report = await cluster.proxy.load("cpu0", FINGERPRINT, [run(block)], deadline=DEADLINE_SECONDS)
    return report.payloads[0], loop.time() - begun


@pytest.mark.slow
@pytest.mark.parametrize("trouble", [cut, unplugged, flapping, paused])
async def test_loads_end_at_their_deadline_and_others_are_served(
    lab: Lab, start_node: StartNode, trouble: Trouble
) -> None:
    """What the primary and the other secondary have comes; the rest comes after the trouble."""
    async with serving(lab, start_node, peers=PEERS) as cluster:
        lost, good = cluster.secondaries
        await lost.store("far")
        await good.store("good")
        await cluster.primary.store("near")
        await cluster.in_sync()

        async with trouble(lost):
            near, near_took = await load(cluster, "near")
            far, far_took = await load(cluster, "far")
            brought, good_took = await load(cluster, "good")
            again, again_took = await load(cluster, "far")
        async with asyncio.timeout(PATIENCE_SECONDS):
            back = None
            while back is None:
                back, _ = await load(cluster, "far")
        await cluster.in_sync()
        wrong = await cluster.wrong()
        leases = [(await each.client.get_node()).leases for each in cluster.members]

    assert [near] == payloads("near")
    assert [brought] == payloads("good")
    assert [back] == payloads("far")
    assert {far, again} <= {None, *payloads("far")}
    assert max(near_took, good_took) < DEADLINE_SECONDS
    assert max(far_took, again_took) < 2 * DEADLINE_SECONDS
    assert wrong == {}
    assert leases == [0, 0, 0]
