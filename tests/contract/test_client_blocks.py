"""Blocks of a tier by the fastest way that there is: the same results by either."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from kvtier.client import (
    AbortedError,
    BlockingNodeClient,
    Blocks,
    DataPath,
    ExhaustedError,
    InvalidArgumentError,
    KvtierError,
    StoreReport,
)
from kvtier.client.leases import LeaseCalls
from kvtier.v1.result_pb2 import ReadResult, StoreOutcome, WriteResult
from tests.waiting import until

from .conftest import Serve
from .support import (
    BLOCK_BYTES,
    Serving,
    blocks_of,
    cpu_tier,
    gpu_tier,
    namespace,
    payload,
    payloads,
    run,
    words,
)

LARGE = 600_001


@pytest.fixture
async def node(serve: Serve) -> Serving:
    return await serve(cpu_tier(16))


@pytest.fixture(params=DataPath, ids=lambda path: path.name)
async def blocks(node: Serving, request: pytest.FixtureRequest) -> AsyncIterator[Blocks]:
    """The node's tier by each way."""
    shared = request.param is DataPath.SHARED_MEMORY
    async with node.client.blocks("cpu0", shared_memory=shared) as blocks:
        yield blocks


async def path_of(node: Serving, blocks: Blocks) -> DataPath:
    return (await blocks.load(node.namespace, [blocks_of("absent")])).path


async def test_what_is_stored_is_loaded(node: Serving, blocks: Blocks) -> None:
    """Each block is told what became of it, and both reports name the way."""
    await node.store("there")
    offer = [run("there", "a"), run("b", "b")]

    stored = await blocks.store(node.namespace, offer, payloads("there", "a", "b", "b"))
    loaded = await blocks.load(node.namespace, [blocks_of("a", "absent", "there", "b", "a")])

    assert words(StoreOutcome, stored.outcomes) == ["PRESENT", "WRITE", "WRITE", "WRITE"]
    assert words(WriteResult, stored.results) == ["UNSPECIFIED", "STORED", "STORED", "STORED"]
    assert words(ReadResult, loaded.results) == [
        *("UNSPECIFIED", "MISS", "UNSPECIFIED", "UNSPECIFIED", "UNSPECIFIED")
    ]
    expected = [payload("a"), None, *payloads("there", "b", "a")]
    assert [p if p is None else bytes(p) for p in loaded.payloads] == expected
    assert stored.path is loaded.path


async def test_same_host_means_shared_memory(node: Serving) -> None:
    """Unless the caller wants none."""
    async with node.client.blocks("cpu0") as mapped:
        assert await path_of(node, mapped) is DataPath.SHARED_MEMORY
    async with node.client.blocks("cpu0", shared_memory=False) as streamed:
        assert await path_of(node, streamed) is DataPath.STREAM


async def test_what_cannot_be_mapped_is_streamed(serve: Serve, tmp_path: Path) -> None:
    """A tier of another kind, and one whose file is not in sight."""
    node = await serve(cpu_tier(4), gpu_tier(4))

    async with AsyncExitStack() as stack:
        gpu = await stack.enter_async_context(node.client.blocks("gpu0"))
        far = await stack.enter_async_context(node.client.blocks("cpu0", shm_dir=tmp_path))
        for blocks in (gpu, far):
            stored = await blocks.store(node.namespace, [run("a")], payloads("a"))
            loaded = await blocks.load(node.namespace, [blocks_of("a")])

            assert (stored.path, loaded.path) == (DataPath.STREAM, DataPath.STREAM)
            assert [bytes(p or b"") for p in loaded.payloads] == payloads("a")


async def test_large_blocks_are_copied_in_threads(serve: Serve) -> None:
    """With a size that fits no page, into buffers of the caller."""
    node = await serve({"name": "cpu0", "medium": "cpu", "capacity": 8 * LARGE}, register=False)
    fingerprint = await node.client.register_namespace(namespace(block_bytes=[LARGE]))
    content = [os.urandom(LARGE) for _ in range(5)]
    into = [bytearray(LARGE) for _ in range(5)]
    async with node.client.blocks("cpu0") as blocks:
        stored = await blocks.store(fingerprint, [run(*range(5))], content)
        loaded = await blocks.load(fingerprint, [blocks_of(*range(5))], into)

        assert set(words(WriteResult, stored.results)) == {"STORED"}
        assert loaded.path is DataPath.SHARED_MEMORY
        assert into == content
        assert [view is not None and view.obj for view in loaded.payloads] == into


async def test_views_are_good_inside_the_context(node: Serving, blocks: Blocks) -> None:
    """The blocks are pinned meanwhile; afterwards a view says that it is over."""
    await node.store("a", "b")

    async with blocks.read(node.namespace, [blocks_of("a", "absent", "b")]) as found:
        pinned = await node.gauges()
        read = [view if view is None else bytes(view) for view in found.payloads]

    assert pinned == {"ready": 2, "leased": 2}
    assert read == [payload("a"), None, payload("b")]
    assert await node.gauges() == {"ready": 2}
    view = found.payloads[0]
    assert view is not None
    with pytest.raises(ValueError, match="released"):
        view[0]


async def test_a_view_cannot_be_written(node: Serving, blocks: Blocks) -> None:
    """It may be the tier's own memory."""
    await node.store("a")

    async with blocks.read(node.namespace, [blocks_of("a")]) as found:
        view = found.payloads[0]
        assert view is not None
        assert view.readonly


async def test_a_reader_whose_lease_ended_is_told(node: Serving, blocks: Blocks) -> None:
    """What it read may have changed."""
    await node.store("a")

    with pytest.raises(AbortedError):
        async with blocks.read(node.namespace, [blocks_of("a")]):
            await node.client.release_leases(owner=node.client.owner)


async def test_a_readers_own_error_comes_first(node: Serving, blocks: Blocks) -> None:
    """And its lease is released."""
    await node.store("a")

    with pytest.raises(ZeroDivisionError):
        async with blocks.read(node.namespace, [blocks_of("a")]):
            raise ZeroDivisionError
    assert await node.gauges() == {"ready": 1}


async def test_a_lease_is_renewed_while_a_reader_reads(node: Serving, blocks: Blocks) -> None:
    """Beyond its time to live, which is short here."""
    await node.store("a")

    async with blocks.read(node.namespace, [blocks_of("a")], ttl=0.3) as found:
        (lease,) = node.node.leases
        for _ in range(4):
            await until(lambda: node.node.leases.seconds_left(lease) > 0.29)
            node.clock.advance(0.2)
        assert [bytes(view or b"") for view in found.payloads] == payloads("a")


async def test_a_copy_whose_lease_ended_is_not_given_out(
    node: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease ends while bytes are copied out: the load fails as a whole."""
    await node.store("a")
    async with node.client.blocks("cpu0") as blocks:
        await path_of(node, blocks)
        monkeypatch.setattr("kvtier.client.mapped.tier.copy_all", ending(node))

        with pytest.raises(AbortedError):
            await blocks.load(node.namespace, [blocks_of("a")])


async def test_a_store_whose_lease_ended_is_aborted_and_leaves_nothing(
    node: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is readable, and the slots are free at once: the writer has said that it is over."""
    async with node.client.blocks("cpu0") as blocks:
        await path_of(node, blocks)
        with monkeypatch.context() as patch:
            patch.setattr("kvtier.client.mapped.tier.copy_all", ending(node))
            with pytest.raises(AbortedError):
                await blocks.store(node.namespace, [run("a")], payloads("a"))

        assert await node.look_up("a") == ["MISS"]
        assert await node.gauges() == {}
        await blocks.store(node.namespace, [run("a")], payloads("a"))
        assert await node.load("a") == payloads("a")


def ending(node: Serving) -> Any:
    """Copy, and let every lease expire while it is done."""
    from kvtier.client.mapped.copies import copy_all  # noqa: PLC0415 - before it is replaced

    def copy(jobs: Any) -> list[int]:
        node.clock.advance(31)
        return copy_all(jobs)

    return copy


async def test_a_copy_that_fails_gives_its_slots_back(
    node: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease is released, not left to its time."""

    def fail(_: Any) -> list[int]:
        raise MemoryError

    monkeypatch.setattr("kvtier.client.mapped.tier.copy_all", fail)
    async with node.client.blocks("cpu0") as blocks:
        with pytest.raises(MemoryError):
            await blocks.store(node.namespace, [run("a")], payloads("a"))

    assert await node.gauges() == {}


async def test_a_spoiled_block_is_told_corrupt_and_dropped(node: Serving, blocks: Blocks) -> None:
    """By the node, which tells its followers; the others of the batch are good."""
    await node.store("a", "b")
    tier = node.node.tiers[0]
    slot = tier.table.index.get(next(key for key in tier.table.key if key))
    assert slot is not None
    tier.arena.write(tier.position_of(slot), b"spoiled")

    async with blocks.read(node.namespace, [blocks_of("a", "b")]) as found:
        read = [view if view is None else bytes(view) for view in found.payloads]
    again = await blocks.load(node.namespace, [blocks_of("a", "b")])

    assert words(ReadResult, found.results) == ["CORRUPT", "UNSPECIFIED"]
    assert read == [None, payload("b")]
    assert words(ReadResult, again.results) == ["MISS", "UNSPECIFIED"]
    assert (await node.tier()).counters.corrupt == 1


async def test_many_batches_are_stored_and_loaded_in_order(node: Serving, blocks: Blocks) -> None:
    """Several at one time; one that fails does not touch the others."""
    names = [(i, i + 100) for i in range(6)]
    batches: Any = [([run(*two)], payloads(*two)) for two in names]
    batches[3] = ([run(*names[3])], [b"short", b"short"])

    stored = await blocks.store_many(node.namespace, batches)
    loaded = await blocks.load_many(node.namespace, [[blocks_of(*two)] for two in names])

    kinds = [isinstance(each, StoreReport) for each in stored]
    assert kinds == [True, True, True, False, True, True]
    assert isinstance(stored[3], InvalidArgumentError)
    for i, (two, each) in enumerate(zip(names, loaded, strict=True)):
        assert not isinstance(each, KvtierError)
        expected = [None, None] if i == 3 else payloads(*two)
        assert [p if p is None else bytes(p) for p in each.payloads] == expected
    assert await node.gauges() == {"ready": 10}


async def test_an_offer_without_room_is_refused(node: Serving, blocks: Blocks) -> None:
    """With the node's own reason."""
    with pytest.raises(ExhaustedError):
        await blocks.store(node.namespace, [run(*range(17))], payloads(*range(17)))


async def test_wrong_payloads_are_refused_before_anything_is_asked(
    node: Serving, blocks: Blocks
) -> None:
    """By their name, and the number of blocks."""
    with pytest.raises(InvalidArgumentError, match=r"payloads\[1\] has 3 bytes"):
        await blocks.store(node.namespace, [run("a", "b")], [payload("a"), b"bbb"])
    with pytest.raises(InvalidArgumentError, match=r"into\[0\] is read-only"):
        await blocks.load(node.namespace, [blocks_of("a")], [bytes(BLOCK_BYTES)])
    with pytest.raises(InvalidArgumentError, match="threads must be 1 or more"):
        node.client.blocks("cpu0", threads=0)

    assert await node.gauges() == {}


async def test_after_closing_a_call_says_so(node: Serving, blocks: Blocks) -> None:
    """Closing twice is harmless, and the client lives on."""
    await path_of(node, blocks)
    await blocks.close()
    await blocks.close()

    with pytest.raises(KvtierError, match="the blocks of tier cpu0 are closed; make new ones"):
        await blocks.load(node.namespace, [blocks_of("a")])
    assert await node.look_up("a") == ["MISS"]


@pytest.mark.parametrize("act", ["store", "load"])
async def test_closing_in_the_middle_of_a_call_fails_it_and_nothing_else(
    node: Serving, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    """The memory is gone when the copy would begin; the lease is released."""
    await node.store("a")
    blocks = node.client.blocks("cpu0")
    await path_of(node, blocks)
    prepare = getattr(LeaseCalls, f"prepare_{act}")

    async def prepare_and_close(*args: Any, **kwargs: Any) -> Any:
        answer = await prepare(*args, **kwargs)
        await blocks.close()
        return answer

    monkeypatch.setattr(LeaseCalls, f"prepare_{act}", prepare_and_close)
    call = (
        blocks.store(node.namespace, [run("b")], payloads("b"))
        if act == "store"
        else blocks.load(node.namespace, [blocks_of("a")])
    )

    with pytest.raises(KvtierError, match="are closed"):
        await call
    assert await node.gauges() == {"ready": 1}


async def test_a_blocking_caller_has_the_same(node: Serving) -> None:
    """Also a context to read in."""

    def work() -> None:
        with (
            BlockingNodeClient(node.endpoint) as client,
            client.blocks("cpu0") as blocks,
        ):
            report = blocks.store(node.namespace, [run("a")], payloads("a"))
            assert report.path is DataPath.SHARED_MEMORY
            with blocks.read(node.namespace, [blocks_of("a")]) as found:
                assert [bytes(view or b"") for view in found.payloads] == payloads("a")
            with (
                pytest.raises(ZeroDivisionError),
                blocks.read(node.namespace, [blocks_of("a")]),
            ):
                raise ZeroDivisionError
            (loaded,) = blocks.load_many(node.namespace, [[blocks_of("a")]])
            assert not isinstance(loaded, KvtierError)

    await asyncio.to_thread(work)

    assert await node.gauges() == {"ready": 1}
