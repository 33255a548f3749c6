"""What one follower does is nobody else's business."""

import asyncio

import grpc
import pytest

from kvtier.v1.event_service_pb2 import WatchEventsRequest
from kvtier.wire.errors import KvtierError

from .fakes import FakeNode, block, space_of
from .reader import Call, Reader, serve
from .timing import side_by_side
from .virtual_time import virtual_time


@virtual_time
async def test_followers_are_counted_while_they_are_there() -> None:
    """However a stream ends, its follower is not counted any more."""
    node = FakeNode()
    service = serve(node)

    async def broken(_: bytes) -> None:
        raise ConnectionError

    async def fail() -> None:
        with pytest.raises(ConnectionError):
            await service.watch_events(WatchEventsRequest(), Call(broken))

    leaving, staying = Reader(service).start(), Reader(service).start()
    await asyncio.sleep(0.1)
    both = node.followers
    await leaving.leave()
    await fail()
    with pytest.raises(KvtierError):
        await service.watch_events(WatchEventsRequest(tiers=["none"]), Call(broken))

    assert both == 2
    assert node.followers == 1
    assert not staying.ended


@pytest.mark.parametrize("moment", ["snapshot", "live", "idle", "waiting"])
@virtual_time
async def test_a_follower_that_vanishes_leaves_nothing_behind(moment: str) -> None:
    """Cancelled in any state, a stream frees its place, its snapshot and its tasks."""
    node = FakeNode()
    node.store(block(1))
    service = serve(node, max_snapshots=1)
    other = Reader(service).start()
    if moment == "waiting":
        other.stall()
    await asyncio.sleep(0.1)
    tasks = len(asyncio.all_tasks())

    reader = Reader(service).start()
    if moment == "snapshot":
        reader.stall()
    await asyncio.sleep(0.1)
    if moment == "live":
        reader.stall()
        node.store(block(2))
        await asyncio.sleep(0.1)
    await reader.leave()
    await asyncio.sleep(0)

    assert len(asyncio.all_tasks()) == tasks
    assert node.followers == 1
    other.read_on()
    await asyncio.sleep(0.1)
    again = Reader(service).start()
    await asyncio.sleep(0.1)
    assert again.fold.view == other.fold.view == node.contents()


@virtual_time
async def test_one_follower_too_many_is_refused() -> None:
    """Past the limit a stream ends at once with RESOURCE_EXHAUSTED; a free place is given."""
    node = FakeNode()
    service = serve(node, max_followers=2)
    first, second = Reader(service).start(), Reader(service).start()
    await asyncio.sleep(0.1)

    third = Reader(service).start()
    await asyncio.sleep(0.1)
    await first.leave()
    fourth = Reader(service).start()
    await asyncio.sleep(0.1)

    assert third.error is not None
    assert third.error.code == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert (third.error.reason, third.kinds) == ("FOLLOWER_LIMIT", [])
    assert third.error.retry_after
    assert fourth.fold.synced
    assert not second.ended


@virtual_time
async def test_a_follower_that_does_not_read_holds_up_nobody() -> None:
    """Others get every event in time, and appends go on, while one send hangs for ever."""
    node = FakeNode(max_batches=50)
    service = serve(node)
    stuck, fast = Reader(service).start(), Reader(service).start()
    await asyncio.sleep(0.1)
    stuck.stall()

    for number in range(500):
        node.store(block(number))
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.1)

    assert fast.fold.reasons == ["NO_POSITION"]
    assert fast.fold.view == node.contents()
    assert node.log.head - node.log.oldest == 50
    stuck.read_on()
    await asyncio.sleep(0.1)
    assert stuck.fold.view == node.contents()


@virtual_time
async def test_equal_followers_are_sent_the_same_bytes() -> None:
    """Followers with one filter share each message; one with another filter gets its own."""
    node = FakeNode()
    service = serve(node)
    one, two = Reader(service).start(), Reader(service).start()
    three, four = (Reader(service, namespaces=[space_of(1)]).start() for _ in range(2))
    await asyncio.sleep(0.1)

    node.store(block(1, namespace=1), block(2, namespace=2))
    await asyncio.sleep(0.1)

    assert one.kinds[-1] == "batches"
    assert one.raw[-1] is two.raw[-1]
    assert three.raw[-1] is four.raw[-1]
    assert len(three.raw[-1]) < len(one.raw[-1])


@virtual_time
async def test_appending_does_not_cost_more_for_followers_that_do_not_read() -> None:
    """The time of an append with fifty stuck followers is that of a node without any."""
    alone, crowded = FakeNode(max_batches=100), FakeNode(max_batches=100)
    service = serve(crowded, max_followers=50)
    readers = [Reader(service).start() for _ in range(50)]
    await asyncio.sleep(0.1)
    for reader in readers:
        reader.stall()
    crowded.store(block(1))
    await asyncio.sleep(0.1)

    without, with_followers = side_by_side(alone.clear, crowded.clear)

    assert with_followers < 5 * without
