"""Each tier names its oldest open lease, so that who holds a tier up is seen at a glance."""

from kvtier.v1.tier_pb2 import LeaseKind, Tier

from .conftest import Connect, Serve
from .support import Serving, blocks_of, cpu_tier, gpu_tier, run


def told(tier: Tier) -> tuple[str, str, int, int, int] | None:
    """Owner, kind, age, time left and blocks of a tier's oldest lease."""
    if not tier.HasField("oldest_lease"):
        return None
    lease = tier.oldest_lease
    kind = LeaseKind.Name(lease.kind).removeprefix("LEASE_KIND_")
    return lease.owner, kind, lease.age.seconds, lease.remaining.seconds, lease.blocks


async def oldest(node: Serving, tier: str = "cpu0") -> tuple[str, str, int, int, int] | None:
    return told(await node.tier(tier))


async def test_the_first_that_was_opened_is_named_until_it_ends(
    serve: Serve, connect: Connect
) -> None:
    """Then the next, in the order in which they were opened, whoever renewed when."""
    node = await serve(cpu_tier(8))
    await node.store("A", "B")
    reader, writer = await connect(node, owner="reader"), await connect(node, owner="writer")
    first = await reader.prepare_load("cpu0", node.namespace, [blocks_of("A", "B")], ttl=100)
    node.clock.advance(10)
    second = await writer.prepare_store("cpu0", node.namespace, [run("C")], ttl=100)
    node.clock.advance(5)
    await reader.renew_leases([first.lease], ttl=200)

    before = await oldest(node)
    await reader.complete_load(first.lease)
    after = await oldest(node)
    await writer.release_leases([second.lease])

    assert before == ("reader", "LOAD", 15, 200, 2)
    assert after == ("writer", "STORE", 5, 95, 1)
    assert await oldest(node) is None


async def test_a_lease_is_told_by_its_own_tier(serve: Serve) -> None:
    """A tier with no lease on its blocks has none to tell, and an expired one is told no more."""
    node = await serve(gpu_tier(2), cpu_tier(2))
    await node.client.prepare_store("gpu0", node.namespace, [run("A")], ttl=20)

    both = await oldest(node, "gpu0"), await oldest(node, "cpu0")
    node.clock.advance(20)

    assert both == ((node.client.owner, "STORE", 0, 20, 1), None)
    assert await oldest(node, "gpu0") is None


async def test_neither_pins_nor_empty_leases_are_told(serve: Serve) -> None:
    """A pin is meant to be old, and a lease that holds no block holds nobody up."""
    node = await serve(cpu_tier(2))
    await node.store("A")
    await node.client.pin("cpu0", node.namespace, [blocks_of("A")])
    await node.client.prepare_load("cpu0", node.namespace, [blocks_of("absent")])
    node.clock.advance(1)

    assert await oldest(node) is None
