"""A caller that lost an answer asks again: it gets the same one, and nothing happens twice."""

from collections.abc import Mapping
from typing import Any

import pytest

from kvtier.client import AbortedError, ExhaustedError, FailedPreconditionError, NotFoundError
from kvtier.v1.result_pb2 import CompleteResult

from .conftest import Connect, Follow, Serve
from .support import (
    BLOCK_BYTES,
    MakeTier,
    block_hash,
    blocks_of,
    cpu_tier,
    evicted_hashes,
    payload,
    payloads,
    run,
    words,
)

ID = b"sixteen bytes id"
REMEMBERED = 300


async def test_a_repeated_reservation_is_one_reservation(serve: Serve, follow: Follow) -> None:
    """The same slots, outcomes and evictions are answered; nothing more is evicted or told."""
    node = await serve(cpu_tier(2))
    await node.store("old", "older")
    follower = await follow(node)
    offer = ("cpu0", node.namespace, [run("new")])

    first = await node.client.prepare_store(*offer, lease_id=ID)
    again = await node.client.prepare_store(*offer, lease_id=ID)

    assert first == again
    assert evicted_hashes(first.evicted) == [block_hash("older")]
    assert [each.what for each in await follower.news()] == ["removed"]
    assert await node.gauges() == {"ready": 1, "pending": 1}
    assert (await node.client.get_node()).leases == 1


async def test_a_repeated_pin_is_one_pin(serve: Serve) -> None:
    """The answer is that of the first call, also when the blocks have changed since."""
    node = await serve(cpu_tier(4))
    await node.store("A")
    wanted = ("cpu0", node.namespace, [blocks_of("A", "B")])

    first = await node.client.prepare_load(*wanted, lease_id=ID)
    await node.store("B", after="A")
    again = await node.client.prepare_load(*wanted, lease_id=ID)
    await node.client.complete_load(again.lease)

    assert first == again
    assert await node.gauges() == {"ready": 2}


@pytest.mark.parametrize("what", ["store", "load"])
async def test_a_repeat_after_the_end_has_no_effect(serve: Serve, what: str) -> None:
    """Asked again after it was completed, a lease is answered as at first and not opened anew."""
    node = await serve(cpu_tier(4))
    await node.store("A")
    asked: tuple[Any, ...] = ("cpu0", node.namespace, [run("new")])
    prepare: Any = node.client.prepare_store
    complete: Any = node.client.complete_store
    if what == "load":
        asked = ("cpu0", node.namespace, [blocks_of("A")])
        prepare, complete = node.client.prepare_load, node.client.complete_load

    first = await prepare(*asked, lease_id=ID)
    await complete(first.lease)
    again = await prepare(*asked, lease_id=ID)

    assert first == again
    assert await node.gauges() == {"ready": 1}
    assert (await node.client.get_node()).leases == 0


OTHER_REQUESTS: dict[str, Mapping[str, Any]] = {
    "other blocks": {"runs": [run("other")]},
    "more blocks": {"runs": [run("A", "B")]},
    "another tier": {"tier": "cpu1"},
    "another request id": {"request_id": "other"},
    "another time to live": {"ttl": 7},
}


@pytest.mark.parametrize("changed", OTHER_REQUESTS.values(), ids=OTHER_REQUESTS)
@pytest.mark.parametrize("ended", [False, True], ids=["open", "ended"])
async def test_an_id_serves_one_request_only(
    serve: Serve, changed: Mapping[str, Any], ended: bool
) -> None:
    """The same id with another request is refused, and changes nothing."""
    node = await serve(cpu_tier(4), cpu_tier(4, "cpu1"))
    request = {"tier": "cpu0", "namespace": node.namespace, "runs": [run("A")]}
    first = await node.client.prepare_store(**request, lease_id=ID)  # type: ignore[arg-type]
    if ended:
        await node.client.complete_store(first.lease, failed=True)
    before = await node.state(), await node.state("cpu1")

    with pytest.raises(FailedPreconditionError) as refused:
        await node.client.prepare_store(**{**request, **changed}, lease_id=ID)

    assert refused.value.reason == "LEASE_REUSED"
    assert (await node.state(), await node.state("cpu1")) == before


async def test_an_id_serves_one_owner_and_one_purpose(serve: Serve, connect: Connect) -> None:
    """Neither another client nor another call may take the id of an open lease."""
    node = await serve(cpu_tier(4))
    await node.store("A")
    other = await connect(node)
    await node.client.prepare_load("cpu0", node.namespace, [blocks_of("A")], lease_id=ID)

    for attempt in (
        other.prepare_load("cpu0", node.namespace, [blocks_of("A")], lease_id=ID),
        other.prepare_store("cpu0", node.namespace, [run("B")], lease_id=ID),
        other.store("cpu0", node.namespace, [run("B")], payloads("B"), lease_id=ID),
    ):
        with pytest.raises(FailedPreconditionError):
            await attempt
    assert await node.gauges() == {"ready": 1, "leased": 1}


async def test_a_repeated_completion_gets_the_first_outcome(
    serve: Serve, follow: Follow, any_tier: MakeTier
) -> None:
    """Whatever became of the blocks since, and whatever the repeat says, nothing happens again."""
    node = await serve({**any_tier(2), "name": "cpu0"})
    follower = await follow(node)
    prepared = await node.client.prepare_store("cpu0", node.namespace, [run("A", "B")])
    await node.client.write_blocks(prepared.lease, {0: payload("A")}, [BLOCK_BYTES] * 2)

    first = await node.client.complete_store(prepared.lease)
    again = await node.client.complete_store(prepared.lease, failed=True)
    await node.client.delete(node.namespace, [blocks_of("A")])
    later = await node.client.complete_store(prepared.lease)

    assert words(CompleteResult, first.results) == ["STORED", "NOT_WRITTEN"]
    assert first == again == later
    assert [each.what for each in await follower.news()] == ["stored", "removed"]
    assert await node.gauges() == {}


async def test_a_call_that_moves_bytes_cannot_be_repeated_by_its_id(serve: Serve) -> None:
    """An offer in one call needs an id of its own each time; the first one's blocks stay."""
    node = await serve(cpu_tier(4))
    offer = ("cpu0", node.namespace, [run("A")], payloads("A"))
    await node.client.store(*offer, lease_id=ID)

    with pytest.raises(FailedPreconditionError) as refused:
        await node.client.store(*offer, lease_id=ID)

    assert refused.value.reason == "LEASE_REUSED"
    assert await node.load("A") == payloads("A")


async def test_a_refused_request_may_be_repeated_with_its_id(serve: Serve) -> None:
    """A refusal is no first answer: once there is room the same request is granted."""
    node = await serve(cpu_tier(1))
    await node.store("A")
    pinned = await node.client.prepare_load("cpu0", node.namespace, [blocks_of("A")])
    offer = ("cpu0", node.namespace, [run("B")])
    with pytest.raises(ExhaustedError):
        await node.client.prepare_store(*offer, lease_id=ID)
    await node.client.complete_load(pinned.lease)

    granted = await node.client.prepare_store(*offer, lease_id=ID)

    assert evicted_hashes(granted.evicted) == [block_hash("A")]


async def test_what_ended_is_remembered_for_a_while_only(serve: Serve) -> None:
    """Long after its end a lease is unknown, and its id may be taken anew for another life."""
    node = await serve(cpu_tier(4))
    offer = ("cpu0", node.namespace, [run("A")])
    first = await node.client.prepare_store(*offer, lease_id=ID)
    await node.client.complete_store(first.lease, failed=True)

    node.clock.advance(REMEMBERED)
    with pytest.raises(NotFoundError):
        await node.client.complete_store(first.lease)
    anew = await node.client.prepare_store(*offer, lease_id=ID)

    assert anew.lease.id == first.lease.id
    assert anew.lease.generation != first.lease.generation
    with pytest.raises(AbortedError):
        await node.client.complete_store(first.lease)
    assert await node.gauges() == {"pending": 1}
