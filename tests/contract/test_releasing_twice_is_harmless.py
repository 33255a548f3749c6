"""Whatever ends a lease twice, others keep what they hold."""

from collections.abc import Awaitable, Callable

import pytest

from kvtier.client import AbortedError, ExhaustedError, NodeClient
from kvtier.v1.block_pb2 import Lease
from kvtier.v1.result_pb2 import LeaseResult

from .conftest import Connect, Serve
from .support import (
    ANY_TIER,
    BLOCK_BYTES,
    MakeTier,
    Serving,
    blocks_of,
    payload,
    payloads,
    run,
    words,
)

Ending = Callable[[Serving, NodeClient, Lease], Awaitable[object]]


async def release(node: Serving, client: NodeClient, lease: Lease) -> object:
    return words(LeaseResult, (await client.release_leases([lease])).results)


async def release_twice_at_once(node: Serving, client: NodeClient, lease: Lease) -> object:
    return words(LeaseResult, (await client.release_leases([lease, lease])).results)


async def release_all_of_owner(node: Serving, client: NodeClient, lease: Lease) -> object:
    return (await client.release_leases(owner=client.owner)).owner_leases


async def complete(node: Serving, client: NodeClient, lease: Lease) -> object:
    await client.complete_load(lease)
    return "done"


async def complete_too_late(node: Serving, client: NodeClient, lease: Lease) -> object:
    with pytest.raises(AbortedError):
        await client.complete_load(lease)
    return "aborted"


async def expire(node: Serving, client: NodeClient, lease: Lease) -> object:
    await client.renew_leases([lease], ttl=1)
    node.clock.advance(1)
    return "expired"


ENDINGS: dict[str, tuple[tuple[Ending, object], tuple[Ending, object]]] = {
    "released twice": ((release, ["OK"]), (release, ["OK"])),
    "released twice in one call": ((release_twice_at_once, ["OK", "OK"]), (release, ["OK"])),
    "completed twice": ((complete, "done"), (complete, "done")),
    "completed, then released": ((complete, "done"), (release, ["ENDED"])),
    "released, then completed": ((release, ["OK"]), (complete_too_late, "aborted")),
    "released with its owner, twice": ((release_all_of_owner, 1), (release_all_of_owner, 0)),
    "released with its owner, then by name": ((release_all_of_owner, 1), (release, ["OK"])),
    "expired, then released": ((expire, "expired"), (release, ["ENDED"])),
    "expired, then completed": ((expire, "expired"), (complete_too_late, "aborted")),
}


@pytest.mark.parametrize("endings", ENDINGS.values(), ids=ENDINGS)
async def test_ending_a_load_lease_twice_leaves_anothers_pin(
    serve: Serve,
    connect: Connect,
    any_tier: MakeTier,
    endings: tuple[tuple[Ending, object], tuple[Ending, object]],
) -> None:
    """One client lets go of a block twice: another's pin holds under pressure and reads exact."""
    node = await serve(any_tier(2))
    first, second = await connect(node), await connect(node)
    await node.store("shared", tier=ANY_TIER)
    wanted = (ANY_TIER, node.namespace, [blocks_of("shared")])
    mine, theirs = [await client.prepare_load(*wanted) for client in (first, second)]
    assert await node.gauges(ANY_TIER) == {"ready": 1, "leased": 1}

    answers = [await end(node, first, mine.lease) for end, _ in endings]
    pinned = await node.gauges(ANY_TIER)
    for block in (1, 2, 3):
        await node.store(block, tier=ANY_TIER)
    read = await second.read_blocks(theirs.lease, [BLOCK_BYTES])
    await second.complete_load(theirs.lease)

    assert answers == [expected for _, expected in endings]
    assert pinned == {"ready": 1, "leased": 1}
    assert list(read.payloads) == payloads("shared")
    assert await node.gauges(ANY_TIER) == {"ready": 2}
    await node.store(4, 5, tier=ANY_TIER)
    assert await node.load("shared", tier=ANY_TIER) == [None]


@pytest.mark.parametrize("again", ["release", "complete", "owner"])
async def test_ending_a_store_lease_twice_frees_its_slots_once(
    serve: Serve, connect: Connect, any_tier: MakeTier, again: str
) -> None:
    """A slot that was given back, and taken by another, stays the other's."""
    node = await serve(any_tier(1))
    first, second = await connect(node), await connect(node)
    mine = await first.prepare_store(ANY_TIER, node.namespace, [run("mine")])
    await first.release_leases([mine.lease])
    theirs = await second.prepare_store(ANY_TIER, node.namespace, [run("theirs")])

    match again:
        case "release":
            await first.release_leases([mine.lease])
        case "owner":
            await first.release_leases(owner=first.owner)
        case "complete":
            with pytest.raises(AbortedError):
                await first.complete_store(mine.lease)
    with pytest.raises(ExhaustedError):
        await first.prepare_store(ANY_TIER, node.namespace, [run("third")])
    await second.write_blocks(theirs.lease, {0: payload("theirs")}, [BLOCK_BYTES])
    await second.complete_store(theirs.lease)

    assert await node.gauges(ANY_TIER) == {"ready": 1}
    assert await node.load("mine", "theirs", tier=ANY_TIER) == [None, payload("theirs")]
