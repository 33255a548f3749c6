"""One tier against a plain model of it, over real gRPC, with a follower of its events.

The steps are those of the test in this process, but for what needs a hand inside the node.
KVTIER_TEST_EFFORT=20 tries twenty times as many sequences.
"""

import pytest
from hypothesis import HealthCheck, settings

from tests.model.effort import examples
from tests.model.over_grpc import OverGrpcMachine


class ArcMachine(OverGrpcMachine):
    """The same for the other policy, in a tier that stores what is offered again."""

    policy = "arc"
    threshold = (2, 4)


_SETTINGS = settings(
    max_examples=examples(8),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestTierOverGrpc = pytest.mark.slow(pytest.mark.timeout(600)(OverGrpcMachine.TestCase))
TestTierOverGrpc.settings = _SETTINGS
TestArcTierOverGrpc = pytest.mark.slow(pytest.mark.timeout(600)(ArcMachine.TestCase))
TestArcTierOverGrpc.settings = _SETTINGS
