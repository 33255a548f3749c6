"""Writing to a tier of files: a block is told to be written when it lies whole on the shelf."""

import asyncio

import pytest
from xxhash import xxh3_64_intdigest

from kvtier.server.lasting.health import READ_ONLY
from kvtier.server.tiers.table import PENDING
from kvtier.v1.block_pb2 import BlockRun
from kvtier.v1.removal_pb2 import ClearTierRequest, DeleteBlocksRequest
from kvtier.v1.result_pb2 import CompleteResult
from kvtier.v1.transfer_service_pb2 import MapTierRequest, WriteBlocksRequest
from kvtier.wire.errors import KvtierError, Reason
from tests.contract.support import blocks_of, namespace, payload, payloads, run, words
from tests.waiting import until

from .conftest import MakeNode
from .shelving import at_rest, fs_tier, heal, keep, pieces, shelf_of, target, use_large_blocks
from .support import TIER, LocalNode
from .transferring import Upload, data, part, read, settle, write

MIB = 1 << 20
LARGE = 5 * MIB


@pytest.fixture
def node(make_node: MakeNode) -> LocalNode:
    """A node with one tier, for sixteen small blocks."""
    return make_node(fs_tier())


async def test_an_offer_is_stored_in_one_message(node: LocalNode) -> None:
    """Small blocks go to the shelf, are announced, and come back byte for byte."""
    upload = await keep(node, "a", "b", "c")

    assert upload.results() == {0: "STORED", 1: "STORED", 2: "STORED"}
    assert len(upload.answers) == 1, "a small store has one answer"
    assert node.look_up("a", "b", "c") == ["HIT"] * 3
    assert sum(len(each.stored) for each in node.batches()) == 1
    download = await read(node.transfers, target(node, "a", "b", "c"))
    assert list(download.payloads(64).values()) == payloads("a", "b", "c")
    await at_rest(node)


async def test_a_block_is_neither_told_nor_found_before_it_is_on_the_shelf(
    node: LocalNode,
) -> None:
    """While the shelf stands still the store does; lookups go on."""
    shelf_of(node).gate.clear()
    upload = Upload(
        node.transfers,
        WriteBlocksRequest(offer=node.offer(run("a"))),
        data(0, payload("a")),
    )
    await settle()

    assert node.look_up("a") == ["HIT_PENDING"]
    assert upload.results() == {}
    assert node.batches() == []
    shelf_of(node).gate.set()
    assert await upload.end() == {0: "STORED"}
    assert node.look_up("a") == ["HIT"]


async def test_a_block_of_many_messages_is_gathered(make_node: MakeNode) -> None:
    """Blocks of 5 MiB come whole, by lease and by offer, also where one message has two of them."""
    node = make_node(fs_tier(capacity=4 * (LARGE + 65536)))
    use_large_blocks(node, LARGE)
    whole = payload("a", LARGE) + payload("b", LARGE)
    stream = []
    for start in range(0, len(whole), 2 * MIB):
        place, offset = divmod(start, LARGE)
        ends = (start + 2 * MIB) // LARGE - place
        sums = [xxh3_64_intdigest(payload(b, LARGE)) for b in ("a", "b")[place : place + ends]]
        stream.append(
            WriteBlocksRequest(
                block_index=place,
                offset=offset,
                checksums=sums,
                data=whole[start : start + 2 * MIB],
            )
        )

    offered = await write(
        node.transfers, WriteBlocksRequest(offer=node.offer(run("a", "b"))), *stream
    )
    lease, _ = node.prepare(run("c"))
    leased = await write(
        node.transfers, WriteBlocksRequest(lease=lease.reference()), *pieces(0, "c", LARGE)
    )
    node.complete(lease)

    assert offered.results() == {0: "STORED", 1: "STORED"}
    assert leased.results() == {0: "WRITTEN"}
    download = await read(node.transfers, target(node, "a", "b", "c"))
    assert download.results() == {}
    assert b"".join(a.data for a in download.answers) == whole + payload("c", LARGE)
    assert max(len(answer.data) for answer in download.answers) == 2 * MIB
    await at_rest(node)


async def test_groups_of_different_sizes_share_a_tier(make_node: MakeNode) -> None:
    """Each block takes what it needs, and is read at its size."""
    node = make_node(fs_tier())
    sizes = [64, 5000, 300]
    node.namespace = node.node.register(namespace("mixed", block_bytes=sizes)).fingerprint
    blocks = [payload(group, size) for group, size in enumerate(sizes)]
    runs = [run(group, group=group) for group in range(3)]

    upload = await write(
        node.transfers, WriteBlocksRequest(offer=node.offer(*runs)), data(0, *blocks)
    )

    assert upload.results() == dict.fromkeys(range(3), "STORED")
    assert node.tier.table.used_bytes == 4 * 4096
    request = target(node, 0)
    request.blocks.blocks.extend(blocks_of(group, group=group) for group in (1, 2))
    download = await read(node.transfers, request)
    assert b"".join(answer.data for answer in download.answers) == b"".join(blocks)


async def test_wrong_bytes_are_not_kept_and_may_be_written_again(node: LocalNode) -> None:
    """Under a lease the right bytes may follow; the other blocks are not touched."""
    lease, _ = node.prepare(run("a", "b"))
    first = WriteBlocksRequest(lease=lease.reference())

    spoilt = await write(
        node.transfers,
        first,
        data(0, payload("a"), spoilt=True),
        data(1, payload("b")),
    )
    again = await write(node.transfers, first, data(0, payload("a")))

    assert spoilt.results() == {0: "CORRUPT", 1: "WRITTEN"}
    assert again.results() == {0: "WRITTEN"}
    assert words(CompleteResult, node.complete(lease).results) == ["STORED"] * 2
    await at_rest(node)


async def test_disk_trouble_in_the_middle_of_a_stream_fails_the_rest(node: LocalNode) -> None:
    """What was stored before stays; what comes after is FAILED and given back; nobody is told."""
    upload = Upload(node.transfers, WriteBlocksRequest(offer=node.offer(run("a", "b", "c"))))
    await upload.send(data(0, payload("a")))
    await until(upload.results)
    shelf_of(node).trouble = "no space left on device"

    await upload.send(data(1, payload("b")))
    await until(lambda: 1 in upload.results())
    await upload.send(data(2, payload("c")))

    assert await upload.end() == {0: "STORED", 1: "FAILED", 2: "FAILED"}
    assert node.look_up("a", "b", "c") == ["HIT", "MISS", "MISS"]
    assert node.tier.keeping is not None
    assert node.tier.keeping.store.health.state == READ_ONLY
    heal(node)
    await at_rest(node)


async def test_a_failed_block_stays_reserved_and_is_written_once_the_tier_is_well(
    node: LocalNode,
) -> None:
    """Its lease is as good as before."""
    lease, _ = node.prepare(run("a"))
    first = WriteBlocksRequest(lease=lease.reference())
    shelf_of(node).trouble = "input/output error"
    failed = await write(node.transfers, first, data(0, payload("a")))
    refused = await write(node.transfers, first, data(0, payload("a")))
    heal(node)

    again = await write(node.transfers, first, data(0, payload("a")))

    assert failed.results() == refused.results() == {0: "FAILED"}
    assert again.results() == {0: "WRITTEN"}
    node.complete(lease)
    assert node.look_up("a") == ["HIT"]
    await at_rest(node)


async def test_a_shelf_that_stands_still_holds_a_call_only_so_long(make_node: MakeNode) -> None:
    """At the deadline the block is FAILED; its slot is held until the thread is back."""
    node = make_node(fs_tier(io_timeout=0.1, io_threads=1))
    shelf_of(node).gate.clear()
    try:
        upload = await keep(node, "a", "b")
        assert upload.results() == {0: "FAILED", 1: "FAILED"}
        assert node.gauges()["draining"] == 2
        with pytest.raises(KvtierError) as refused:
            await keep(node, "c")
        assert refused.value.reason == Reason.TIER_READ_ONLY
    finally:
        shelf_of(node).gate.set()

    await until(lambda: not node.tier.occupancy.draining)
    heal(node)
    await at_rest(node)
    assert node.batches() == []


async def test_the_next_message_is_read_while_one_is_saved(node: LocalNode) -> None:
    """One ahead of those that are being saved, and no more, so that memory stays bounded."""
    shelf_of(node).gate.clear()
    blocks = "abcde"
    upload = Upload(node.transfers, WriteBlocksRequest(offer=node.offer(run(*blocks))))
    await settle()
    for place, block in enumerate(blocks):
        await upload.send(data(place, payload(block)))

    assert upload.unread == 3
    shelf_of(node).gate.set()
    assert await upload.end() == dict.fromkeys(range(5), "STORED")
    await at_rest(node)


async def test_nothing_is_read_ahead_without_room_in_the_budget(make_node: MakeNode) -> None:
    """A store goes on message by message when others need the memory."""
    node = make_node(fs_tier(), limits={"transfer_bytes": "10MiB"})
    shelf_of(node).gate.clear()
    upload = Upload(node.transfers, WriteBlocksRequest(offer=node.offer(run("a", "b", "c"))))
    await settle()
    for place, block in enumerate("abc"):
        await upload.send(data(place, payload(block)))

    assert upload.unread == 2
    shelf_of(node).gate.set()
    assert await upload.end() == dict.fromkeys(range(3), "STORED")
    await at_rest(node)


async def test_blocks_that_are_cut_come_one_after_the_other(make_node: MakeNode) -> None:
    """One that begins in the middle of another is refused, and both are given back."""
    node = make_node(fs_tier())
    upload = Upload(node.transfers, WriteBlocksRequest(offer=node.offer(run("a", "b"))))
    await upload.send(part(0, payload("a"), 0, 32), part(1, payload("b"), 0, 32))

    with pytest.raises(KvtierError, match="block 1 begins before block 0 has ended") as error:
        await upload.task

    assert error.value.code.name == "INVALID_ARGUMENT"
    await at_rest(node)


async def test_a_block_that_is_deleted_while_it_is_gathered_makes_way(node: LocalNode) -> None:
    """The rest of it is passed over, and the next one is taken."""
    upload = Upload(node.transfers, WriteBlocksRequest(offer=node.offer(run("a", "b"))))
    await upload.send(part(0, payload("a"), 0, 32))
    await node.tiers.delete_blocks(
        DeleteBlocksRequest(namespace=node.namespace, blocks=node.blocks("a"), force=True)
    )

    await upload.send(part(0, payload("a"), 32, 64))
    await upload.send(part(1, payload("b"), 0, 32), part(1, payload("b"), 32, 64))

    assert await upload.end() == {0: "ABORTED", 1: "STORED"}
    await at_rest(node)


@pytest.mark.parametrize("whole_tier", [False, True], ids=["delete", "clear"])
async def test_a_block_that_is_removed_as_it_comes_to_lie_there_stays_away(
    node: LocalNode, *, whole_tier: bool
) -> None:
    """Whatever turn of the loop that happens in, the store ends well or is told that it ended."""
    told = set()
    for turns in range(12):
        shelf_of(node).gate.clear()
        upload = Upload(
            node.transfers,
            WriteBlocksRequest(offer=node.offer(run("a"))),
            data(0, payload("a")),
        )
        await settle()
        (slot,) = [s for s, state in enumerate(node.tier.table.state) if state == PENDING]
        shelf_of(node).gate.set()
        while node.tier.table.leases[slot] > 1:  # noqa: ASYNC110 - until the thread is back
            await asyncio.sleep(0)
        for _ in range(turns):
            await asyncio.sleep(0)
        if whole_tier:
            await node.tiers.clear_tier(ClearTierRequest(tier=TIER))
        else:
            await node.tiers.delete_blocks(
                DeleteBlocksRequest(namespace=node.namespace, blocks=node.blocks("a"), force=True)
            )
        (ended,) = await asyncio.gather(upload.end(), return_exceptions=True)
        if isinstance(ended, KvtierError) and ended.reason == Reason.LEASE_ENDED:
            ended = {0: "ABORTED"}
        assert ended in ({0: "STORED"}, {0: "ABORTED"})
        told.add(ended[0])
        assert node.look_up("a") == ["MISS"]
        await at_rest(node)
    assert "STORED" in told, "some came to be stored before"


@pytest.mark.parametrize(
    ("trouble", "reason"), [("", Reason.TIER_RECOVERING), ("no space", Reason.TIER_READ_ONLY)]
)
async def test_a_tier_that_cannot_be_written_to_refuses_before_anything_changes(
    node: LocalNode, trouble: str, reason: Reason
) -> None:
    """No room is made for what could not be written, by offers of any kind."""
    await keep(node, *range(16))
    assert node.tier.keeping is not None
    health = node.tier.keeping.store.health
    health.recovering, health.trouble = not trouble, trouble
    head, gauges = node.node.log.head, node.gauges()

    async def offer(*runs: BlockRun) -> None:
        await node.tiers.prepare_store(node.offer(*runs))

    for attempt in (offer(run("new")), keep(node, "new")):
        with pytest.raises(KvtierError) as error:
            await attempt
        assert error.value.reason == reason
        assert TIER in error.value.message
    assert (node.node.log.head, node.gauges()) == (head, gauges)
    assert len(node.node.leases) == 0


async def test_a_tier_of_files_is_not_mapped(node: LocalNode) -> None:
    """Who asks for its memory is told so, and how to go on."""
    with pytest.raises(KvtierError, match="use WriteBlocks and ReadBlocks") as mapped:
        node.transfers.map_tier(MapTierRequest(tier=TIER))
    with pytest.raises(KvtierError, match="not in memory") as located:
        await node.tiers.prepare_store(node.offer(run("a"), locate=True, mapping=7))

    assert mapped.value.reason == located.value.reason == Reason.NOT_MAPPABLE


async def test_a_block_is_stored_again_after_it_was_lost(node: LocalNode) -> None:
    """A vanished file is told, and the next store of the block works."""
    await keep(node, "a")
    shelf_of(node).blocks.clear()
    lost = await read(node.transfers, target(node, "a"))

    again = await keep(node, "a")

    assert lost.results() == {0: "MISS"}
    assert again.results() == {0: "STORED"}
    download = await read(node.transfers, target(node, "a"))
    assert download.payloads(64) == {0: payload("a")}
    await at_rest(node)
