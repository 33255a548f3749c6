"""Once a lease is over, or if it is not the one that was granted, nothing can be done with it."""

from collections.abc import Awaitable, Callable

import pytest

from kvtier.client import AbortedError, NotFoundError
from kvtier.v1.block_pb2 import Lease
from kvtier.v1.result_pb2 import LeaseResult

from .conftest import Follow, Serve
from .support import BLOCK_BYTES, Serving, blocks_of, cpu_tier, payload, payloads, run, words

Use = Callable[[Serving, Lease], Awaitable[object]]
End = Callable[[Serving, Lease], Awaitable[object]]


async def write(node: Serving, lease: Lease) -> object:
    return await node.client.write_blocks(lease, {0: payload("new")}, [BLOCK_BYTES])


async def complete_store(node: Serving, lease: Lease) -> object:
    return await node.client.complete_store(lease)


async def read(node: Serving, lease: Lease) -> object:
    return await node.client.read_blocks(lease, [BLOCK_BYTES])


async def complete_load(node: Serving, lease: Lease) -> object:
    return await node.client.complete_load(lease)


async def expire(node: Serving, _: Lease) -> None:
    node.clock.advance(30)


async def release(node: Serving, lease: Lease) -> object:
    return await node.client.release_leases([lease])


async def clear(node: Serving, _: Lease) -> object:
    return await node.client.clear("cpu0", force=True)


STORE_USES: dict[str, Use] = {"write": write, "complete": complete_store}
LOAD_USES: dict[str, Use] = {"read": read, "complete": complete_load}
ENDS: dict[str, End] = {"expired": expire, "released": release, "cleared": clear}


async def take(node: Serving, kind: str) -> Lease:
    """Take a store lease on a new block, written already, or a load lease on an old one."""
    if kind == "load":
        await node.store("old")
        return (await node.client.prepare_load("cpu0", node.namespace, [blocks_of("old")])).lease
    lease = (await node.client.prepare_store("cpu0", node.namespace, [run("new")])).lease
    await write(node, lease)
    return lease


@pytest.mark.parametrize("use", STORE_USES.values(), ids=STORE_USES)
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
async def test_a_store_lease_that_ended_makes_nothing_readable(
    serve: Serve, follow: Follow, end: End, use: Use
) -> None:
    """Writing and completing are aborted; the block is absent, untold, and its room is free."""
    node = await serve(cpu_tier(1))
    follower = await follow(node)
    lease = await take(node, "store")

    await end(node, lease)
    with pytest.raises(AbortedError, match=lease.id.hex()):
        await use(node, lease)

    assert await node.look_up("new") == ["MISS"]
    assert await node.gauges() == {}
    assert await follower.news() == []
    assert (await node.tier()).counters.abandoned == 1
    await node.store("another")
    assert await node.load("another") == payloads("another")


@pytest.mark.parametrize("use", LOAD_USES.values(), ids=LOAD_USES)
@pytest.mark.parametrize("end", [expire, release], ids=["expired", "released"])
async def test_a_load_lease_that_ended_vouches_for_nothing(
    serve: Serve, end: End, use: Use
) -> None:
    """Reading and completing are aborted, since the block may have been replaced meanwhile."""
    node = await serve(cpu_tier(1))
    lease = await take(node, "load")

    await end(node, lease)
    await node.store("another")
    with pytest.raises(AbortedError, match=lease.id.hex()):
        await use(node, lease)

    assert await node.gauges() == {"ready": 1}


@pytest.mark.parametrize("kind", ["store", "load"])
async def test_another_generation_is_refused_and_costs_nothing(serve: Serve, kind: str) -> None:
    """A lease with the right id and the wrong generation is none; the right one goes on."""
    node = await serve(cpu_tier(2))
    lease = await take(node, kind)
    stale = Lease(id=lease.id, generation=lease.generation + 1)
    uses = STORE_USES if kind == "store" else LOAD_USES

    for use in uses.values():
        with pytest.raises(AbortedError, match="generation"):
            await use(node, stale)
    renewed = await node.client.renew_leases([stale])
    released = await node.client.release_leases([stale])
    for use in uses.values():
        await use(node, lease)

    wrong = ["WRONG_GENERATION"]
    assert words(LeaseResult, renewed.results) == words(LeaseResult, released.results) == wrong
    assert await node.gauges() == {"ready": 1}


@pytest.mark.parametrize("use", [*STORE_USES.values(), *LOAD_USES.values()])
async def test_a_lease_that_never_was_is_not_found(serve: Serve, use: Use) -> None:
    """The refusal names the id; renewing and releasing say so too."""
    node = await serve(cpu_tier(1))
    unknown = Lease(id=b"never granted id", generation=1)

    with pytest.raises(NotFoundError, match=unknown.id.hex()) as refused:
        await use(node, unknown)
    renewed = await node.client.renew_leases([unknown])
    released = await node.client.release_leases([unknown])

    assert refused.value.reason == "LEASE_UNKNOWN"
    assert words(LeaseResult, [*renewed.results, *released.results]) == ["NOT_FOUND"] * 2


@pytest.mark.parametrize(("kind", "uses"), [("store", LOAD_USES), ("load", STORE_USES)])
async def test_a_lease_of_the_other_kind_is_not_found(
    serve: Serve, kind: str, uses: dict[str, Use]
) -> None:
    """A load lease cannot be written or completed as a store, nor the other way round."""
    node = await serve(cpu_tier(2))
    lease = await take(node, kind)
    before = await node.gauges()

    for use in uses.values():
        with pytest.raises(NotFoundError):
            await use(node, lease)

    assert await node.gauges() == before


@pytest.mark.parametrize("kind", ["store", "load"])
async def test_the_id_of_an_expired_lease_opens_no_other(serve: Serve, kind: str) -> None:
    """A prepare that is repeated too late is told that its lease is over."""
    node = await serve(cpu_tier(2))
    await node.store("old")
    lease_id = b"expired lease id"

    async def ask() -> object:
        if kind == "store":
            offer = [run("new")]
            return await node.client.prepare_store("cpu0", node.namespace, offer, lease_id=lease_id)
        return await node.client.prepare_load(
            "cpu0", node.namespace, [blocks_of("old")], lease_id=lease_id
        )

    await ask()
    node.clock.advance(30)
    with pytest.raises(AbortedError, match="expired"):
        await ask()

    assert await node.gauges() == {"ready": 1}
