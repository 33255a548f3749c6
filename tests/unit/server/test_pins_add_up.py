"""Whatever is pinned, leased, removed and forgotten in whatever order, all the books agree."""

from contextlib import suppress
from random import Random

import pytest

from kvtier.v1.pinning_pb2 import PinBlocksRequest, PinBlocksResponse, UnpinBlocksRequest
from kvtier.v1.removal_pb2 import ClearTierRequest, DeleteBlocksRequest, DeleteNamespaceRequest
from kvtier.v1.tier_service_pb2 import PrepareLoadRequest, ReleaseLeasesRequest
from kvtier.wire.errors import KvtierError
from tests.contract.support import cpu_tier, namespace, run
from tests.model.check_tables import check_node

from .conftest import MakeNode
from .support import TIER, LocalNode, at_once

BLOCKS, STEPS = 12, 400


class Walker:
    """Takes random steps on a node of one tier that has room for half of the blocks."""

    def __init__(self, node: LocalNode, random: Random) -> None:
        self.node = node
        self.pins: list[PinBlocksResponse] = []
        self.seen = 0
        self._random = random

    def step(self) -> None:
        """Do something that may be refused, and see that the books agree."""
        acts = (self.store, self.store, self.begin, self.pin, self.pin, self.unpin, self.load)
        rarely = (self.release, self.wait, self.delete, self.clear, self.forget)
        act = self._random.choice((*acts, *acts, *rarely))
        with suppress(KvtierError):
            act()
        check_node(self.node.node)
        self.seen = max(self.seen, *self.node.tier.occupancy.pins.values(), 0)

    def store(self) -> None:
        self.node.store(*self._some())

    def begin(self) -> None:
        self.node.prepare(run(*self._some()))

    def pin(self) -> None:
        request = PinBlocksRequest(
            tier=TIER,
            namespace=self.node.namespace,
            blocks=self.node.blocks(*self._some()),
            lease_id=self.node.new_id(),
            owner="operator",
        )
        request.ttl.seconds = self._random.choice((10, 1000))
        self.pins.append(PinBlocksResponse.FromString(at_once(self.node.tiers.pin_blocks(request))))

    def unpin(self) -> None:
        if self.pins:
            request = UnpinBlocksRequest(leases=[self._random.choice(self.pins).lease])
            self.node.tiers.unpin_blocks(request)

    def load(self) -> None:
        request = PrepareLoadRequest(
            tier=TIER,
            namespace=self.node.namespace,
            blocks=self.node.blocks(*self._some()),
            lease_id=self.node.new_id(),
            owner="engine",
        )
        at_once(self.node.tiers.prepare_load(request))

    def release(self) -> None:
        owner = self._random.choice(("engine", "operator"))
        self.node.tiers.release_leases(ReleaseLeasesRequest(owner=owner))

    def wait(self) -> None:
        self.node.clock.advance(self._random.choice((5, 40)))
        self.node.node.expire_leases()

    def delete(self) -> None:
        blocks, force = self.node.blocks(*self._some()), self._random.random() < 0.7
        at_once(
            self.node.tiers.delete_blocks(
                DeleteBlocksRequest(namespace=self.node.namespace, blocks=blocks, force=force)
            )
        )

    def clear(self) -> None:
        force = self._random.random() < 0.5
        at_once(self.node.tiers.clear_tier(ClearTierRequest(tier=TIER, force=force)))

    def forget(self) -> None:
        force = self._random.random() < 0.5
        request = DeleteNamespaceRequest(namespace=self.node.namespace, force=force)
        at_once(self.node.tiers.delete_namespace(request))
        self.node.node.register(namespace())

    def _some(self) -> list[int]:
        first = self._random.randrange(BLOCKS)
        return [(first + place) % BLOCKS for place in range(self._random.randint(1, 3))]


@pytest.mark.parametrize("seed", range(8))
def test_every_count_is_what_the_leases_say(make_node: MakeNode, seed: int) -> None:
    """After each of many random steps; at the end, when all leases are over, nothing is left."""
    walker = Walker(make_node(cpu_tier(BLOCKS // 2)), Random(seed))
    for _ in range(STEPS):
        walker.step()

    node = walker.node
    node.clock.advance(1001)
    node.node.expire_leases()
    at_once(node.tiers.clear_tier(ClearTierRequest(tier=TIER)))
    check_node(node.node)

    assert walker.seen > 1, "a block had two pins at a time"
    assert len(node.node.leases) == node.node.leases.accounts.pins == 0
    assert node.gauges() == {"free": BLOCKS // 2}
    assert len(node.node.spaces) == 0
