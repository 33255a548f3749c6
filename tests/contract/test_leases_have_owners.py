"""Whose a lease is: completed by itself alone, limited per owner, and ended with its owner."""

import pytest

from kvtier.client import ExhaustedError, InvalidArgumentError
from kvtier.v1.result_pb2 import CompleteResult, LeaseResult, LookupResult, StoreOutcome
from kvtier.v1.tier_pb2 import LeaseKind

from .conftest import Connect, Follow, Serve
from .support import (
    BLOCK_BYTES,
    block_hash,
    blocks_of,
    cpu_tier,
    gpu_tier,
    hash_set,
    payload,
    payloads,
    run,
    words,
)


async def test_a_completion_publishes_nobody_elses_write(
    serve: Serve, connect: Connect, follow: Follow
) -> None:
    """A second writer of a block that is on its way completes its own lease, and no more."""
    node = await serve(cpu_tier(4))
    follower = await follow(node)
    first, second = await connect(node), await connect(node)
    mine = await first.prepare_store("cpu0", node.namespace, [run("shared", "mine")])
    theirs = await second.prepare_store("cpu0", node.namespace, [run("shared"), run("theirs")])
    await first.write_blocks(mine.lease, {0: payload("shared")}, [BLOCK_BYTES] * 2)
    await second.write_blocks(theirs.lease, {1: payload("theirs")}, [BLOCK_BYTES] * 2)

    completed = await second.complete_store(theirs.lease)
    early = await node.look_up("shared"), [e.block_hash for e in await follower.news()]
    await first.complete_store(mine.lease)

    assert words(StoreOutcome, theirs.outcomes) == ["PENDING", "WRITE"]
    assert words(CompleteResult, completed.results) == ["NOT_LEASED", "STORED"]
    assert early == (["HIT_PENDING"], [block_hash("theirs")])
    assert await node.load("shared", "theirs") == payloads("shared", "theirs")
    assert [e.block_hash for e in await follower.news()] == [block_hash("shared")]


async def test_a_failed_second_writer_takes_nothing_from_the_first(
    serve: Serve, connect: Connect
) -> None:
    """Giving up a lease gives back its own slots, not the ones it was told are pending."""
    node = await serve(cpu_tier(2))
    first, second = await connect(node), await connect(node)
    mine = await first.prepare_store("cpu0", node.namespace, [run("shared")])
    theirs = await second.prepare_store("cpu0", node.namespace, [run("shared")])

    await second.complete_store(theirs.lease, failed=True)
    await first.write_blocks(mine.lease, {0: payload("shared")}, [BLOCK_BYTES])
    await first.complete_store(mine.lease)

    assert await node.load("shared") == payloads("shared")


async def test_an_owners_leases_end_together_and_alone(serve: Serve, connect: Connect) -> None:
    """Releasing an owner frees every reservation and pin of its, in every tier, and no other's."""
    node = await serve(gpu_tier(4), cpu_tier(4))
    await node.store("A")
    gone, stays = await connect(node, owner="engine-7"), await connect(node, owner="engine-8")
    mine = [
        (await gone.prepare_store(tier, node.namespace, [run("new")])).lease
        for tier in ("gpu0", "cpu0")
    ]
    mine.append((await gone.prepare_load("cpu0", node.namespace, [blocks_of("A")])).lease)
    await stays.prepare_load("cpu0", node.namespace, [blocks_of("A")])

    released = await node.client.release_leases(owner="engine-7")
    renewed = await gone.renew_leases(mine)

    assert released.owner_leases == 3
    assert words(LeaseResult, renewed.results) == ["ENDED"] * 3
    assert await node.gauges("gpu0") == {}
    assert await node.gauges("cpu0") == {"ready": 1, "leased": 1}
    assert (await node.client.get_node()).leases == 1


async def test_names_and_owner_may_be_released_in_one_call(serve: Serve, connect: Connect) -> None:
    """A lease that is named and of the owner ends once; unknown owners have none to end."""
    node = await serve(cpu_tier(4))
    client = await connect(node, owner="engine-7")
    leases = [
        (await client.prepare_store("cpu0", node.namespace, [run(block)])).lease for block in "AB"
    ]

    answer = await client.release_leases(leases[:1], owner="engine-7")
    nobody = await client.release_leases(owner="engine-9")

    assert words(LeaseResult, answer.results) == ["OK"]
    assert (answer.owner_leases, nobody.owner_leases) == (1, 0)
    assert await node.gauges() == {}


@pytest.mark.parametrize("what", ["store", "load", "offer"])
async def test_an_owner_has_a_limit_of_open_leases(
    serve: Serve, connect: Connect, what: str
) -> None:
    """One more is refused and leaves nothing; others are not concerned; ending one helps."""
    node = await serve(cpu_tier(8), limits={"leases_per_owner": 2})
    await node.store("A")
    greedy, other = await connect(node, owner="greedy"), await connect(node, owner="modest")
    held = [
        (await greedy.prepare_load("cpu0", node.namespace, [blocks_of("A")])).lease
        for _ in range(2)
    ]
    before = await node.state()

    async def one_more(block: str) -> object:
        if what == "store":
            return await greedy.prepare_store("cpu0", node.namespace, [run(block)])
        if what == "load":
            return await greedy.prepare_load("cpu0", node.namespace, [blocks_of("A")])
        return await greedy.store("cpu0", node.namespace, [run(block)], payloads(block))

    with pytest.raises(ExhaustedError, match="greedy") as refused:
        await one_more("B")
    assert await node.state() == before
    await other.prepare_load("cpu0", node.namespace, [blocks_of("A")])
    await greedy.complete_load(held[0])
    await one_more("B")

    assert refused.value.reason == "LEASE_LIMIT"
    assert refused.value.retry_after


async def test_a_block_tells_who_holds_it(serve: Serve, connect: Connect) -> None:
    """A description names each lease's owner, purpose and time left."""
    node = await serve(cpu_tier(4))
    await node.store("A")
    reader, writer = await connect(node, owner="reader"), await connect(node, owner="writer")
    await reader.prepare_load("cpu0", node.namespace, [blocks_of("A")], ttl=20)
    await writer.prepare_store("cpu0", node.namespace, [run("B")], ttl=10)
    node.clock.advance(4)

    read = await node.client.describe_block(node.namespace, 0, b"", block_hash("A"))
    written = await node.client.describe_block(node.namespace, 0, b"", block_hash("B"))

    told = [
        (each.owner, LeaseKind.Name(each.kind), each.remaining.seconds)
        for each in (*read.leases, *written.leases)
    ]
    assert told == [("reader", "LEASE_KIND_LOAD", 16), ("writer", "LEASE_KIND_STORE", 6)]
    assert read.copies[0].leases == 1
    assert not written.copies


@pytest.mark.parametrize("kind", ["store", "load"])
async def test_a_renewed_lease_lives_on(serve: Serve, kind: str) -> None:
    """Renewed before its end it lives for the new time, counted from then."""
    node = await serve(cpu_tier(4))
    await node.store("A")
    if kind == "store":
        lease = (await node.client.prepare_store("cpu0", node.namespace, [run("B")], ttl=5)).lease
    else:
        blocks = [blocks_of("A")]
        lease = (await node.client.prepare_load("cpu0", node.namespace, blocks, ttl=5)).lease
    held = await node.gauges()

    told = []
    for ttl, passed in ((60, 59), (2, 1), (None, 29)):
        told += words(LeaseResult, (await node.client.renew_leases([lease], ttl)).results)
        node.clock.advance(passed)
        assert await node.gauges() == held
    node.clock.advance(1)
    late = await node.client.renew_leases([lease])

    assert told == ["OK"] * 3
    assert words(LeaseResult, late.results) == ["ENDED"]
    assert await node.gauges() == {"ready": 1}


async def test_a_renewal_may_shorten_a_lease(serve: Serve) -> None:
    """The new time replaces the old one, also when less was wanted."""
    node = await serve(cpu_tier(4))
    await node.store("A")
    pinned = await node.client.prepare_load("cpu0", node.namespace, [blocks_of("A")], ttl=60)

    await node.client.renew_leases([pinned.lease], 2)
    node.clock.advance(2)

    assert await node.gauges() == {"ready": 1}


@pytest.mark.parametrize("ttl", [301, 10_000])
async def test_no_lease_lives_longer_than_the_limit(serve: Serve, ttl: float) -> None:
    """Taking or renewing for more than five minutes is refused, and the lease stays as it is."""
    node = await serve(cpu_tier(4))
    await node.store("A")
    kept = await node.client.prepare_load("cpu0", node.namespace, [blocks_of("A")], ttl=300)
    before = await node.state()

    with pytest.raises(InvalidArgumentError, match="300"):
        await node.client.prepare_load("cpu0", node.namespace, [blocks_of("A")], ttl=ttl)
    with pytest.raises(InvalidArgumentError, match="300"):
        await node.client.renew_leases([kept.lease], ttl)

    assert await node.state() == before
    assert words(LookupResult, kept.results) == ["HIT"]
    assert await node.held() == hash_set("A")
