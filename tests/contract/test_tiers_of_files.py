"""Blocks as files, over the wire: what is stored is read exactly, or told to be gone."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from kvtier.client import KvtierError
from kvtier.server.lasting.files import FileShelf
from kvtier.server.lasting.shelf import ShelfError
from kvtier.v1.result_pb2 import DeleteResult, WriteResult
from kvtier.wire.namespaces import fingerprint as fingerprint_of
from tests.waiting import until

from .conftest import Connect, Follow, Serve
from .copying import copy_blocks
from .filed import FILES, block_files, nothing_is_held, read, serve_files
from .folding import listed
from .grounds import Ground
from .support import (
    Serving,
    blocks_of,
    cpu_tier,
    namespace,
    payload,
    payloads,
    run,
    words,
)

MIB = 1 << 20
LARGE = 5 * MIB
Put = Callable[[FileShelf, str, Sequence[bytes | memoryview], Callable[[], bool]], None]


@pytest.fixture(name="directory")
def _directory(tmp_path: Path) -> Path:
    return tmp_path / "blocks-of-a-node"


@pytest.fixture(name="node")
async def _node(serve: Serve, directory: Path) -> Serving:
    """A node whose one tier is of files."""
    return await serve_files(serve, directory)


@pytest.fixture(name="stuck")
def _stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Let writes of files stand still until the event is set."""
    gate, put = threading.Event(), FileShelf.put

    def wait(
        shelf: FileShelf,
        name: str,
        parts: Sequence[bytes | memoryview],
        wanted: Callable[[], bool],
    ) -> None:
        gate.wait()
        put(shelf, name, parts, wanted)

    monkeypatch.setattr(FileShelf, "put", wait)
    yield gate
    gate.set()


async def test_blocks_of_all_sizes_share_a_tier(
    serve: Serve, directory: Path, follow: Follow
) -> None:
    """Groups of 64 bytes to 5 MiB: each is announced, listed, and read as it was."""
    node = await serve_files(serve, directory)
    sizes = [64, 4096, 300_000, LARGE]
    mixed = namespace("mixed", block_bytes=sizes)
    fingerprint = await node.client.register_namespace(mixed)
    follower = await follow(node)
    groups = range(len(sizes))
    sent = [payload((group, i), sizes[group]) for group in groups for i in range(3)]
    runs = [run(*((group, i) for i in range(3)), group=group) for group in groups]

    report = await node.client.store(FILES, fingerprint, runs, sent)

    assert words(WriteResult, report.results) == ["STORED"] * len(sent)
    sets = [blocks_of(*((group, i) for i in range(3)), group=group) for group in groups]
    loaded = await node.client.load(FILES, fingerprint, sets)
    assert list(loaded.payloads) == sent
    assert len(await follower.news()) == len(sent)
    assert follower.fold.view == await listed(node.client)
    assert len(block_files(directory)) == len(sent)
    await nothing_is_held(node, directory)


async def test_a_leased_store_is_read_under_a_lease(node: Serving, directory: Path) -> None:
    """Prepare, write, complete; pin, read, complete."""
    client = node.client
    offer = await client.prepare_store(FILES, node.namespace, [run("a", "b")])
    written = await client.write_blocks(offer.lease, dict(enumerate(payloads("a", "b"))), [64, 64])
    assert await node.look_up("a", "b") == ["HIT_PENDING"] * 2
    await client.complete_store(offer.lease, failed_blocks=[1])
    pinned = await client.prepare_load(FILES, node.namespace, [blocks_of("a", "b")])

    loaded = await client.read_blocks(pinned.lease, [64, 64])

    await client.complete_load(pinned.lease)
    assert words(WriteResult, written.values()) == ["WRITTEN"] * 2
    assert list(loaded.payloads) == [payload("a"), None]
    await nothing_is_held(node, directory)


async def test_readers_of_a_block_that_is_being_written(
    serve: Serve, connect: Connect, ground: Ground
) -> None:
    """Eight clients that ask again and again find all of it, or nothing."""
    node = await serve(ground.tier(FILES))
    large = namespace("large", block_bytes=[LARGE])
    fingerprint = await node.client.register_namespace(large)
    clients = [await connect(node) for _ in range(4)]
    stored, answers = asyncio.Event(), set[bytes | None]()

    async def hammer(reader: int) -> None:
        last = False
        while not last:
            last = stored.is_set()
            report = await clients[reader % 4].load(FILES, fingerprint, [blocks_of("a")])
            answers.update(report.payloads)

    for client in clients:
        await client.register_namespace(large)
    readers = [asyncio.create_task(hammer(reader)) for reader in range(8)]
    await asyncio.sleep(0.05)
    await node.client.store(FILES, fingerprint, [run("a")], [payload("a", LARGE)])
    stored.set()
    await asyncio.gather(*readers)

    assert answers == {None, payload("a", LARGE)}
    assert await node.gauges(FILES) == {"ready": 1}
    assert len(ground.names()) == 1


async def test_a_disk_that_is_full_fails_what_comes_after(
    node: Serving, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each block has its own result; nothing half-written is left; the next offer is refused."""
    await node.store("a", tier=FILES)
    put, left = FileShelf.put, [2]

    def fill_up(
        shelf: FileShelf,
        name: str,
        parts: Sequence[bytes | memoryview],
        wanted: Callable[[], bool],
    ) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise ShelfError("no space left on device")
        put(shelf, name, parts, wanted)

    monkeypatch.setattr(FileShelf, "put", fill_up)
    blocks = list("bcdef")

    report = await node.client.store(FILES, node.namespace, [run(*blocks)], payloads(*blocks))
    with pytest.raises(KvtierError, match="no space left on device") as refused:
        await node.client.store(FILES, node.namespace, [run("g")], payloads("g"))

    results = words(WriteResult, report.results)
    assert (results.count("STORED"), results.count("FAILED")) == (2, 3)
    assert refused.value.reason == "TIER_READ_ONLY"
    data, _ = await read(node, "a", *blocks)
    stored = [result == "STORED" for result in ["STORED", *results]]
    assert [each is not None for each in data] == stored
    await nothing_is_held(node, directory)


async def test_a_disk_that_stands_still_holds_up_nobody_else(
    serve: Serve, directory: Path, stuck: threading.Event
) -> None:
    """Its own store ends at the deadline; lookups and other tiers go on meanwhile."""
    node = await serve_files(serve, directory, tier={"io_timeout": 0.5})
    storing = asyncio.create_task(
        node.client.store(FILES, node.namespace, [run("a")], payloads("a"))
    )
    asked = 0
    while not storing.done():
        async with asyncio.timeout(0.4):
            assert await node.look_up("a") in (["HIT_PENDING"], ["MISS"])
        asked += 1
        await asyncio.sleep(0.01)

    assert words(WriteResult, (await storing).results) == ["FAILED"]
    assert asked > 5
    assert await node.gauges(FILES) == {"draining": 1}
    stuck.set()
    await node.comes_to({}, FILES)
    await nothing_is_held(node, directory)


async def test_a_client_that_leaves_in_the_middle_leaves_nothing(
    node: Serving, directory: Path, stuck: threading.Event
) -> None:
    """Its slots are free once the thread is back, and no file is there."""
    blocks = list(range(20))
    storing = asyncio.create_task(
        node.client.store(FILES, node.namespace, [run(*blocks)], payloads(*blocks))
    )
    await node.comes_to({"pending": len(blocks)}, FILES)
    storing.cancel()
    await asyncio.wait([storing])
    stuck.set()

    await node.comes_to({}, FILES)
    await until(lambda: not node.node.write_bytes.used)
    await nothing_is_held(node, directory)
    await node.store(*blocks, tier=FILES)
    assert (await read(node, *blocks))[0] == payloads(*blocks)


async def test_evictions_make_room_on_the_disk(serve: Serve, directory: Path) -> None:
    """The files never take more than the capacity, however much is stored."""
    node = await serve_files(serve, directory, tier={"capacity": "256KiB"})
    for first in range(0, 400, 16):
        await node.store(*range(first, first + 16), tier=FILES)
        used = sum(path.stat().st_blocks * 512 for path in block_files(directory))
        assert used <= 256 << 10

    held = await node.held(FILES)
    assert 0 < len(held) < 100
    newest = range(384, 400)
    assert (await read(node, *newest))[0] == payloads(*newest)
    await nothing_is_held(node, directory)


@pytest.mark.parametrize("how", ["delete", "clear", "namespace"])
async def test_what_is_removed_has_no_file_when_that_is_answered(
    node: Serving, directory: Path, how: str
) -> None:
    """Also what is leased and removed by force."""
    await node.store("a", "b", tier=FILES)
    await node.client.prepare_load(FILES, node.namespace, [blocks_of("a")])

    match how:
        case "delete":
            answer = await node.client.delete(node.namespace, [blocks_of("a", "b")], force=True)
            assert words(DeleteResult, answer.tiers[0].results) == ["DELETED"] * 2
        case "clear":
            assert (await node.client.clear(FILES, force=True)).removed_blocks == 2
        case "namespace":
            gone = await node.client.delete_namespace(node.namespace, force=True)
            assert gone.removed_blocks == 2

    assert block_files(directory) == []


async def remove_by_force(node: Serving, how: str) -> None:
    match how:
        case "delete":
            await node.client.delete(node.namespace, [blocks_of("a", "b")], force=True)
        case "clear":
            await node.client.clear(FILES, force=True)
        case "namespace":
            await node.client.delete_namespace(node.namespace, force=True)


@pytest.mark.parametrize("how", ["delete", "clear", "namespace"])
async def test_what_is_removed_while_it_is_written_has_no_file_when_that_is_answered(
    node: Serving, directory: Path, stuck: threading.Event, how: str
) -> None:
    """The answer waits for the writer, and a restart finds nothing."""
    storing = asyncio.create_task(
        node.client.store(FILES, node.namespace, [run("a", "b")], payloads("a", "b"))
    )
    await node.comes_to({"pending": 2}, FILES)
    removing = asyncio.create_task(remove_by_force(node, how))

    await node.comes_to({"draining": 2}, FILES)
    await asyncio.sleep(0.1)
    assert not removing.done()
    stuck.set()
    await removing

    assert block_files(directory) == []
    await asyncio.wait([storing])


async def test_a_writer_that_stands_still_holds_up_no_delete_for_long(
    serve: Serve, directory: Path, stuck: threading.Event
) -> None:
    """It ends at the deadline: then it is not known whether the block is gone for good."""
    node = await serve_files(serve, directory, tier={"io_timeout": 0.5})
    storing = asyncio.create_task(
        node.client.store(FILES, node.namespace, [run("a")], payloads("a"))
    )
    await node.comes_to({"pending": 1}, FILES)

    async with asyncio.timeout(4):
        deleted = await node.client.delete(node.namespace, [blocks_of("a")], force=True)

    assert words(DeleteResult, deleted.tiers[0].results) == ["UNAVAILABLE"]
    stuck.set()
    await storing
    await node.comes_to({}, FILES)
    await nothing_is_held(node, directory)


async def test_blocks_are_pulled_from_a_peer_into_files(serve: Serve, directory: Path) -> None:
    """Small ones and large ones; a peer that has some tells which it has not."""
    peer = await serve({**cpu_tier(0), "capacity": 4 * LARGE, "slot_bytes": LARGE})
    node = await serve_files(serve, directory, peers=[peer.endpoint])
    await peer.store(1, 2, 3)

    small = await copy_blocks(node, run(1, 2, 9, 3), peer=(peer.endpoint, "cpu0"), to=FILES)

    assert small.results == ["COPIED", "COPIED", "MISS", "COPIED"]
    assert (await read(node, 1, 2, 3))[0] == payloads(1, 2, 3)
    large = namespace("large", block_bytes=[LARGE])
    for each in (peer, node):
        await each.client.register_namespace(large)
    there, here = (
        Serving(each.server, each.client, each.clock, fingerprint_of(large))
        for each in (peer, node)
    )
    await peer.client.clear("cpu0")
    sent = [payload(block, LARGE) for block in "ab"]
    await there.client.store("cpu0", there.namespace, [run("a", "b")], sent)

    pulled = await copy_blocks(here, run("a", "b"), peer=(peer.endpoint, "cpu0"), to=FILES)

    assert pulled.results == ["COPIED"] * 2
    assert (await read(here, "a", "b"))[0] == sent
    await nothing_is_held(node, directory)


async def test_a_pull_into_a_disk_that_fails_is_failed(
    serve: Serve, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is held for it, and the next one is refused while the tier is read-only."""
    peer = await serve(cpu_tier(8))
    node = await serve_files(serve, directory, peers=[peer.endpoint])
    await peer.store(1, 2)

    def fail(*_: object) -> None:
        raise ShelfError("input/output error")

    monkeypatch.setattr(FileShelf, "put", fail)
    failed = await copy_blocks(node, run(1, 2), peer=(peer.endpoint, "cpu0"), to=FILES)
    with pytest.raises(KvtierError, match="read-only: input/output error"):
        await copy_blocks(node, run(1), peer=(peer.endpoint, "cpu0"), to=FILES)

    assert failed.results == ["FAILED"] * 2
    await nothing_is_held(node, directory)
