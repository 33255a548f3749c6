"""A namespace of which some blocks are too large for a tier: the others are as any blocks."""

import pytest

from kvtier.server.tiers.table import READY
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.wire.errors import KvtierError, Reason
from kvtier.wire.namespaces import fingerprint
from tests.contract.support import namespace, run
from tests.unit.server.support import TIER, LocalNode

from .conftest import MakeNode
from .lives import COST, lay, record_of, recovered, restart
from .memory_shelf import MemoryShelf
from .tiers import fs_tier

SMALL, HUGE = 4000, 1 << 20
# With its header a small block takes two pages.
UNEVEN = namespace("uneven", block_bytes=[SMALL, HUGE])


def keep(node: LocalNode, *blocks: object, described: Namespace) -> None:
    """Store blocks of group 0, as far as the bookkeeping goes."""
    node.namespace = fingerprint(described)
    lease, _ = node.prepare(run(*blocks, adapter_name="an adapter"))
    node.tier.mark_written(list(lease.slots.values()), [0] * len(blocks))
    node.complete(lease)


def test_blocks_that_fit_have_room_of_their_own_size(make_node: MakeNode) -> None:
    """When all are held, an offer is refused, and evicts none."""
    node = make_node(fs_tier(4, TIER))
    for each in (UNEVEN, namespace()):
        node.node.register(each)
    keep(node, 1, 2, described=UNEVEN)
    node.tier.occupancy.pin(
        [slot for slot, state in enumerate(node.tier.table.state) if state == READY]
    )

    with pytest.raises(KvtierError, match="has no room for 1 blocks") as error:
        node.prepare(run(3, adapter_name="an adapter"))

    assert error.value.reason == Reason.TIER_FULL
    assert node.tier.table.used_bytes == 4 * COST
    assert node.look_up(1, 2) == ["HIT", "HIT"]


def test_a_block_too_large_is_refused_with_what_to_do(make_node: MakeNode) -> None:
    """There are no slots whose size could be set."""
    node = make_node(fs_tier(4, TIER))
    node.namespace = node.node.register(UNEVEN).fingerprint

    with pytest.raises(KvtierError, match="too much for tier cpu0: enlarge the tier") as error:
        node.prepare(run("huge", group=1))

    assert error.value.reason == Reason.BLOCK_TOO_LARGE


async def test_blocks_that_were_found_stay_when_a_namespace_is_registered() -> None:
    """Also in a tier that was made smaller than the largest block of theirs."""
    shelf = MemoryShelf()
    lay(shelf, [record_of(1, 1, described=UNEVEN, size=SMALL)], UNEVEN)
    node = restart(shelf, 4)
    await recovered(node)

    node.node.register(namespace("later"))

    node.namespace = fingerprint(UNEVEN)
    assert node.look_up(1) == ["HIT"]
    assert node.tier.table.used_bytes == 2 * COST
    assert len(shelf.blocks) == 1
