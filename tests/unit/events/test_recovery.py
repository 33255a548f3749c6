"""Starting over: when a follower does, how often, and how many may at one time."""

import asyncio

import grpc
import pytest

from .fakes import FakeNode, block, space_of
from .reader import Reader, serve
from .virtual_time import now, virtual_time


@virtual_time
async def test_a_follower_that_falls_out_of_the_log_starts_over_on_the_same_stream() -> None:
    """LAGGED, a snapshot and synced; what was forgotten is neither sent nor missing."""
    node = FakeNode(max_batches=5)
    reader = Reader(serve(node)).start()
    await asyncio.sleep(0.1)

    reader.stall()
    for number in range(50):
        node.store(block(number))
        await asyncio.sleep(0)
    reader.read_on()
    await asyncio.sleep(0.1)

    assert reader.fold.reasons == ["NO_POSITION", "LAGGED"]
    assert reader.fold.view == node.contents()
    assert not reader.ended


@virtual_time
async def test_three_resets_without_synced_end_the_stream() -> None:
    """A follower too slow for any snapshot is sent off, with what to do about it."""
    node = FakeNode(max_batches=2, slice_slots=1)
    node.store(*[block(number) for number in range(20)])
    reader = Reader(serve(node)).start()

    while not reader.ended:
        reader.stall()
        await asyncio.sleep(0)
        for _ in range(4):
            node.clear(space_of(2))
        reader.read_on()
        await asyncio.sleep(0)

    assert reader.fold.reasons == ["NO_POSITION", "LAGGED", "LAGGED"]
    assert "synced" not in reader.kinds
    assert reader.error is not None
    assert reader.error.code == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert reader.error.reason == "RESET_LIMIT"
    assert reader.error.retry_after
    assert node.followers == 0


@virtual_time
async def test_resets_with_a_synced_between_them_are_not_counted_together() -> None:
    """A follower that lags now and then is never sent off for it."""
    node = FakeNode(max_batches=2)
    reader = Reader(serve(node)).start()

    for _ in range(8):
        await asyncio.sleep(0.1)
        reader.stall()
        for _ in range(9):
            node.clear()
            await asyncio.sleep(0)
        reader.read_on()
    await asyncio.sleep(0.1)

    assert reader.fold.reasons == ["NO_POSITION", *["LAGGED"] * 8]
    assert not reader.ended


@virtual_time
async def test_a_snapshot_that_is_read_slowly_is_let_go_on() -> None:
    """However long it takes, a follower that keeps reading gets to the end."""
    node = FakeNode()
    node.store(*[block(number) for number in range(12)])
    reader = Reader(serve(node, snapshot_stall_timeout=10, message_bytes=1))
    reader.delay = 9
    reader.start()
    await asyncio.sleep(20)

    for number in range(12, 30):
        node.store(block(number))
    await reader.until("synced", turn=1)

    assert now() > 200
    assert reader.fold.view == node.contents()


@virtual_time
async def test_snapshots_under_way_are_limited() -> None:
    """One too many waits a moment for a place, and is refused if none comes free."""
    node = FakeNode()
    node.store(block(1))
    service = serve(node, max_snapshots=2, heartbeat_interval=1)
    slow = [Reader(service).start() for _ in range(2)]
    for reader in slow:
        reader.stall()
    await asyncio.sleep(0)

    refused = Reader(service).start()
    await asyncio.sleep(1.5)
    patient = Reader(service).start()
    await asyncio.sleep(0.5)
    slow[0].read_on()
    await asyncio.sleep(0.1)

    assert refused.error is not None
    assert refused.error.code == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert refused.error.reason == "SNAPSHOT_LIMIT"
    assert refused.error.retry_after
    assert "2 followers are being sent a snapshot" in refused.error.message
    assert patient.fold.synced
    assert slow[0].fold.synced


@pytest.mark.parametrize("count", [1, 50])
@virtual_time
async def test_many_followers_at_once_all_get_their_snapshot(count: int) -> None:
    """Followers that all come back together are served in turn, not refused."""
    node = FakeNode(slice_slots=1)
    node.store(*[block(number) for number in range(30)])
    service = serve(node, max_followers=50, max_snapshots=2)

    readers = [Reader(service).start() for _ in range(count)]
    await asyncio.sleep(0.5)

    assert [reader.fold.view == node.contents() for reader in readers] == [True] * count
