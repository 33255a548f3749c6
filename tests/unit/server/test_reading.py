"""Reading blocks: by lease, or pinned for the time of the call."""

import pytest

from kvtier.v1 import tier_service_pb2 as pb
from kvtier.v1.block_pb2 import Lease
from kvtier.v1.removal_pb2 import DeleteBlocksRequest
from kvtier.v1.transfer_service_pb2 import ReadBlocksRequest, ReadTarget
from kvtier.wire.errors import KvtierError, Reason
from tests.contract.support import block_hash, cpu_tier, namespace, payload, payloads, run

from .conftest import MakeNode
from .support import TIER, LocalNode, at_once
from .transferring import Download, HeldThreads, read, settle

SIZE = 64


def pin(node: LocalNode, *blocks: object) -> Lease:
    """Take a load lease."""
    request = pb.PrepareLoadRequest(
        tier=TIER,
        namespace=node.namespace,
        blocks=node.blocks(*blocks),
        lease_id=node.new_id(),
        owner="engine",
    )
    return pb.PrepareLoadResponse.FromString(at_once(node.tiers.prepare_load(request))).lease


def target(node: LocalNode, *blocks: object) -> ReadBlocksRequest:
    """Ask for blocks without a lease."""
    named = ReadTarget(tier=TIER, namespace=node.namespace, blocks=node.blocks(*blocks))
    return ReadBlocksRequest(blocks=named)


def slot_of(node: LocalNode, block: object) -> int:
    """Return the slot of a readable block."""
    table = node.tier.table
    (slot,) = [s for s, key in enumerate(table.key) if key[8:] == block_hash(block)]
    return slot


def spoil(node: LocalNode, block: object) -> None:
    """Flip one bit of a block in the store."""
    node.stores[0].arena[node.tier.position_of(slot_of(node, block)) + SIZE - 1] ^= 1


async def test_what_is_not_there_is_told_and_the_rest_is_sent(node: LocalNode) -> None:
    """Absent blocks do not keep the others from being read."""
    node.store("a", "b")

    download = await read(node.transfers, target(node, "x", "a", "y", "b"))

    assert download.results() == {0: "MISS", 2: "MISS"}
    assert download.payloads(SIZE) == {1: payload("a"), 3: payload("b")}


@pytest.mark.parametrize("leased", [False, True])
async def test_a_block_named_twice_is_sent_twice(node: LocalNode, leased: bool) -> None:
    """Every place of a duplicate is answered, by lease as without one."""
    node.store("a", "b")
    request = target(node, "a", "b", "a")
    if leased:
        request = ReadBlocksRequest(lease=pin(node, "a", "b", "a"))

    download = await read(node.transfers, request)

    assert download.results() == {}
    assert download.payloads(SIZE) == dict(enumerate(payloads("a", "b", "a")))


@pytest.mark.parametrize("leased", [False, True])
async def test_bytes_that_rotted_are_never_sent(node: LocalNode, leased: bool) -> None:
    """The block is told to be corrupt, leaves the tier with an event, and the others are sent."""
    node.store("a", "b", "c")
    head = node.node.log.head
    lease = pin(node, "a", "b", "c")
    spoil(node, "b")
    request = ReadBlocksRequest(lease=lease) if leased else target(node, "a", "b", "b", "c")

    download = await read(node.transfers, request)

    corrupt = {1: "CORRUPT"} if leased else {1: "CORRUPT", 2: "CORRUPT"}
    assert download.results() == corrupt
    assert list(download.payloads(SIZE).values()) == payloads("a", "c")
    assert node.removals(head) == [("CORRUPT", block_hash("b"))]
    assert node.look_up("a", "b", "c") == ["HIT", "MISS", "HIT"]
    assert node.tier.counters.corrupt == 1
    assert node.gauges() == {"ready": 2, "leased": 2, "draining": 1, "free": 1}


async def test_a_large_block_that_rotted_is_never_sent(make_node: MakeNode) -> None:
    """A block of many messages is checked before the first of them."""
    large = 3 << 20
    node = make_node({**cpu_tier(0), "capacity": 2 * large, "slot_bytes": large})
    node.namespace = node.node.register(namespace("large", block_bytes=[large])).fingerprint
    for block in ("a", "b"):
        lease, _ = node.prepare(run(block))
        (slot,) = lease.slots.values()
        node.write(slot, payload(block, large))
        node.complete(lease)
    node.stores[0].arena[node.tier.position_of(slot_of(node, "a")) + large // 2] ^= 1

    download = await read(node.transfers, target(node, "a", "b"))

    assert download.results() == {0: "CORRUPT"}
    assert b"".join(answer.data for answer in download.answers) == payload("b", large)
    assert max(len(answer.data) for answer in download.answers) == 2 << 20
    assert node.gauges() == {"ready": 1, "free": 1}


async def test_a_deleted_block_is_read_to_the_end_by_those_who_hold_it(node: LocalNode) -> None:
    """A forced delete takes a block from new readers, not from its leases."""
    node.store("a")
    lease = pin(node, "a")
    at_once(
        node.tiers.delete_blocks(
            DeleteBlocksRequest(namespace=node.namespace, blocks=node.blocks("a"), force=True)
        )
    )
    node.store("w", "x", "y")

    download = await read(node.transfers, ReadBlocksRequest(lease=lease))

    assert download.payloads(SIZE) == {0: payload("a")}
    node.tiers.complete_load(pb.CompleteLoadRequest(lease=lease))
    assert node.gauges() == {"ready": 3, "free": 1}


async def test_a_slot_is_not_reused_under_a_slow_reader(node: LocalNode) -> None:
    """A block that is being read stays in its slot until its reader is done, though deleted."""
    node.store("a", "b", "x")
    download = Download(node.transfers, target(node, "x", "absent", "a"), takes=0)
    await settle()

    at_once(
        node.tiers.delete_blocks(
            DeleteBlocksRequest(namespace=node.namespace, blocks=node.blocks("a", "x"), force=True)
        )
    )
    assert node.gauges() == {"ready": 1, "draining": 2, "free": 1}
    node.store("c", "d")
    for _ in range(3):
        download.take()
    await download.task

    assert download.payloads(SIZE) == {0: payload("x"), 2: payload("a")}
    assert node.gauges() == {"ready": 2, "free": 2}


async def test_a_reader_that_leaves_holds_nothing(node: LocalNode) -> None:
    """What a call pinned is free when its caller has gone."""
    node.store("a")
    download = Download(node.transfers, target(node, "a"), takes=0)
    await settle()
    assert node.gauges() == {"ready": 1, "leased": 1, "free": 3}

    download.task.cancel()
    await settle()

    assert node.gauges() == {"ready": 1, "free": 3}
    assert node.node.transfers == 0


@pytest.mark.parametrize("taken", [0, 1])
async def test_a_reader_that_leaves_waits_for_its_thread(make_node: MakeNode, taken: int) -> None:
    """What a thread reads stays pinned, and counted, until it is done, however the call ends."""
    node, threads = make_node(cpu_tier(4)), HeldThreads()
    node.stores[0].inline_bytes = 0
    node.node.threads.shutdown()
    node.node.threads = threads  # type: ignore[assignment]
    node.store("a", "b")
    download = Download(node.transfers, target(node, "a", "b"), takes=0)
    await settle()
    for _ in range(taken):
        await threads.finish()
    before = node.node.read_bytes.used

    for _ in range(2):
        download.task.cancel()
        await settle()

    assert len(threads) == 1
    assert node.gauges() == {"ready": 2, "leased": 2, "free": 2}
    assert node.node.read_bytes.used == before > 0
    await threads.finish()
    assert download.task.cancelled()
    assert node.gauges() == {"ready": 2, "free": 2}
    assert node.node.read_bytes.used == 0


async def test_a_store_that_was_closed_has_nothing_to_read(
    node: LocalNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The blocks are told to be unreadable, and the call ends as it should."""

    def closed(*_: object) -> None:
        raise ValueError("the store is closed")

    node.store("a", "b")
    monkeypatch.setattr(node.stores[0], "read_into", closed)

    download = await read(node.transfers, target(node, "a", "b"))

    assert download.results() == {0: "CORRUPT", 1: "CORRUPT"}
    assert node.gauges() == {"free": 4}


async def test_a_read_ends_with_its_lease(node: LocalNode) -> None:
    """A reader whose lease ended in the middle is told that it cannot rely on what it got."""
    node.store("a", "b")
    download = Download(node.transfers, ReadBlocksRequest(lease=pin(node, "a", "x", "b")), takes=1)
    await settle()

    node.tiers.release_leases(pb.ReleaseLeasesRequest(owner="engine"))
    download.take()

    with pytest.raises(KvtierError, match="ended while") as error:
        await download.task
    assert (error.value.code.name, error.value.reason) == ("ABORTED", Reason.LEASE_ENDED)
    assert node.gauges() == {"ready": 2, "free": 2}


async def test_a_request_without_a_source_is_refused(node: LocalNode) -> None:
    """A read says what is read."""
    with pytest.raises(KvtierError, match="neither a lease nor blocks"):
        await read(node.transfers, ReadBlocksRequest())


async def test_a_store_lease_is_not_read(node: LocalNode) -> None:
    """Only load leases are read."""
    lease, _ = node.prepare(run("a"))

    with pytest.raises(KvtierError) as error:
        await read(node.transfers, ReadBlocksRequest(lease=lease.reference()))

    assert error.value.code.name == "NOT_FOUND"
