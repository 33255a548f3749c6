"""One tier against a plain model of it, in this process.

Random steps of several owners: offers, writes, completions, stores in one call, loads, touches,
deletes, clears, renewals, releases, time that passes, callers that vanish or die, bytes that rot.
After each step the answers, the events, the listing, the lookups, the bytes, the counters and the
tables are those of the model. KVTIER_TEST_EFFORT=50 tries fifty times as many sequences.
"""

import pytest
from hypothesis import HealthCheck, settings

from tests.model.effort import examples
from tests.model.in_process_actions import InProcessMachine


class ArcMachine(InProcessMachine):
    """The same for the other policy."""

    policy = "arc"


class ThresholdMachine(InProcessMachine):
    """The same for a tier that stores what is offered again, and remembers few offers."""

    threshold = (2, 5)


_SETTINGS = settings(
    max_examples=examples(80),
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestTier = pytest.mark.slow(pytest.mark.timeout(600)(InProcessMachine.TestCase))
TestTier.settings = _SETTINGS
TestArcTier = pytest.mark.slow(pytest.mark.timeout(600)(ArcMachine.TestCase))
TestArcTier.settings = _SETTINGS
TestThresholdTier = pytest.mark.slow(pytest.mark.timeout(600)(ThresholdMachine.TestCase))
TestThresholdTier.settings = _SETTINGS
