"""Reading from a tier of files: what comes is exact, and one bad block never fails the others."""

import asyncio
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from kvtier.server.lasting.health import READ_ONLY, READY
from kvtier.server.lasting.shelf import DamagedError, ShelfError
from kvtier.server.lasting.store import LastingStore
from kvtier.server.stores.base import Bytes
from kvtier.v1 import tier_service_pb2 as pb
from kvtier.v1.block_pb2 import Lease
from kvtier.v1.removal_pb2 import DeleteBlocksRequest
from kvtier.v1.transfer_service_pb2 import ReadBlocksRequest
from tests.contract.support import block_hash, payload, payloads, run
from tests.lasting.memory_shelf import MemoryShelf
from tests.waiting import until

from .conftest import MakeNode
from .shelving import at_rest, fs_tier, heal, keep, pieces, shelf_of, target, use_large_blocks
from .support import TIER, LocalNode, at_once
from .transferring import Download, read, settle, write

SIZE = 64
MIB = 1 << 20
LARGE = 5 * MIB


@pytest.fixture
def node(make_node: MakeNode) -> LocalNode:
    """A node with one tier, for sixteen small blocks."""
    return make_node(fs_tier())


def store_of(node: LocalNode) -> LastingStore:
    """Return the first tier's store."""
    assert node.tier.keeping is not None
    return node.tier.keeping.store


def name_of(node: LocalNode, block: object) -> str:
    """Return what a block is called on the shelf."""
    names = shelf_of(node).blocks
    (name,) = [name for name, whole in names.items() if whole.endswith(payload(block))]
    return name


def break_reads(monkeypatch: pytest.MonkeyPatch, bad: Callable[[str], Exception | None]) -> None:
    """Let reads of some names fail."""
    get = MemoryShelf.get

    def broken(self: MemoryShelf, name: str, parts: list[Bytes]) -> None:
        error = bad(name)
        if error is not None:
            raise error
        get(self, name, parts)

    monkeypatch.setattr(MemoryShelf, "get", broken)


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


@pytest.mark.parametrize("leased", [False, True])
@pytest.mark.parametrize(
    ("harm", "told", "reason"),
    [
        (lambda whole: None, "MISS", "LOST"),
        (lambda whole: whole[:-1], "CORRUPT", "CORRUPT"),
        (lambda whole: whole + b"x", "CORRUPT", "CORRUPT"),
        (lambda whole: whole[:-5] + bytes([whole[-5] ^ 4]) + whole[-4:], "CORRUPT", "CORRUPT"),
        (lambda whole: bytes([whole[0] ^ 1]) + whole[1:], "CORRUPT", "CORRUPT"),
    ],
    ids=["deleted", "truncated", "appended", "flipped in the bytes", "flipped in the header"],
)
async def test_a_block_that_was_harmed_is_dropped_and_the_rest_is_sent(
    node: LocalNode, harm: Callable[[bytes], bytes | None], told: str, reason: str, *, leased: bool
) -> None:
    """Its removal is announced with the reason, and the next store of it works."""
    await keep(node, "a", "b", "c")
    name = name_of(node, "b")
    lease, head = pin(node, "a", "b", "c"), node.node.log.head
    harmed = harm(shelf_of(node).blocks.pop(name))
    if harmed is not None:
        shelf_of(node).blocks[name] = harmed
    request = ReadBlocksRequest(lease=lease) if leased else target(node, "a", "b", "b", "c")

    download = await read(node.transfers, request)

    places = [1] if leased else [1, 2]
    assert download.results() == dict.fromkeys(places, told)
    assert list(download.payloads(SIZE).values()) == payloads("a", "c")
    assert node.removals(head) == [(reason, block_hash("b"))]
    assert node.look_up("a", "b", "c") == ["HIT", "MISS", "HIT"]
    assert store_of(node).health.state == READY
    node.tiers.complete_load(pb.CompleteLoadRequest(lease=lease))
    assert (await keep(node, "b")).results() == {0: "STORED"}
    await at_rest(node)


async def test_blocks_in_each_others_place_are_damage(node: LocalNode) -> None:
    """A file says which block it is: another one, whole as it may be, is never sent for it."""
    await keep(node, "a", "b")
    blocks, (a, b) = shelf_of(node).blocks, (name_of(node, "a"), name_of(node, "b"))
    blocks[a], blocks[b] = blocks[b], blocks[a]

    download = await read(node.transfers, target(node, "a", "b"))

    assert download.results() == {0: "CORRUPT", 1: "CORRUPT"}
    assert node.gauges()["free"] == 16
    await at_rest(node)


async def test_a_shelf_that_fails_costs_no_block(node: LocalNode) -> None:
    """Each block is told to have FAILED, stays, and is read when the tier is well again."""
    await keep(node, "a", "b")
    shelf_of(node).trouble = "input/output error"

    failed = await read(node.transfers, target(node, "a", "x", "b"))
    assert store_of(node).health.state == READ_ONLY
    heal(node)
    after = await read(node.transfers, target(node, "a", "b"))

    assert failed.results() == {0: "FAILED", 1: "MISS", 2: "FAILED"}
    assert after.payloads(SIZE) == dict(enumerate(payloads("a", "b")))
    await at_rest(node)


async def test_a_block_that_alone_cannot_be_read_is_given_up_at_the_second_time(
    node: LocalNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the tier was well in between, the fault is the block's: else it would never end."""
    await keep(node, "a", "b")
    bad, head = name_of(node, "a"), node.node.log.head
    break_reads(monkeypatch, lambda name: ShelfError("bad sector") if name == bad else None)

    told = []
    for healed in (False, False, True):
        if healed:
            heal(node)
        told.append((await read(node.transfers, target(node, "a", "b"))).results())

    assert told == [{0: "FAILED"}, {0: "FAILED"}, {0: "CORRUPT"}]
    assert node.removals(head) == [("CORRUPT", block_hash("a"))]
    assert node.look_up("a", "b") == ["MISS", "HIT"]
    heal(node)
    await at_rest(node)


async def test_two_troubles_of_the_tier_cost_no_block_that_was_read_in_between(
    node: LocalNode,
) -> None:
    """Only a block that fails again and again without being read is given up."""
    await keep(node, "a")
    for _ in range(3):
        shelf_of(node).trouble = "input/output error"
        failed = await read(node.transfers, target(node, "a"))
        heal(node)
        whole = await read(node.transfers, target(node, "a"))

        assert failed.results() == {0: "FAILED"}
        assert whole.payloads(SIZE) == {0: payload("a")}


async def test_no_number_of_outages_costs_a_block_that_was_asked_for_in_them(
    node: LocalNode,
) -> None:
    """What cannot be read while the tier is in trouble says nothing of the block."""
    await keep(node, "a", "b")
    for _ in range(3):
        shelf_of(node).trouble = "no answer"
        await read(node.transfers, target(node, "b"))
        failed = await read(node.transfers, target(node, "a"))
        heal(node)
        await read(node.transfers, target(node, "b"))

        assert failed.results() == {0: "FAILED"}

    whole = await read(node.transfers, target(node, "a"))
    assert whole.payloads(SIZE) == {0: payload("a")}


async def test_a_file_that_is_none_is_damage(
    node: LocalNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a directory of that name."""
    await keep(node, "a", "b")
    bad = name_of(node, "a")
    break_reads(monkeypatch, lambda name: DamagedError() if name == bad else None)

    download = await read(node.transfers, target(node, "a", "b"))

    assert download.results() == {0: "CORRUPT"}
    assert download.payloads(SIZE) == {1: payload("b")}


async def test_a_shelf_that_stands_still_holds_a_reader_only_so_long(make_node: MakeNode) -> None:
    """At the deadline its blocks are FAILED, and nothing is held, though the thread is stuck."""
    node = make_node(fs_tier(io_timeout=0.1))
    await keep(node, "a", "b")
    shelf_of(node).gate.clear()
    try:
        download = await read(node.transfers, target(node, "a", "b"))

        assert download.results() == {0: "FAILED", 1: "FAILED"}
        assert node.gauges() == {"ready": 2, "free": 14}
        assert node.node.read_bytes.used == 0
        assert store_of(node).health.reason == "it does not answer"
    finally:
        shelf_of(node).gate.set()


async def large_node(make_node: MakeNode, *blocks: object, **settings: object) -> LocalNode:
    """A node that has blocks of 5 MiB."""
    node = make_node(fs_tier(capacity=6 * (LARGE + 65536)), **settings)
    use_large_blocks(node, LARGE)
    for block in blocks:
        lease, _ = node.prepare(run(block))
        first = pieces(0, block, LARGE)
        first[0].lease.CopyFrom(lease.reference())
        await write(node.transfers, *first)
        node.complete(lease)
    return node


async def test_the_next_portion_is_read_while_one_is_sent(make_node: MakeNode) -> None:
    """One ahead, within the budget, and everything is given back at the end."""
    node = await large_node(make_node, "a", "b", "c")
    download = Download(node.transfers, target(node, "a", "b", "c"), takes=0)
    began = node.node.read_bytes.used
    await until(lambda: node.node.read_bytes.used > 3 * LARGE)

    assert began < 2 * LARGE
    await asyncio.sleep(0.05)
    for _ in range(20):
        download.take()
    await download.task
    whole = b"".join(payload(block, LARGE) for block in "abc")
    assert b"".join(answer.data for answer in download.answers) == whole
    assert max(len(answer.data) for answer in download.answers) == 2 * MIB
    await at_rest(node)


async def test_without_room_for_more_portions_are_read_one_by_one(make_node: MakeNode) -> None:
    """A read that has what it needs waits for nobody."""
    node = await large_node(make_node, "a", "b", "c", limits={"transfer_bytes": "19MiB"})

    download = await read(node.transfers, target(node, "a", "x", "b", "c"))

    assert download.results() == {1: "MISS"}
    whole = b"".join(payload(block, LARGE) for block in "abc")
    assert b"".join(answer.data for answer in download.answers) == whole
    await at_rest(node)


async def test_a_reader_that_leaves_in_the_middle_leaves_nothing(make_node: MakeNode) -> None:
    """Neither a pin nor a byte of the budget."""
    node = await large_node(make_node, "a", "b", "c")
    download = Download(node.transfers, target(node, "a", "b", "c"), takes=1)
    await until(lambda: download.answers)

    download.task.cancel()
    await asyncio.wait([download.task])

    assert node.gauges() == {"ready": 3, "free": node.gauges()["free"]}
    await at_rest(node)


async def test_a_reader_that_leaves_a_stuck_shelf_is_gone_at_once(make_node: MakeNode) -> None:
    """It need not wait for the thread; what had not begun never will."""
    node = make_node(fs_tier(io_threads=1))
    await keep(node, "a", "b")
    shelf_of(node).gate.clear()
    try:
        downloads = [Download(node.transfers, target(node, "a", "b")) for _ in range(3)]
        await settle()
        for download in downloads:
            download.task.cancel()
        await asyncio.wait([download.task for download in downloads])

        assert node.gauges() == {"ready": 2, "free": 14}
        assert node.node.read_bytes.used == 0
    finally:
        shelf_of(node).gate.set()


async def test_readers_of_a_block_that_is_being_written_see_all_of_it_or_nothing(
    make_node: MakeNode,
) -> None:
    """Eight that ask again and again: a miss, or every byte."""
    node = await large_node(make_node)
    answers: list[bytes] = []
    stored = asyncio.Event()

    async def hammer() -> None:
        last = False
        while not last:
            last = stored.is_set()
            download = await read(node.transfers, target(node, "a"))
            answers.append(b"".join(answer.data for answer in download.answers))
            await asyncio.sleep(0)

    readers = [asyncio.create_task(hammer()) for _ in range(8)]
    await settle()
    messages = pieces(0, "a", LARGE)
    messages[0].offer.CopyFrom(node.offer(run("a")))
    upload = await write(node.transfers, *messages)
    stored.set()
    await asyncio.gather(*readers)

    assert upload.results() == {0: "STORED"}
    assert set(answers) == {b"", payload("a", LARGE)}
    await at_rest(node)


async def test_evictions_and_loads_at_one_time(node: LocalNode) -> None:
    """A block that is loaded is not evicted from under its reader; all that comes is exact."""
    wrong: list[object] = []
    done = asyncio.Event()

    async def load() -> None:
        while not done.is_set():
            for block in range(40):
                download = await read(node.transfers, target(node, block))
                bad = set(download.results().values()) - {"MISS"}
                exact = list(download.payloads(SIZE).values()) in ([], [payload(block)])
                if bad or not exact:
                    wrong.append((block, bad))

    readers = [asyncio.create_task(load()) for _ in range(3)]
    for block in range(40):
        await keep(node, block)
    done.set()
    await asyncio.gather(*readers)

    assert wrong == []
    assert node.tier.counters.lost == 0
    await at_rest(node)


async def test_only_what_was_lost_is_told_in_the_log(node: LocalNode) -> None:
    """A block that was deleted from under its lease was not: nobody need look at the disk."""
    await keep(node, "a", "b")
    lease = pin(node, "a", "b")
    await node.tiers.delete_blocks(
        DeleteBlocksRequest(namespace=node.namespace, blocks=node.blocks("a"), force=True)
    )

    with capture_logs() as deleted:
        await read(node.transfers, ReadBlocksRequest(lease=lease))
    del shelf_of(node).blocks[name_of(node, "b")]
    with capture_logs() as lost:
        await read(node.transfers, ReadBlocksRequest(lease=lease))

    assert deleted == []
    assert [(entry["lost"], entry["damaged"]) for entry in lost] == [(1, 0)]
