"""A follower that neither reads nor leaves is given up after a time, and not before."""

import asyncio

import grpc
import pytest

from .fakes import FakeNode, block
from .reader import Reader, serve
from .virtual_time import now, virtual_time


@virtual_time
async def test_a_follower_that_stops_reading_is_given_up() -> None:
    """It is told why, and counted no more; whoever reads goes on."""
    node = FakeNode()
    service = serve(node, stall_timeout=60)
    stuck, other = Reader(service).start(), Reader(service).start()
    await asyncio.sleep(0.1)
    stuck.stall()
    node.store(block(1))
    await asyncio.sleep(59.9)
    before = node.followers

    await asyncio.sleep(0.2)

    assert (before, node.followers) == (2, 1)
    assert stuck.error is not None
    assert stuck.error.code == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert stuck.error.reason == "FOLLOWER_STALLED"
    assert "60 s" in stuck.error.message
    assert stuck.error.retry_after
    assert not other.ended
    assert other.fold.view == node.contents()


@virtual_time
async def test_a_snapshot_that_nobody_reads_gives_its_place_back() -> None:
    """It is waited for a shorter time than a follower that is in sync."""
    node = FakeNode()
    node.store(block(1))
    service = serve(node, stall_timeout=60, snapshot_stall_timeout=10, max_snapshots=1)
    live = Reader(service).start()
    await asyncio.sleep(0.1)
    live.stall()
    stuck = Reader(service).start()
    stuck.stall()
    await asyncio.sleep(10.1)

    late = Reader(service).start()
    await asyncio.sleep(0.1)

    assert stuck.error is not None
    assert stuck.error.reason == "FOLLOWER_STALLED"
    assert "10 s" in stuck.error.message
    assert late.fold.synced
    assert not live.ended


@virtual_time
async def test_a_follower_back_in_sync_has_the_longer_time_again() -> None:
    """Its patience is that of a snapshot only as long as there is one."""
    node = FakeNode(max_batches=2)
    reader = Reader(serve(node, stall_timeout=60, snapshot_stall_timeout=10)).start()
    await asyncio.sleep(0.1)

    reader.stall()
    for number in range(10):
        node.store(block(number))
        await asyncio.sleep(0)
    reader.read_on()
    await asyncio.sleep(1)
    reader.stall()
    await asyncio.sleep(50)

    assert reader.fold.reasons == ["NO_POSITION", "LAGGED"]
    assert not reader.ended


@pytest.mark.parametrize("delay", [9, 59])
@virtual_time
async def test_a_follower_that_reads_slowly_is_not_given_up(delay: float) -> None:
    """Each message is waited for anew."""
    node = FakeNode()
    reader = Reader(serve(node, snapshot_stall_timeout=60, stall_timeout=60, message_bytes=1))
    reader.start()
    await asyncio.sleep(0.1)

    reader.delay = delay
    for number in range(30):
        node.store(block(number))
    await reader.until_through(30, turn=1)

    assert now() > 25 * delay
    assert not reader.ended
    assert reader.fold.view == node.contents()


@virtual_time
async def test_an_idle_follower_is_not_given_up() -> None:
    """Who has nothing to read does not stall."""
    node = FakeNode()
    reader = Reader(serve(node, heartbeat_interval=1000, stall_timeout=1)).start()

    await asyncio.sleep(100)

    assert not reader.ended


@virtual_time
async def test_a_follower_that_was_given_up_leaves_nothing_behind() -> None:
    """No task and no timer of it is left, also when its peer never reads."""
    node = FakeNode()
    service = serve(node, stall_timeout=1, snapshot_stall_timeout=1)
    tasks = len(asyncio.all_tasks())
    reader = Reader(service).start()
    await asyncio.sleep(0.1)
    reader.stall()
    await asyncio.sleep(5)

    assert reader.ended
    assert len(asyncio.all_tasks()) == tasks + 1  # the reader's own, which takes no status


@virtual_time
async def test_calls_of_given_up_followers_are_limited() -> None:
    """As many as followers may be held open unread; then nobody is admitted until one ends."""
    node = FakeNode()
    service = serve(node, stall_timeout=5, snapshot_stall_timeout=5, max_followers=2)
    lost: list[Reader] = []
    for _ in range(2):
        pair = [Reader(service).start() for _ in range(2)]
        for reader in pair:
            reader.stall()
        await asyncio.sleep(6)
        assert [reader.error is not None for reader in pair] == [True, True]
        lost += pair

    refused = Reader(service).start()
    await asyncio.sleep(0.1)
    followers = node.followers
    await lost[0].leave()
    lost[1].read_on()
    admitted = [Reader(service).start() for _ in range(2)]
    await asyncio.sleep(0.1)

    assert followers == 0
    assert refused.error is not None
    assert refused.error.reason == "FOLLOWER_LIMIT"
    assert "0 followers and 4 that were given up" in refused.error.message
    assert [reader.fold.synced for reader in admitted] == [True, True]
