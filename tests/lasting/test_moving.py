"""Blocks move between memory and a shelf in threads, and nobody waits longer than the deadline."""

import asyncio
from collections.abc import Iterator

import numpy as np
import pytest
from xxhash import xxh3_64_intdigest

from kvtier.server.lasting.health import READ_ONLY, READY, Health
from kvtier.server.lasting.lane import Lane
from kvtier.server.lasting.moving import Outcome
from kvtier.server.lasting.record import Record
from kvtier.server.lasting.store import LastingStore
from kvtier.server.stores.base import Bytes
from kvtier.v1.block_pb2 import Medium
from tests.lasting.memory_shelf import MemoryShelf

SIZE = 3000


@pytest.fixture
def shelf() -> Iterator[MemoryShelf]:
    shelf = MemoryShelf()
    yield shelf
    shelf.gate.set()


def store_on(shelf: MemoryShelf, timeout: float = 10.0) -> LastingStore:
    health = Health()
    health.recovered()
    lane = Lane("fs0", 2, timeout)
    return LastingStore(shelf, lane, health, medium=Medium.MEDIUM_FS, capacity_bytes=1 << 20)


def block(number: int) -> Bytes:
    return np.full(SIZE, number, np.uint8)


def record(number: int, of: Bytes) -> Record:
    checksum = xxh3_64_intdigest(of.data)
    return Record(
        b"n" * 32, 0, b"", bytes([number]) * 8, b"", 0, SIZE, checksum, "", b"", 1 + number
    )


async def test_what_was_saved_is_loaded(shelf: MemoryShelf) -> None:
    """Blocks come back byte for byte."""
    store, blocks = store_on(shelf), [block(i) for i in range(5)]
    records = [record(i, each) for i, each in enumerate(blocks)]
    assert await store.save(records, blocks).outcomes() == [Outcome.DONE] * 5
    read = [np.zeros(SIZE, np.uint8) for _ in blocks]

    outcomes = await store.load(records, read).outcomes()

    assert outcomes == [Outcome.DONE] * 5
    assert all(np.array_equal(a, b) for a, b in zip(read, blocks, strict=True))
    store.close()


async def test_a_block_that_is_not_what_it_should_be_is_not_written(shelf: MemoryShelf) -> None:
    """A source that was damaged does not spread."""
    store = store_on(shelf)
    wanted = record(1, block(1))

    outcomes = await store.save([wanted], [block(2)]).outcomes()

    assert outcomes == [Outcome.DIFFERS]
    assert not shelf.blocks
    store.close()


@pytest.mark.parametrize("place", [9, 50, 200, -1])
async def test_any_changed_byte_is_found(shelf: MemoryShelf, place: int) -> None:
    """A flipped byte of the header or of the payload is damage."""
    store, one = store_on(shelf), record(1, block(1))
    await store.save([one], [block(1)]).outcomes()
    changed = bytearray(shelf.blocks[one.name])
    changed[place] ^= 1
    shelf.blocks[one.name] = bytes(changed)

    outcomes = await store.load([one], [np.zeros(SIZE, np.uint8)]).outcomes()

    assert outcomes == [Outcome.DAMAGED]
    store.close()


async def test_trouble_of_the_shelf_is_trouble_of_the_tier(shelf: MemoryShelf) -> None:
    """A failed write makes the tier read-only with the shelf's own words."""
    store = store_on(shelf)
    shelf.trouble = "no space left on device"

    outcomes = await store.save([record(1, block(1))], [block(1)]).outcomes()

    assert outcomes == [Outcome.FAILED]
    assert (store.health.state, store.health.reason) == (READ_ONLY, "no space left on device")
    store.close()


async def test_a_shelf_that_stands_still_is_given_up(shelf: MemoryShelf) -> None:
    """At the deadline waiting ends; what is written after that is deleted again."""
    store, one = store_on(shelf, timeout=0.1), record(1, block(1))
    shelf.gate.clear()
    moving = store.save([one], [block(1)])

    assert await moving.outcomes() == [Outcome.FAILED]
    assert not moving.ended.done()
    assert store.health.state == READ_ONLY
    shelf.gate.set()
    await moving.ended

    assert not shelf.blocks
    store.close()


async def test_room_is_made_before_more_is_written(shelf: MemoryShelf) -> None:
    """What was discarded is gone before the next block is there."""
    store, old, new = store_on(shelf), record(1, block(1)), record(2, block(2))
    await store.save([old], [block(1)]).outcomes()

    store.discard([old.name])
    await store.save([new], [block(2)]).outcomes()

    assert list(shelf.blocks) == [new.name]
    assert store.health.state == READY
    store.close()


async def test_what_cannot_be_deleted_is_deleted_later(shelf: MemoryShelf) -> None:
    """A failed deletion is told, and nothing of it is forgotten."""
    store, old = store_on(shelf), record(1, block(1))
    await store.save([old], [block(1)]).outcomes()
    shelf.trouble = "input/output error"
    store.discard([old.name])
    await asyncio.sleep(0.05)
    assert (store.doomed, store.health.reason) == (1, "input/output error")

    shelf.trouble = ""
    await store.flush()

    assert not shelf.blocks
    assert not store.doomed
    store.close()
