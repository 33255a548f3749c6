"""Blocks in files of a secondary: what is told of them is there, and what is not costs one try."""

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kvtier.client.proxy.settings import CascadeSettings, PromotionSettings
from kvtier.server.lasting.files import FileShelf
from kvtier.server.lasting.shelf import ShelfError
from tests.waiting import until

from .conftest import Follow, Serve
from .filed import FILES, block_files, file_of, files_tier, read
from .folding import listed
from .managed import counting_pulls
from .proxied import Proxied, copied, hashes_of, proxied
from .support import (
    Serving,
    block_hash,
    cpu_tier,
    gpu_tier,
    hash_set,
    hashes,
    payload,
    payloads,
    run,
)

# Less than one load would wait for its deadline, and more than a busy machine takes.
QUICK_SECONDS = 4.0
FEW = 4


@pytest.fixture(name="directory")
def _directory(tmp_path: Path) -> Path:
    return tmp_path / "blocks-of-a-node"


async def near_and_files(serve: Serve, directory: Path, slots: int = 32) -> tuple[Serving, Serving]:
    """A primary with memory, and a node whose one tier is of files."""
    return await serve(cpu_tier(slots)), await serve(files_tier(directory, scrub_rate=0))


def failing(monkeypatch: pytest.MonkeyPatch, block: object) -> None:
    """Let the write of one block's file fail."""
    put, data = FileShelf.put, payload(block)

    def fail_one(
        shelf: FileShelf, name: str, parts: Sequence[bytes | memoryview], wanted: Any
    ) -> None:
        if bytes(parts[-1]) == data:
            raise ShelfError("input/output error")
        put(shelf, name, parts, wanted)

    monkeypatch.setattr(FileShelf, "put", fail_one)


async def test_a_block_that_cannot_be_written_fails_alone(
    serve: Serve, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told of are those that load; the other has its own result, and is not found there."""
    primary, files = await near_and_files(serve, directory)
    failing(monkeypatch, "b")
    async with proxied([primary, files]) as whole:
        (results,) = await copied(await whole.store("a", "b", "c"))
        await whole.are_known()

        came = [block for block, told in zip("abc", results, strict=True) if told == "COPIED"]
        assert results[1] == "FAILED"
        assert came
        assert hashes_of(whole.told(files), "stored", FILES) == hashes(*came)
        assert whole.known(files, FILES) == hash_set(came)
        data, _ = await read(files, "a", "b", "c")
        assert data == [payload(block) if block in came else None for block in "abc"]
        assert (await whole.find("b")).sources == (0,)


async def test_a_block_that_comes_up_from_files_is_told_as_it_was_stored(
    serve: Serve, directory: Path, follow: Follow
) -> None:
    """Once, by the primary, with its parent, place and adapter; the files have nothing to tell."""
    primary, files = await near_and_files(serve, directory)
    own: dict[str, Any] = {"scope": b"tenant", "adapter_name": "lora"}
    chain = run("parent", "block", **own)
    await files.client.store(FILES, files.namespace, [chain], payloads("parent", "block"))
    async with proxied([primary, files]) as whole:
        near, far = await follow(primary), await follow(files)
        there = far.fold.view

        loaded = await whole.proxy.load("cpu0", whole.namespace, [chain])

        assert list(loaded.payloads) == payloads("parent", "block")
        assert [(each.what, each.block_hash) for each in await near.news()] == [
            ("stored", block_hash("parent")),
            ("stored", block_hash("block")),
        ]
        assert {key[1:]: facts for key, facts in near.fold.view.items()} == {
            key[1:]: facts for key, facts in there.items()
        }
        assert await far.news() == []
        assert near.fold.view == await listed(primary.client)


HARMS: dict[str, Callable[[Path], object]] = {
    "deleted": lambda path: path.unlink(),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-1]),
}


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
async def test_a_file_that_is_not_what_it_was_is_tried_once(
    serve: Serve, directory: Path, follow: Follow, harm: Callable[[Path], object]
) -> None:
    """A hit, a load that does not bring it, then a miss for everybody; the tier told why."""
    primary, files = await near_and_files(serve, directory)
    await files.store("a", "b", tier=FILES)
    async with proxied([primary, files]) as whole:
        follower = await follow(files)
        harm(file_of(directory, payload("b")))
        before = await whole.look_up("b")
        began = time.monotonic()

        async with counting_pulls() as pulled:
            gets = [await whole.load("a", "b") for _ in range(10)]
        took = time.monotonic() - began
        await whole.settle()

        assert before == ["HIT"]
        assert gets == [[payload("a"), None]] * 10
        assert len(pulled) <= 2
        assert took < QUICK_SECONDS
        assert await whole.look_up("a", "b") == ["HIT", "MISS"]
        (news,) = await follower.news()
        assert (news.what, news.tier, news.block_hash) == ("removed", FILES, block_hash("b"))
        assert news.reason in {"LOST", "CORRUPT"}
        await whole.are_known()


async def test_lookups_of_many_clients_bring_nothing_up(serve: Serve, directory: Path) -> None:
    """Twenty who only look up what files have; one stores without pause, and is never refused."""
    primary, files = await near_and_files(serve, directory, slots=16)
    groups = [[(group, number) for number in range(50)] for group in range(20)]
    for group in groups:
        await files.store(*group, tier=FILES)
    none = CascadeSettings(to="none")
    async with proxied([primary, files], cascades=none) as whole:
        done, stored = asyncio.Event(), 0

        async def store_on() -> None:
            nonlocal stored
            while not done.is_set():
                await whole.store(("new", stored))
                stored += 1

        storing = asyncio.create_task(store_on())
        async with counting_pulls() as pulled:
            looked = [
                results
                for _ in range(5)
                for results in await asyncio.gather(*(whole.look_up(*group) for group in groups))
            ]
        await until(lambda: stored > 20 or storing.done())
        done.set()
        await storing

        assert looked == [["HIT"] * 50] * 100
        assert pulled == []
        assert await primary.held() == hash_set([("new", n) for n in range(stored - 16, stored)])
        assert (await files.tier(FILES)).counters.promoted == 0


async def test_what_many_clients_ask_for_ahead_leaves_room_for_stores(
    serve: Serve, directory: Path
) -> None:
    """So few blocks come at one time that no store is refused, and what is read is what came."""
    primary, files = await near_and_files(serve, directory, slots=16)
    groups = [[(group, number) for number in range(50)] for group in range(20)]
    for group in groups:
        await files.store(*group, tier=FILES)
    few = PromotionSettings(blocks=FEW)
    async with proxied(
        [primary, files], cascades=CascadeSettings(to="none"), promotions=few
    ) as whole:
        promotions, most = whole.proxy.managing.promotions, 0
        at_one_time = asyncio.Semaphore(FEW)
        asking = [asyncio.create_task(ask_ahead(whole, group, at_one_time)) for group in groups]
        stored = 0
        while not all(each.done() for each in asking) or stored < 20:
            await whole.store(("new", stored))
            most = max(most, promotions.under_way)
            stored += 1
        await asyncio.gather(*asking)
        await until(lambda: not promotions.under_way)

        came = promotions.counts[files.endpoint].copied
        assert 0 < most <= FEW
        assert came > 0
        assert (await files.tier(FILES)).counters.loaded < 2 * came
        assert await whole.load(("new", stored - 1)) == payloads(("new", stored - 1))
        await whole.are_known()


async def ask_ahead(
    whole: Proxied, group: Sequence[object], at_one_time: asyncio.Semaphore
) -> None:
    """Ask for two blocks at a time, and never wait for them or read them."""
    for first in range(0, len(group), 2):
        # What is there already is pinned for a moment.
        async with at_one_time:
            answer = await whole.proxy.prepare_load(
                "cpu0", whole.namespace, [run(*group[first : first + 2])], wait=False
            )
            await whole.primary.client.release_leases([answer.lease])


async def test_a_clear_of_everything_is_one_after_a_restart_too(
    serve: Serve, directory: Path
) -> None:
    """No tier of any node finds a block again, and no file is left."""
    tiers = [gpu_tier(8), cpu_tier(8), files_tier(directory)]
    primary, far = await serve(gpu_tier(8), cpu_tier(8)), await serve(*tiers)
    async with proxied([primary, far]) as whole:
        for node in (primary, far):
            for tier in await node.client.list_tiers():
                await node.store("a", "b", tier=tier.name)
        await whole.settle()

        cleared = await whole.proxy.clear()
        await whole.settle()

        assert cleared.complete
        assert block_files(directory) == []
        assert await whole.look_up("a", "b") == ["MISS", "MISS"]
        assert await whole.load("a", "b") == [None, None]
        far = await far.again(serve, *tiers, listen=far.endpoint)
        whole.nodes[1] = far
        await until(lambda: whole.proxy.members.trusts(far.node.node_id))
        await whole.are_known()
        assert await whole.look_up("a", "b") == ["MISS", "MISS"]
        assert await whole.load("a", "b") == [None, None]
        assert await far.look_up("a", "b") == ["MISS", "MISS"]


@pytest.mark.parametrize("files_first", [False, True], ids=["memory has more", "files have more"])
async def test_tiers_at_different_depth_of_a_chain_end_equal(
    serve: Serve, directory: Path, files_first: bool
) -> None:
    """A store of the whole chain adds to each what it lacked, and each tells that alone."""
    primary, files = await near_and_files(serve, directory)
    more, less = (files, primary) if files_first else (primary, files)
    tier_of = {primary.endpoint: "cpu0", files.endpoint: FILES}
    async with proxied([primary, files]) as whole:
        await more.store("a", "b", "c", tier=tier_of[more.endpoint])
        await less.store("a", tier=tier_of[less.endpoint])
        await whole.settle()
        before = {node.endpoint: len(whole.told(node)) for node in whole.nodes}

        await whole.store(*"abcd")
        await whole.settle()

        for node, added in ((more, "d"), (less, "bcd")):
            tier = tier_of[node.endpoint]
            news = whole.told(node)[before[node.endpoint] :]
            assert hashes_of(news, "stored", tier) == hashes(*added)
            assert hashes_of(news, "removed", tier) == b""
            assert await node.held(tier) == hash_set("abcd")
        assert (await whole.find(*"abcd")).prefix_lengths == (4, 4)
        assert await whole.load(*"abcd") == payloads(*"abcd")
