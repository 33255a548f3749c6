"""A slot that a late writer may still be writing into is not used again before that is over."""

import os
from collections.abc import Awaitable, Callable

import pytest

from kvtier.client import AbortedError, ExhaustedError
from kvtier.v1.result_pb2 import LeaseResult
from kvtier.v1.tier_service_pb2 import PrepareStoreResponse

from .conftest import Connect, Serve
from .mapping import Mapped
from .support import Serving, blocks_of, cpu_tier, payload, payloads, run, words

QUARANTINE = 60
PROBE_SECONDS = 1

Act = Callable[[Serving, PrepareStoreResponse], Awaitable[object]]


@pytest.fixture
async def node(serve: Serve) -> Serving:
    """A node with one tier of two slots."""
    return await serve(cpu_tier(2), slot_quarantine=QUARANTINE)


async def expire(node: Serving, _: PrepareStoreResponse) -> None:
    node.clock.advance(31)


async def clear(node: Serving, _: PrepareStoreResponse) -> None:
    await node.client.clear("cpu0")


async def release_the_owners(node: Serving, _: PrepareStoreResponse) -> None:
    await node.client.release_leases(owner=node.client.owner)


async def delete_and_expire(node: Serving, _: PrepareStoreResponse) -> None:
    await node.client.delete(node.namespace, [blocks_of("late")], force=True)
    node.clock.advance(31)


ENDS: dict[str, Act] = {
    "expired": expire,
    "cleared": clear,
    "released by owner": release_the_owners,
    "deleted, then expired": delete_and_expire,
}


async def complete(node: Serving, prepared: PrepareStoreResponse) -> None:
    with pytest.raises(AbortedError):
        await node.client.complete_store(prepared.lease, checksums=[1])


async def release(node: Serving, prepared: PrepareStoreResponse) -> None:
    await node.client.release_leases([prepared.lease])


async def wait(node: Serving, _: PrepareStoreResponse) -> None:
    node.clock.advance(QUARANTINE)


WORDS: dict[str, Act] = {"completes": complete, "releases": release, "waits": wait}


@pytest.mark.parametrize("word", WORDS.values(), ids=WORDS)
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
async def test_its_slot_is_kept_until_the_writer_says_so_or_time_has_passed(
    node: Serving, end: Act, word: Act
) -> None:
    """Meanwhile a store that needs it is refused, and is told what holds the room."""
    mine = await Mapped.of(node)
    prepared = await mine.prepare("late")

    await end(node, prepared)
    found = await node.look_up("late")
    kept = await node.gauges()
    with pytest.raises(ExhaustedError, match="1 quarantined") as refused:
        await node.store("a", "b")
    await word(node, prepared)

    assert found == ["MISS"]
    assert kept == {"quarantined": 1}
    assert refused.value.metadata["quarantined_blocks"] == "1"
    assert await node.gauges() == {}
    await node.store("a", "b")
    assert await node.load("a", "b") == payloads("a", "b")


async def test_a_late_write_harms_no_later_block(node: Serving) -> None:
    """The later block is in another slot; the late one is found by nobody."""
    mine = await Mapped.of(node)
    prepared = await mine.prepare("late")
    await expire(node, prepared)
    await node.store("later")

    checksums = mine.fill(prepared.slots, "late")
    with pytest.raises(AbortedError):
        await node.client.complete_store(prepared.lease, checksums=checksums)

    assert await node.load("late", "later") == [None, payload("later")]
    await node.store("late", tier="cpu0")
    assert await node.load("late", "later") == payloads("late", "later")


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
async def test_a_writer_that_is_gone_already_keeps_nothing(node: Serving, end: Act) -> None:
    """Its lock is free when its lease ends."""
    mine = await Mapped.of(node)
    prepared = await mine.prepare("late")
    mine.file.close()

    await end(node, prepared)

    assert await node.gauges() == {}


async def test_a_writer_that_goes_later_is_seen_within_a_second(node: Serving) -> None:
    """Nobody looks for it more often, and another writer's slots stay."""
    mine, others = await Mapped.of(node), await Mapped.of(node)
    await expire(node, await mine.prepare("late"))
    await expire(node, await others.prepare("other"))
    both = await node.gauges()

    mine.file.close()
    node.clock.advance(PROBE_SECONDS)

    assert both == {"quarantined": 2}
    assert await node.gauges() == {"quarantined": 1}


async def test_the_writers_own_word_ends_a_lease_without_a_quarantine(node: Serving) -> None:
    """A release by the lease, a completion, and a completion that failed."""
    mine = await Mapped.of(node)

    for failed in (True, False):
        prepared = await mine.prepare("a")
        await node.client.complete_store(prepared.lease, failed=failed)
        assert await node.gauges() == {}
    await release(node, await mine.prepare("b"))

    assert await node.gauges() == {}


async def test_a_lease_without_slots_told_leaves_no_quarantine(node: Serving) -> None:
    """Its writer can reach no slot by itself."""
    await node.client.prepare_store("cpu0", node.namespace, [run("a")])

    node.clock.advance(31)

    assert await node.gauges() == {}


async def test_only_the_lease_itself_is_its_writers_word(node: Serving, connect: Connect) -> None:
    """Not one of another generation or id, and not a release of its owner's others."""
    mine, other = await Mapped.of(node), await connect(node)
    prepared = await mine.prepare("late")
    await expire(node, prepared)
    wrong = type(prepared.lease)(id=prepared.lease.id, generation=prepared.lease.generation + 1)
    unknown = type(prepared.lease)(id=os.urandom(16), generation=prepared.lease.generation)

    await other.release_leases([wrong, unknown], owner=node.client.owner)

    assert await node.gauges() == {"quarantined": 1}


async def test_a_lease_that_went_with_its_owners_is_still_released(node: Serving) -> None:
    """A repeated release gives the first outcome, and is the writer's word."""
    mine = await Mapped.of(node)
    prepared = await mine.prepare("late")
    await release_the_owners(node, prepared)

    answer = await node.client.release_leases([prepared.lease])

    assert words(LeaseResult, answer.results) == ["OK"]
    assert await node.gauges() == {}


async def test_blocks_sent_under_such_a_lease_are_quarantined_too(node: Serving) -> None:
    """A whole block that waited for its completion is not published, nor its slot used."""
    mine = await Mapped.of(node)
    prepared = await mine.prepare("a", "b")
    await node.client.write_blocks(prepared.lease, {0: payload("a")}, [64, 64])

    await expire(node, prepared)

    assert await node.look_up("a", "b") == ["MISS", "MISS"]
    assert await node.gauges() == {"quarantined": 2}
    await release(node, prepared)
    assert await node.gauges() == {}


async def test_no_quarantine_at_all_may_be_configured(serve: Serve) -> None:
    """For callers that never outlive their leases."""
    node = await serve(cpu_tier(1), slot_quarantine=0)
    mine = await Mapped.of(node)
    await mine.prepare("late")

    node.clock.advance(31)

    assert await node.gauges() == {}
