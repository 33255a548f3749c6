"""No owner's leases hold more bytes than the node allows, and no tier is sized for nothing."""

import pytest

from kvtier.client import ExhaustedError, FailedPreconditionError

from .conftest import Serve
from .support import BLOCK_BYTES, blocks_of, cpu_tier, namespace, payloads, run

THREE_BLOCKS = {"leased_bytes_per_owner": 3 * BLOCK_BYTES}


async def test_a_store_past_the_limit_is_refused_whole(serve: Serve) -> None:
    """An owner with two blocks of three in leases may take one more, not two."""
    node = await serve(cpu_tier(8), limits=THREE_BLOCKS)
    await node.client.prepare_store("cpu0", node.namespace, [run(1, 2)])

    with pytest.raises(ExhaustedError, match="leased_bytes_per_owner") as refused:
        await node.client.prepare_store("cpu0", node.namespace, [run(3, 4)])

    assert refused.value.reason == "LEASE_LIMIT"
    assert (await node.client.list_tiers())[0].pending_blocks == 2
    await node.client.prepare_store("cpu0", node.namespace, [run(3)])


async def test_a_load_past_the_limit_is_refused_and_pins_nothing(serve: Serve) -> None:
    """Pins count as reservations do, and what is not readable does not count."""
    node = await serve(cpu_tier(8), limits=THREE_BLOCKS)
    await node.client.store("cpu0", node.namespace, [run(1, 2, 3)], payloads(1, 2, 3))
    await node.store(4)

    with pytest.raises(ExhaustedError, match="LEASE_LIMIT"):
        await node.client.prepare_load("cpu0", node.namespace, [blocks_of(1, 2, 3, 4)])

    assert (await node.client.list_tiers())[0].leased_blocks == 0
    held = await node.client.prepare_load("cpu0", node.namespace, [blocks_of(1, 2, 3, "absent", 1)])
    await node.client.complete_load(held.lease)
    await node.client.prepare_load("cpu0", node.namespace, [blocks_of(4)])


async def test_a_namespace_too_large_for_a_tier_does_not_spoil_it(serve: Serve) -> None:
    """A tier that leaves its slots open is divided by the first namespace whose blocks fit."""
    tier = {"name": "cpu0", "medium": "cpu", "capacity": 8 * BLOCK_BYTES}
    node = await serve(tier, register=False)
    huge = await node.client.register_namespace(namespace("huge", block_bytes=[64 << 20]))
    with pytest.raises(FailedPreconditionError, match="raise its capacity"):
        await node.client.prepare_store("cpu0", huge, [run(1)])

    await node.client.register_namespace(namespace())
    await node.store(1)

    assert (await node.client.list_tiers())[0].capacity_blocks == 8
