"""Whatever befalls a secondary or its link, the primary is as ever, and the views come right."""

import asyncio

import pytest

from kvtier.client import Watch
from tests.faults.conftest import StartNode

from .arrivals import changes, pacing
from .cluster import serving, writing
from .lab import Lab
from .troubles import Trouble, cut, flapping, paused, unplugged

CALM_SECONDS, TROUBLE_SECONDS = 2.0, 5.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trouble", "silence"), [(cut, 4.0), (unplugged, 4.0), (flapping, 0.8), (paused, 4.0)]
)
async def test_a_secondary_out_of_reach_is_nobody_elses_trouble(
    lab: Lab, start_node: StartNode, trouble: Trouble, silence: float
) -> None:
    """Events and lookups of the primary keep their pace; once it is back, every view is exact."""
    # As patient as one is by default: a machine that stands still for a second is no trouble.
    async with serving(lab, start_node, watch=Watch) as cluster:
        lost, good = cluster.secondaries
        await lost.store("far")
        await good.store("good")
        await cluster.in_sync()
        before = await cluster.looked_up("far", "good")
        async with writing(cluster.secondaries):
            async with pacing(cluster, "calm") as calm:
                await asyncio.sleep(CALM_SECONDS)
            begun = asyncio.get_running_loop().time()
            async with pacing(cluster, "trouble") as troubled, trouble(lost):
                await asyncio.sleep(TROUBLE_SECONDS)
                meanwhile = await cluster.looked_up("good")
            await cluster.live()
        await cluster.in_sync()
        after = await cluster.looked_up("far", "good")
        felt = cluster.arrivals.silence(lost.name, begun)
        wrong = await cluster.wrong()

    assert before == after == ["HIT", "HIT"]
    assert meanwhile == ["HIT"]
    assert felt > silence
    assert cluster.states(good) == ["SNAPSHOT", "LIVE"]
    assert changes(calm, troubled) == []
    assert all(cluster.arrivals.in_order(each.name) for each in cluster.members)
    assert wrong == {}
