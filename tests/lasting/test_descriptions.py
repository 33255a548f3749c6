"""A namespace's description is on the shelf before its first block, and goes after its last."""

import asyncio
from collections.abc import Iterator

import numpy as np
import pytest
from xxhash import xxh3_64_intdigest

from kvtier.server.lasting.health import READ_ONLY, Health
from kvtier.server.lasting.lane import Lane
from kvtier.server.lasting.moving import Outcome
from kvtier.server.lasting.store import LastingStore
from kvtier.server.operations.removing import delete_namespace
from kvtier.v1.block_pb2 import Medium
from kvtier.v1.removal_pb2 import DeleteNamespaceRequest
from tests.contract.support import namespace
from tests.waiting import until

from .lives import chain, lay, record_of, restart, upkeep
from .memory_shelf import MemoryShelf

PRINT, DESCRIPTION = b"f" * 32, b"what blocks are like"
DATA = np.zeros(64, np.uint8)


class OrderedShelf(MemoryShelf):
    """A shelf that notes what is done to it, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []

    def put(self, *args: object) -> None:
        super().put(*args)  # type: ignore[arg-type]
        self.done.append("put")

    def delete(self, *args: object) -> None:
        super().delete(*args)  # type: ignore[arg-type]
        self.done.append("delete")

    def describe(self, *args: object) -> None:
        super().describe(*args)  # type: ignore[arg-type]
        self.done.append("describe")

    def forget(self, *args: object) -> None:
        super().forget(*args)  # type: ignore[arg-type]
        self.done.append("forget")


@pytest.fixture
def shelf() -> OrderedShelf:
    return OrderedShelf()


@pytest.fixture
def store(shelf: OrderedShelf) -> Iterator[LastingStore]:
    health = Health()
    health.recovered()
    store = LastingStore(
        shelf, Lane("fs0", 2, 10.0), health, medium=Medium.MEDIUM_FS, capacity_bytes=1 << 20
    )
    yield store
    store.close()


async def save(store: LastingStore, block: int) -> Outcome:
    record = record_of(block, block, checksum=xxh3_64_intdigest(DATA.data))
    (outcome,) = await store.save([record], [DATA]).outcomes()
    return outcome


async def test_a_description_is_there_before_the_first_block(
    shelf: OrderedShelf, store: LastingStore
) -> None:
    """It is written once, however often it is given."""
    for block in (1, 2):
        store.describe(PRINT, lambda: DESCRIPTION)
        await save(store, block)

    assert shelf.done == ["describe", "put", "put"]
    assert shelf.namespaces == {PRINT.hex(): DESCRIPTION}


async def test_no_block_is_written_while_its_description_cannot_be(
    shelf: OrderedShelf, store: LastingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block without a description could not be found again."""
    shelf.trouble = "no space left on device"
    store.describe(PRINT, lambda: DESCRIPTION)
    assert await save(store, 1) is Outcome.FAILED
    assert store.health.state == READ_ONLY

    shelf.trouble = ""
    assert await save(store, 2) is Outcome.DONE

    assert shelf.done == ["describe", "put"]


async def test_a_description_goes_after_the_blocks(
    shelf: OrderedShelf, store: LastingStore
) -> None:
    """A stop in between leaves nothing that belongs to nobody."""
    store.describe(PRINT, lambda: DESCRIPTION)
    await save(store, 1)
    shelf.gate.clear()

    store.discard(list(shelf.blocks))
    store.forget(PRINT)
    shelf.gate.set()
    await store.flush()

    assert shelf.done == ["describe", "put", "delete", "forget"]
    assert not shelf.namespaces


async def test_a_namespace_that_is_back_is_described_again(
    shelf: OrderedShelf, store: LastingStore
) -> None:
    """What was to be forgotten is, before it is written anew."""
    store.describe(PRINT, lambda: DESCRIPTION)
    await save(store, 1)
    store.forget(PRINT)
    store.describe(PRINT, lambda: DESCRIPTION)
    await save(store, 2)

    assert shelf.done == ["describe", "put", "forget", "describe", "put"]
    assert shelf.namespaces


async def test_a_deleted_namespace_is_off_the_shelf(shelf: OrderedShelf) -> None:
    """Its blocks and its description go, and the next start knows nothing of it."""
    lay(shelf, chain(1, 2))
    other = namespace("other")
    lay(shelf, [record_of(3, 3, described=other)], other)
    node = restart(shelf)
    async with upkeep(node):
        await until(lambda: not node.tier.health.recovering)
        await delete_namespace(node.node, DeleteNamespaceRequest(namespace=node.namespace))
        assert len(shelf.namespaces) == 1

    assert shelf.done == ["delete", "forget"]
    assert len(shelf.blocks) == 1


async def test_the_end_of_an_empty_namespace_is_answered_when_it_is_off_the_shelf(
    shelf: OrderedShelf,
) -> None:
    """It has no blocks to wait for; a start that found its description would know it again."""
    lay(shelf, [])
    node = restart(shelf)
    async with upkeep(node):
        await until(lambda: not node.tier.health.recovering)
        shelf.gate.clear()
        request = DeleteNamespaceRequest(namespace=node.namespace)

        deleting = asyncio.create_task(delete_namespace(node.node, request))
        await asyncio.wait([deleting], timeout=0.1)
        assert not deleting.done()
        shelf.gate.set()
        await deleting

        assert not shelf.namespaces


async def test_namespaces_come_back_largest_first(shelf: OrderedShelf) -> None:
    """Blocks of every namespace that is found fit the slots that the first one fixes."""
    described = [namespace(f"n{size}", block_bytes=[size]) for size in (64, 4096, 512)]
    for each in described:
        lay(shelf, [], each)
    node = restart(shelf)
    async with upkeep(node) as work:
        await work.introduced()
        assert node.tier.slot_bytes == shelf.cost(4096 + 300) == 8192
        assert len(node.node.registry.by_name()) == 3


async def test_a_description_without_blocks_is_forgotten_at_the_next_start(
    shelf: OrderedShelf,
) -> None:
    """What had its blocks evicted is known for one more life, and then its name is free."""
    other = namespace("other")
    lay(shelf, chain(1, 2))
    lay(shelf, [], other)
    node = restart(shelf)
    async with upkeep(node):
        await until(lambda: not node.tier.health.recovering)
        await until(lambda: len(shelf.namespaces) == 1)

        assert [each.description.name for each in node.node.registry.by_name()] == [
            "llama",
            "other",
        ]
    assert list(shelf.namespaces) == [node.namespace.hex()]
