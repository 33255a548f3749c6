"""The background check finds damage before a load does, and is in nobody's way."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence

import numpy as np
import pytest
from xxhash import xxh3_64_intdigest

from kvtier.server.scrub import scrub
from kvtier.server.stores.base import Bytes
from kvtier.v1.block_pb2 import RemovalReason
from tests.contract.support import block_hash, namespace, payload, run
from tests.lasting.memory_shelf import MemoryShelf
from tests.unit.server.support import LocalNode

KIB = 1 << 10
FILES: dict[str, object] = {
    "name": "cpu0",
    "medium": "fs",
    "directory": "/nowhere",
    "capacity": "8MiB",
}
LOST, CORRUPT = "LOST", "CORRUPT"


class EnoughError(Exception):
    """A test has seen enough."""


class Time:
    """Time that passes only by sleeping, and ends after so many sleeps.

    Attributes:
        slept: The seconds of each sleep.
        then: Called after each sleep with how many there were.
    """

    def __init__(self, sleeps: int) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self.then: Callable[[int], object] = lambda _: None
        self._sleeps = sleeps

    async def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 6))
        self.now += seconds
        self.then(len(self.slept))
        if len(self.slept) == self._sleeps:
            raise EnoughError

    def clock(self) -> float:
        return self.now


@pytest.fixture
def node() -> Iterator[LocalNode]:
    """A node whose only tier is of files."""
    node = LocalNode(FILES)
    yield node
    shelf_of(node).gate.set()
    node.close()


def shelf_of(node: LocalNode) -> MemoryShelf:
    return node.shelves["cpu0"]


async def keep(node: LocalNode, *blocks: object, size: int = 64) -> list[int]:
    """Store blocks as one chain; return their slots."""
    lease, _ = node.prepare(run(*blocks))
    slots = [lease.slots[place] for place in range(len(blocks))]
    arrays: list[Bytes] = [np.frombuffer(payload(block, size), np.uint8) for block in blocks]
    checksums = [xxh3_64_intdigest(array.data) for array in arrays]
    assert node.tier.keeping is not None
    await node.tier.keeping.save(slots, checksums, arrays).outcomes()
    node.tier.mark_written(slots, checksums)
    node.complete(lease)
    return slots


async def check(node: LocalNode, sleeps: int, rate: int = 64 * KIB) -> Time:
    """Check the tier until it has slept so often."""
    time = Time(sleeps)
    await check_in(time, node, rate)
    return time


async def check_in(time: Time, node: LocalNode, rate: int = 64 * KIB) -> None:
    with pytest.raises(EnoughError):
        await scrub(node.tier, rate, sleep=time.sleep, clock=time.clock)


def spoil(node: LocalNode, number: int, change: Callable[[bytes], bytes | None]) -> None:
    """Change the bytes of the block that was written as the n-th, or take it away."""
    blocks = shelf_of(node).blocks
    name = sorted(blocks, key=lambda name: name[-16:])[number]
    changed = change(blocks.pop(name))
    if changed is not None:
        blocks[name] = changed


async def test_sound_blocks_are_read_round_and_round(node: LocalNode) -> None:
    """They stay, nobody is told anything, and each reading counts."""
    await keep(node, "a", "b", "c")
    head = node.node.log.head

    await check(node, 40)

    assert node.tier.counters.scrubbed > 3
    assert node.look_up("a", "b", "c") == ["HIT"] * 3
    assert (node.node.log.head, node.gauges()["ready"]) == (head, 3)


@pytest.mark.parametrize(
    ("change", "reason", "read"),
    [
        (lambda _: None, LOST, 2),
        (lambda whole: whole[:-1] + bytes([whole[-1] ^ 1]), CORRUPT, 3),
        (lambda whole: b"?" + whole[1:], CORRUPT, 3),
        (lambda whole: whole[:-1], CORRUPT, 3),
        (lambda _: b"", CORRUPT, 3),
    ],
    ids=["gone", "payload", "header", "short", "empty"],
)
async def test_what_is_damaged_or_gone_is_dropped(
    node: LocalNode, change: Callable[[bytes], bytes | None], reason: str, read: int
) -> None:
    """Followers are told why, its neighbours stay, and the tier is in no trouble."""
    await keep(node, "a", "b", "c")
    spoil(node, 1, change)

    await check(node, 3)

    assert node.removals() == [(reason, block_hash("b"))]
    assert node.look_up("a", "b", "c") == ["HIT", "MISS", "HIT"]
    counters = node.tier.counters
    assert (counters.lost, counters.corrupt) == (int(reason == LOST), int(reason == CORRUPT))
    assert counters.scrubbed == read
    assert node.tier.accepts


async def test_the_rate_holds_for_small_blocks_and_large_ones(node: LocalNode) -> None:
    """A small block counts for 64 KiB, a larger one for what it has."""
    node.namespace = node.node.register(namespace("large", block_bytes=[256 * KIB])).fingerprint
    await keep(node, "large", size=256 * KIB)
    node.namespace = node.node.register(namespace()).fingerprint
    await keep(node, "small")

    time = await check(node, 2, rate=128 * KIB)

    assert time.slept == [2.0, 0.5]


async def test_the_time_that_reading_takes_counts(node: LocalNode) -> None:
    """A slow disk is given no longer pauses than the rate asks for; a slower one, none."""
    await keep(node, "a", "b")
    time, shelf = Time(2), shelf_of(node)
    read, lasts = shelf.get, iter([0.25, 3.0])

    def slowly(name: str, parts: Sequence[Bytes]) -> None:
        read(name, parts)
        time.now += next(lasts)

    shelf.get = slowly  # type: ignore[method-assign]
    await check_in(time, node)

    assert time.slept == [0.75, 0.0]


async def test_blocks_in_use_are_passed_over(node: LocalNode) -> None:
    """Who has a lease on a block checks it by himself."""
    slots = await keep(node, "a", "b", "c")
    node.tier.occupancy.hold(slots[:2])
    spoil(node, 0, lambda _: None)

    await check(node, 2)

    assert node.tier.counters.scrubbed == 1
    assert node.look_up("a") == ["HIT"]


@pytest.mark.parametrize("recovering", [True, False])
async def test_a_tier_that_is_not_ready_is_left_alone(node: LocalNode, recovering: bool) -> None:
    """While it recovers, or is in trouble, nothing is read; then the check goes on."""
    await keep(node, "a")
    assert node.tier.keeping is not None
    health, time = node.tier.keeping.store.health, Time(101)
    read = []
    if recovering:
        health.recovering = True
    else:
        health.fault("no space left on device")

    def mend(sleeps: int) -> None:
        read.append(node.tier.counters.scrubbed)
        if sleeps == 100:
            health.recovered()
            health.heal()

    time.then = mend
    await check_in(time, node)

    assert read == [0] * 100 + [1]


async def test_a_tier_at_work_is_left_alone_for_a_while_and_not_for_ever(node: LocalNode) -> None:
    """Blocks that are written all the time cannot keep the check away."""
    await keep(node, "a")
    node.prepare(run("b"))
    time, read = Time(11), []
    time.then = lambda _: read.append(node.tier.counters.scrubbed)

    await check_in(time, node)

    assert read == [0] * 10 + [1]


async def test_a_shelf_that_fails_costs_no_block(node: LocalNode) -> None:
    """The tier is in trouble from then on, and the block may be read another day."""
    await keep(node, "a")
    shelf_of(node).trouble = "input/output error"

    await check(node, 3)

    assert node.look_up("a") == ["HIT"]
    assert (node.removals(), node.tier.counters.scrubbed) == ([], 0)
    assert not node.tier.accepts


async def test_many_free_slots_are_passed_in_small_steps(node: LocalNode) -> None:
    """A block behind thousands of free slots is found after a few pauses."""
    slots = node.tier.occupancy.take(5000)
    await keep(node, "a")
    node.tier.table.give_back(slots)

    time = await check(node, 6)

    assert time.slept == [0.5, 0.5, 0.5, 0.5, 1.0, 0.5]
    assert node.tier.counters.scrubbed == 1


async def test_an_empty_tier_is_looked_at_now_and_then(node: LocalNode) -> None:
    """It makes no work."""
    assert (await check(node, 3)).slept == [0.5] * 3


async def test_a_rate_of_0_is_no_check_at_all(node: LocalNode) -> None:
    """It ends at once, and nothing is read."""
    await keep(node, "a")

    await scrub(node.tier, 0)

    assert node.tier.counters.scrubbed == 0


async def reading(node: LocalNode, during: Callable[[], Awaitable[object]]) -> None:
    """Do something while a block is being read, and end the check."""
    shelf_of(node).gate.clear()
    task = asyncio.create_task(scrub(node.tier, 64 * KIB))
    while not node.tier.occupancy.copying:  # noqa: ASYNC110 - a thread has it
        await asyncio.sleep(0.001)
    await during()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_check_that_is_ended_holds_nothing(node: LocalNode) -> None:
    """A stop of the node leaves no block held."""
    await keep(node, "a")

    await reading(node, lambda: asyncio.sleep(0))

    assert node.gauges().get("leased", 0) == 0
    assert not node.tier.occupancy.copying


async def test_a_block_that_is_deleted_while_it_is_read_is_deleted_once(node: LocalNode) -> None:
    """Its file stays until the reading ends, so that it is not taken for lost."""
    slots = await keep(node, "a")

    async def delete() -> None:
        node.tier.remove(slots, RemovalReason.REMOVAL_REASON_DELETED)
        assert len(shelf_of(node).blocks) == 1
        shelf_of(node).gate.set()
        while shelf_of(node).blocks:  # noqa: ASYNC110 - a thread deletes it
            await asyncio.sleep(0.001)

    await asyncio.wait_for(reading(node, delete), 10)

    assert node.removals() == [("DELETED", block_hash("a"))]
    assert node.tier.counters.lost == 0
    assert node.gauges().keys() == {"free"}
