"""Calls of leases on one stream do what calls of their own do, and none touches another."""

import asyncio
import os
from typing import Any

import pytest

from kvtier.server.services.lease_stream import MOST_CALLS
from kvtier.v1.lease_stream_pb2 import LeaseBlocksRequest, LeaseCall
from kvtier.v1.result_pb2 import CompleteResult, LeaseResult, LookupResult
from kvtier.v1.tier_service_pb2 import (
    CompleteLoadRequest,
    CompleteStoreRequest,
    PrepareLoadRequest,
    PrepareStoreRequest,
    ReleaseLeasesRequest,
    RenewLeasesRequest,
)
from kvtier.wire.errors import Reason
from tests.waiting import until

from .conftest import Serve
from .copy_gate import CopyGate
from .lease_stream import in_calls, lease_stream
from .mapping import Mapped
from .support import Serving, blocks_of, cpu_tier, payloads, run, words
from .test_a_drain_tells_followers import begin_drain, check_goodbye
from .tiers_of_two import CPU, GPU, inclusive


def offer(node: Serving, *blocks: object, tier: str = "cpu0", **fields: Any) -> PrepareStoreRequest:
    return PrepareStoreRequest(
        tier=tier,
        namespace=node.namespace,
        runs=[run(*blocks)],
        **{"lease_id": os.urandom(16), "owner": "caller"} | fields,
    )


def wish(node: Serving, *blocks: object, **fields: Any) -> PrepareLoadRequest:
    return PrepareLoadRequest(
        tier="cpu0",
        namespace=node.namespace,
        blocks=[blocks_of(*blocks)],
        lease_id=os.urandom(16),
        owner="caller",
        **fields,
    )


async def written(node: Serving, *blocks: object, tier: str = GPU) -> CompleteStoreRequest:
    """Store blocks up to the completion, and return the one that waits for their copies."""
    prepared = await node.client.prepare_store(tier, node.namespace, [run(*blocks)])
    wanted = dict(enumerate(payloads(*blocks)))
    await node.client.write_blocks(prepared.lease, wanted, [64] * len(blocks))
    return CompleteStoreRequest(lease=prepared.lease, wait_copies=True)


async def test_a_batch_is_stored_and_loaded(serve: Serve) -> None:
    """Every call that a lease has can be made, and answers as a call of its own."""
    node = await serve(cpu_tier(4))
    mine = await Mapped.of(node)
    async with lease_stream(node.endpoint) as caller:
        store = await caller.call(
            1, prepare_store=offer(node, "a", "b", locate=True, mapping=mine.number)
        )
        renewed = await caller.call(2, renew_leases=RenewLeasesRequest(leases=[store.lease]))
        checksums = mine.fill(store.slots, "a", "b")
        done = await caller.call(
            3, complete_store=CompleteStoreRequest(lease=store.lease, checksums=checksums)
        )
        load = await caller.call(
            4, prepare_load=wish(node, "a", "x", locate=True, mapping=mine.number)
        )
        over = await caller.call(5, complete_load=CompleteLoadRequest(lease=load.lease))
        released = await caller.call(6, release_leases=ReleaseLeasesRequest(leases=[load.lease]))
        ended = await caller.end()

    assert words(CompleteResult, done.results) == ["STORED", "STORED"]
    assert words(LookupResult, load.results) == ["HIT", "MISS"]
    assert load.checksums[0] == checksums[0]
    assert words(LeaseResult, [*renewed.results, *released.results]) == ["OK", "ENDED"]
    assert over == type(over)()
    assert ended is None
    assert await node.load("a", "b") == payloads("a", "b")


async def test_a_refusal_is_the_answer_of_its_call(serve: Serve) -> None:
    """With the details of a call of its own; the calls beside it are served."""
    node = await serve(cpu_tier(4))
    calls = in_calls(
        offer(node, "a", tier="tape0"),
        offer(node, "a"),
        offer(node, *range(4)),
        offer(node, "a", lease_id=b"short"),
    )
    async with lease_stream(node.endpoint) as caller:
        caller.send(calls)
        unknown, good, full, short = [await caller.answer(number) for number in (1, 2, 3, 4)]

    assert (unknown.code.name, unknown.reason) == ("NOT_FOUND", Reason.TIER_UNKNOWN)
    assert (full.code.name, full.reason) == ("RESOURCE_EXHAUSTED", Reason.TIER_FULL)
    assert full.metadata
    assert full.retry_after
    assert (short.code.name, short.reason) == ("INVALID_ARGUMENT", Reason.BAD_REQUEST)
    assert len(good.outcomes) == 1
    assert await node.gauges() == {"pending": 1}


@pytest.mark.parametrize(
    ("message", "words_of_it"),
    [
        (b"\x0f", "LeaseBlocksRequest"),
        (LeaseBlocksRequest(), "calls is empty"),
        (LeaseBlocksRequest(calls=[LeaseCall(number=7)]), "call 7 has no request"),
        (b"\x0a\x06\x08\x07\xa2\x06\x01x", "call 7 has no request"),
    ],
    ids=["no protobuf", "no calls", "no request", "a request of another version"],
)
async def test_what_is_no_call_ends_the_stream(
    serve: Serve, message: Any, words_of_it: str
) -> None:
    """Said once, with what was wrong; what was answered before stays done."""
    node = await serve(cpu_tier(4))
    async with lease_stream(node.endpoint) as caller:
        await caller.call(1, prepare_store=offer(node, "a"))
        caller.send(message)
        error = await caller.ended()

    assert error is not None
    assert (error.code.name, error.reason) == ("INVALID_ARGUMENT", Reason.BAD_REQUEST)
    assert words_of_it in error.message
    assert await node.gauges() == {"pending": 1}


async def test_a_call_that_waits_holds_up_no_other(serve: Serve, gate: CopyGate) -> None:
    """Answers come as they are known, and each is told by its number."""
    node = await serve(*inclusive(4, 4))
    waits = await written(node, "a")
    gate.shut()
    async with lease_stream(node.endpoint) as caller:
        caller.ask(1, complete_store=waits)
        await caller.call(2, prepare_store=offer(node, "b", tier=CPU))
        gate.let_through()
        done = await caller.answer(1)

    assert caller.order == [2, 1]
    assert words(CompleteResult, done.results) == ["STORED"]


async def test_a_caller_that_ends_its_half_gets_what_is_due(serve: Serve, gate: CopyGate) -> None:
    """Also the answer of a call that still waits."""
    node = await serve(*inclusive(4, 4))
    waits = await written(node, "a")
    gate.shut()
    async with lease_stream(node.endpoint) as caller:
        caller.ask(1, complete_store=waits)
        ending = asyncio.create_task(caller.end())
        await gate.reached()
        assert not ending.done()
        gate.let_through()

        assert await ending is None
        assert caller.order == [1]


async def test_a_caller_that_leaves_cancels_its_calls(serve: Serve, gate: CopyGate) -> None:
    """As one that leaves a call of its own: nothing waits on, and what was done is done."""
    node = await serve(*inclusive(4, 4))
    waits = await written(node, "a")
    gate.shut()
    before = len(asyncio.all_tasks())
    async with lease_stream(node.endpoint) as caller:
        caller.ask(1, complete_store=waits)
        await gate.reached()
        await until(lambda: waiting_for_copies() == 1)

        caller.leave()

        await until(lambda: waiting_for_copies() == 0)
    gate.let_through()
    await node.comes_to({"ready": 1}, CPU)
    await until(lambda: len(asyncio.all_tasks()) <= before)
    assert await node.look_up("a") == ["HIT"]


def waiting_for_copies() -> int:
    names = [getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks()]
    return names.count("TierService.complete_store")


async def test_calls_beyond_the_limit_are_not_served_before_others_end(
    serve: Serve, gate: CopyGate
) -> None:
    """As many as may wait do; the next is served as soon as one was answered."""
    node = await serve(*inclusive(4, 4))
    waits = await written(node, "a")
    gate.shut()
    async with lease_stream(node.endpoint) as caller:
        caller.send(in_calls(*[waits] * MOST_CALLS))
        caller.ask(MOST_CALLS + 1, prepare_store=offer(node, "b", tier=CPU))
        await until(lambda: waiting_for_copies() == MOST_CALLS)
        await asyncio.sleep(0.05)
        assert (caller.order, len(node.node.leases)) == ([], 0)

        gate.let_through()
        await caller.answer(MOST_CALLS + 1)

    assert sorted(caller.order) == list(range(1, MOST_CALLS + 2))


async def test_a_call_is_repeated_on_another_stream(serve: Serve) -> None:
    """The lease id makes the first answer that of the repeat, there and by a call of its own."""
    node = await serve(cpu_tier(4))
    request = offer(node, "a")
    async with lease_stream(node.endpoint) as caller:
        first = await caller.call(1, prepare_store=request)
        caller.leave()
    async with lease_stream(node.endpoint) as caller:
        again = await caller.call(1, prepare_store=request)
        failed = CompleteStoreRequest(lease=first.lease, failed=True)
        done = await caller.call(2, complete_store=failed)

    assert again == first
    assert await node.client.complete_store(first.lease, failed=True) == done
    assert await node.gauges() == {}


async def test_a_lease_outlives_the_stream_and_expires_by_its_time(serve: Serve) -> None:
    """The end of a stream is no word about its leases, and calls find the expired ones ended."""
    node = await serve(cpu_tier(4))
    async with lease_stream(node.endpoint) as caller:
        await caller.call(1, prepare_store=offer(node, "a"))
    assert await node.gauges() == {"pending": 1}

    async with lease_stream(node.endpoint) as caller:
        second = await caller.call(1, prepare_store=offer(node, "b"))
        node.clock.advance(31)
        late = await caller.call(2, complete_store=CompleteStoreRequest(lease=second.lease))

    assert (late.code.name, late.reason) == ("ABORTED", Reason.LEASE_ENDED)
    assert await node.gauges() == {}


async def test_a_drain_lets_leases_end_and_then_ends_the_stream(serve: Serve) -> None:
    """New work is refused, what is under way completes, and the stream says where it ended."""
    node = await serve(cpu_tier(4), drain_timeout=30)
    async with lease_stream(node.endpoint) as caller:
        await caller.call(1, prepare_store=offer(node, "other"))
        prepared = await caller.call(2, prepare_store=offer(node, "a"))
        drain = await begin_drain(node)

        refused = await caller.call(3, prepare_store=offer(node, "b"))
        gone = await caller.call(4, release_leases=ReleaseLeasesRequest(owner="caller"))
        await drain
        error = await caller.ended()

    assert (refused.code.name, refused.reason) == ("UNAVAILABLE", Reason.DRAINING)
    assert gone.owner_leases == 2
    assert prepared.lease.id
    check_goodbye(error)


async def test_an_idle_stream_delays_no_stop(serve: Serve) -> None:
    """A node with nothing to wait for sends the caller off at once."""
    node = await serve(cpu_tier(4))
    async with lease_stream(node.endpoint) as caller:
        await caller.call(1, prepare_store=offer(node, "a"))
        begun = asyncio.get_running_loop().time()

        await node.server.drain_and_stop()

        assert asyncio.get_running_loop().time() - begun < 0.4
        check_goodbye(await caller.ended())
