"""Copies that take a while: what may happen to their slots meanwhile."""

import pytest

from kvtier.v1.removal_pb2 import DeleteBlocksRequest
from kvtier.v1.transfer_service_pb2 import WriteBlocksRequest
from kvtier.wire.errors import KvtierError
from tests.contract.support import cpu_tier, namespace, payload, run

from .conftest import MakeNode
from .support import LocalNode, at_once
from .transferring import HeldThreads, Upload, data, part, settle, write

LARGE = 1 << 20


@pytest.fixture
def threads() -> HeldThreads:
    return HeldThreads()


@pytest.fixture
def large(make_node: MakeNode, threads: HeldThreads) -> LocalNode:
    """A node of two blocks so large that threads copy them, when the test lets them."""
    node = make_node({**cpu_tier(0), "capacity": 2 * LARGE, "slot_bytes": LARGE})
    node.node.threads.shutdown()
    node.node.threads = threads  # type: ignore[assignment]
    described = node.node.register(namespace("large", block_bytes=[LARGE]))
    node.namespace = described.fingerprint
    return node


async def test_a_slot_is_not_reused_while_a_dead_caller_s_bytes_are_copied(
    large: LocalNode, threads: HeldThreads
) -> None:
    """A lease that expires in the middle of a copy frees its slot when the copy has ended."""
    lease, _ = large.prepare(run("a"))
    upload = Upload(
        large.transfers, WriteBlocksRequest(lease=lease.reference()), data(0, payload("a", LARGE))
    )
    await settle()
    assert len(threads) == 1

    large.clock.advance(30)
    large.node.expire_leases()
    assert large.gauges() == {"draining": 1, "free": 1}
    await threads.finish()

    assert large.gauges() == {"free": 2}
    with pytest.raises(KvtierError, match="ended while"):
        await upload.task


async def test_a_block_deleted_while_it_is_copied_is_aborted(
    large: LocalNode, threads: HeldThreads
) -> None:
    """A forced delete wins over a copy under way; the slot is free once nothing holds it."""
    upload = Upload(large.transfers, WriteBlocksRequest(offer=large.offer(run("a"))))
    await upload.send(data(0, payload("a", LARGE)))

    at_once(
        large.tiers.delete_blocks(
            DeleteBlocksRequest(namespace=large.namespace, blocks=large.blocks("a"), force=True)
        )
    )
    assert large.gauges() == {"draining": 1, "free": 1}
    await threads.finish()

    assert await upload.end() == {0: "ABORTED"}
    assert large.gauges() == {"free": 2}
    assert large.batches() == []


async def test_two_calls_never_write_one_block_at_a_time(
    large: LocalNode, threads: HeldThreads
) -> None:
    """A caller that left in the middle of a copy, and tries again at once, waits for its end."""
    lease, _ = large.prepare(run("a"))
    by_lease = WriteBlocksRequest(lease=lease.reference())
    left = Upload(large.transfers, by_lease, data(0, payload("a", LARGE)))
    await settle()
    await left.vanish()

    with pytest.raises(KvtierError, match="written by another call"):
        await write(large.transfers, by_lease, data(0, payload("a", LARGE)))
    await threads.finish()
    again = Upload(large.transfers, by_lease, data(0, payload("a", LARGE)))
    await settle()
    await threads.finish()

    assert await again.end() == {0: "WRITTEN"}


async def test_a_caller_that_left_between_two_copies_may_try_again(
    large: LocalNode, threads: HeldThreads
) -> None:
    """A block that was begun is begun anew by the next call."""
    lease, _ = large.prepare(run("a"))
    by_lease, whole = WriteBlocksRequest(lease=lease.reference()), payload("a", LARGE)
    left = Upload(large.transfers, by_lease, part(0, whole, 0, LARGE // 2))
    await settle()
    await threads.finish()
    await left.vanish()

    again = Upload(large.transfers, by_lease, data(0, whole))
    await settle()
    await threads.finish()

    assert await again.end() == {0: "WRITTEN"}
    assert large.tier.arena.read(0, LARGE) == whole


async def test_a_large_block_in_parts_is_checked_as_a_whole(
    large: LocalNode, threads: HeldThreads
) -> None:
    """The checksum covers every part, whatever their sizes."""
    whole = payload("a", LARGE)
    upload = Upload(large.transfers, WriteBlocksRequest(offer=large.offer(run("a"))))
    for start, end in ((0, 100), (100, 600_000), (600_000, LARGE)):
        await upload.send(part(0, whole, start, end))
        await threads.finish()

    assert await upload.end() == {0: "STORED"}
    assert large.tier.arena.read(0, LARGE) == whole
