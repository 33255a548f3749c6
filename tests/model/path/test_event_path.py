"""Whatever happens on the way, every follower's view comes to be what the nodes hold.

Random walks over nodes, a proxy and followers of every kind: stores, deletes and clears; nodes that
start anew; connections that break or stall; readers who stand still, come, go, and come back. Each
message is checked as it comes, and all views whenever there is quiet.

KVTIER_TEST_EFFORT=50 takes fifty times as many walks; KVTIER_TEST_SEED=7 takes long walk 7 alone.
"""

import asyncio
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.model.effort import examples, seconds

from .walk import ACTS, Step, a_thousand_steps, take

_ONE = os.environ.get("KVTIER_TEST_SEED")
_SEEDS = [int(_ONE)] if _ONE else range(examples(10))
# A walk in which one of these does not happen tests nothing of it.
_MUST_HAPPEN = (
    "stored",
    "removed EVICTED",
    "removed DELETED",
    "cleared",
    "reset NO_POSITION",
    "reset LAGGED",
    "reset EPOCH_CHANGED",
    "reset COMPACTED",
    "reset AHEAD_OF_HEAD",
    "resume",
    "snapshot",
    "snapshot broken off",
    "batches within a snapshot",
    "progress",
    "SUSPECT",
    "DOWN",
    "jump",
)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", _SEEDS)
async def test_every_view_comes_to_be_what_the_nodes_hold(seed: int) -> None:
    """Over a thousand random steps, in which everything happens that may happen."""
    seen = await take(a_thousand_steps(seed), f"KVTIER_TEST_SEED={seed} takes this walk again")

    assert not [what for what in _MUST_HAPPEN if not seen[what]], seen


@pytest.mark.slow
@pytest.mark.timeout(seconds(600))
@settings(
    max_examples=examples(20),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.lists(st.builds(Step, st.sampled_from(sorted(ACTS)), st.integers(0, 99)), max_size=20))
def test_no_few_steps_lead_astray(steps: list[Step]) -> None:
    """Of those that do, a shortest sequence is found."""
    asyncio.run(take(steps, f"the steps are {steps}"))
