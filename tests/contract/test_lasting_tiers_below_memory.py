"""Files and objects below memory: found, counted, brought up, and no block fails the others."""

import asyncio
import random
import time
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from kvtier.client import ExhaustedError, NodeClient
from kvtier.server.lasting.files import FileShelf
from kvtier.server.lasting.objects import ObjectShelf
from kvtier.v1.result_pb2 import LookupResult, ReadResult
from tests.waiting import until

from .conftest import Connect, Follow, Serve
from .folding import listed
from .grounds import Ground, name_of
from .support import (
    ANY_TIER,
    BLOCK_BYTES,
    Serving,
    block_hash,
    blocks_of,
    cpu_tier,
    hash_set,
    payload,
    payloads,
    run,
    words,
)
from .test_blocks_that_are_harmed import HARMS, Harm

CPU = "cpu0"
SIZES = (1, 2, 3, 7, 16, 33, 64)
LAZY: dict[str, Any] = {"on_evict": ANY_TIER, "free_target": 0, "demote_wait": 10}
THROUGH: dict[str, Any] = {"write_through": [ANY_TIER]}


async def settled(node: Serving) -> None:
    """Wait until nothing is copied any more."""
    await until(lambda: not node.node.tiering.jobs)


async def brought_up(
    node: Serving, *blocks: object, client: NodeClient | None = None
) -> tuple[list[str], list[bytes | None]]:
    """Load blocks from memory, promoted first; return what was said of them, and their bytes."""
    client = client or node.client
    answer = await client.prepare_load(
        CPU, node.namespace, [blocks_of(*blocks)], promote=True, wait=True
    )
    read = await client.read_blocks(answer.lease, [BLOCK_BYTES] * len(blocks))
    await client.complete_load(answer.lease)
    return words(LookupResult, answer.results), list(read.payloads)


async def counted(node: Serving, name: str) -> tuple[int, int]:
    """What a tier says it stored without what it removed, and what it lists."""
    counters = (await node.tier(name)).counters
    return counters.stored - counters.removed, len(await listed(node.client, name))


@pytest.mark.parametrize("mode", [LAZY, THROUGH], ids=["lazy", "through"])
async def test_every_block_that_was_stored_is_found(
    serve: Serve, follow: Follow, ground: Ground, mode: dict[str, Any]
) -> None:
    """Chains of any length, the last block too, in each tier that says it has them."""
    memory = max(SIZES) if mode is LAZY else sum(SIZES)
    node = await serve(cpu_tier(memory, promotion_limit=1, **mode), ground.tier())
    follower = await follow(node)
    chains = [[(size, place) for place in range(size)] for size in SIZES]

    for chain in chains:
        await node.store(*chain)
        await settled(node)
        assert await node.look_up(*chain) == ["HIT"] * len(chain)

    for chain in chains:
        assert await node.look_up(*chain) == ["HIT"] * len(chain)
    everything = hash_set([block for chain in chains for block in chain])
    above, below = await node.held(CPU), await node.held(ANY_TIER)
    assert above | below == everything
    assert below == (everything if mode is THROUGH else everything - above)
    for name, held in ((CPU, above), (ANY_TIER, below)):
        assert await counted(node, name) == (len(held), len(held))
    assert len(ground.names()) == len(below)
    await follower.settle()
    assert follower.fold.view == await listed(node.client)


@pytest.mark.parametrize("batch", [1, 8, 64])
async def test_the_counters_agree_after_evictions_and_a_restart(
    serve: Serve, ground: Ground, batch: int
) -> None:
    """What is stored, less what is removed, is what is listed, in this life and the next."""
    small = await serve(ground.tier())
    await small.store(0, tier=ANY_TIER)
    tier = ground.tier(capacity=40 * (await small.tier(ANY_TIER)).used_bytes)
    await small.client.clear(ANY_TIER)
    node = await small.again(serve, tier)
    for first in range(0, 128, batch):
        blocks = range(first, first + batch)
        with suppress(ExhaustedError):
            await node.store(*blocks, tier=ANY_TIER)
    held = await node.held(ANY_TIER)

    counts = [await counted(node, ANY_TIER)]
    node = await node.again(serve, tier)
    counts.append(await counted(node, ANY_TIER))

    assert counts == [(len(held), len(held))] * 2
    assert await node.held(ANY_TIER) == held
    assert len(held) == (40 if batch < 40 else 0)


@pytest.mark.parametrize("short", [ANY_TIER, CPU])
async def test_each_tier_gets_what_it_lacks(
    serve: Serve, follow: Follow, ground: Ground, short: str
) -> None:
    """One of them has less of a prefix than the other; both end whole, told once each."""
    node = await serve(cpu_tier(8, promotion_limit=1, **THROUGH), ground.tier())
    await node.store(*"abc")
    await settled(node)
    await node.client.delete(node.namespace, [blocks_of(*"bc")], tiers=[short])
    follower = await follow(node)

    await node.store(*"abcd")
    await settled(node)

    told = [(each.what, each.tier, each.block_hash) for each in await follower.news()]
    added = {tier: "bcd" if tier == short else "d" for tier in (CPU, ANY_TIER)}
    assert sorted(told) == sorted(
        ("stored", tier, block_hash(block)) for tier, blocks in added.items() for block in blocks
    )
    assert await node.held(CPU) == await node.held(ANY_TIER) == hash_set("abcd")
    assert (await brought_up(node, *"abcd"))[1] == payloads(*"abcd")


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
async def test_a_bad_block_fails_no_other_on_the_way_up(
    serve: Serve, follow: Follow, ground: Ground, harm: tuple[Harm, str, str]
) -> None:
    """What is good is brought up and read, exact; the bad one is told of and gone."""
    node = await serve(cpu_tier(8, promotion_limit=1), ground.tier())
    await node.store("a", "b", "c", tier=ANY_TIER)
    follower = await follow(node)
    harm[0](ground, name_of(ground, payload("b")))

    said, data = await brought_up(node, "a", "b", "c")

    assert said == ["HIT", "MISS", "HIT"]
    assert data == [payload("a"), None, payload("c")]
    removed = [(e.tier, e.reason) for e in await follower.news() if e.what == "removed"]
    assert removed == [(ANY_TIER, harm[2])]
    assert await node.held(CPU) == hash_set("ac")


async def test_a_load_that_fails_once_is_a_miss_afterwards(
    serve: Serve, ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks again and again is told of a miss, and the ground is asked once."""
    node = await serve(cpu_tier(8, promotion_limit=1), ground.tier())
    await node.store("a", tier=ANY_TIER)
    ground.remove(name_of(ground, payload("a")))
    assert await node.look_up("a") == ["HIT"]
    asked: list[str] = []
    for shelf in (FileShelf, ObjectShelf):
        get = shelf.get

        def count(self: Any, name: str, parts: Any, get: Any = get) -> None:
            asked.append(name)
            get(self, name, parts)

        monkeypatch.setattr(shelf, "get", count)
    begun = time.monotonic()

    answers = [await brought_up(node, "a") for _ in range(5)]
    direct = await node.client.load(ANY_TIER, node.namespace, [blocks_of("a")])

    assert answers == [(["MISS"], [None])] * 5
    assert words(ReadResult, direct.results) == ["MISS"]
    assert await node.look_up("a") == ["MISS"]
    assert len(asked) <= 2
    assert time.monotonic() - begun < 2


class Crowd:
    """Clients that load and store blocks by chance, and compare what they read.

    Attributes:
        tally: How many loads brought their bytes, and how many none.
    """

    def __init__(self, node: Serving, seconds: float) -> None:
        self.tally: Counter[str] = Counter()
        self._node = node
        self._end = time.monotonic() + seconds

    async def work(self, client: NodeClient, seed: int) -> None:
        """Do so until the time is over."""
        rng = random.Random(seed)
        while time.monotonic() < self._end:
            first = rng.randrange(0, 60)
            blocks = range(first, first + rng.randint(1, 4))
            if rng.random() < 0.2:
                with suppress(ExhaustedError):
                    await client.store(
                        ANY_TIER, self._node.namespace, [run(*blocks)], payloads(*blocks)
                    )
                continue
            if rng.random() < 0.2:
                wanted = [blocks_of(*blocks)]
                report = await client.load(ANY_TIER, self._node.namespace, wanted)
                data = list(report.payloads)
            else:
                _, data = await brought_up(self._node, *blocks, client=client)
            for block, each in zip(blocks, data, strict=True):
                assert each in {None, payload(block)}, "these are the bytes of another block"
                self.tally["exact" if each else "none"] += 1


@pytest.mark.slow
@pytest.mark.parametrize("vanish", [False, True], ids=["undisturbed", "blocks vanish"])
async def test_random_loads_bring_the_bytes_of_their_block(
    serve: Serve, connect: Connect, follow: Follow, ground: Ground, *, vanish: bool
) -> None:
    """Through promotions and evictions, and while somebody deletes blocks behind the node."""
    lower = ground.tier(capacity=40 * 4096 if ground.tier()["medium"] == "fs" else 40 * 350)
    node = await serve(cpu_tier(6, promotion_limit=1, **LAZY), lower)
    follower = await follow(node)
    crowd = Crowd(node, 4)
    clients = [await connect(node) for _ in range(4)]
    crowd_work = asyncio.gather(*(crowd.work(clients[n % 4], n) for n in range(16)))

    rng = random.Random(0)
    while vanish and not crowd_work.done():
        names = await asyncio.to_thread(ground.names)
        for name in rng.sample(sorted(names), min(2, len(names))):
            with suppress(FileNotFoundError):
                await asyncio.to_thread(ground.remove, name)
        await asyncio.sleep(0.05)
    await crowd_work
    await settled(node)

    assert crowd.tally["exact"] > 100
    blocks = range(64)
    for tier in (ANY_TIER, CPU):
        report = await node.client.load(tier, node.namespace, [blocks_of(*blocks)])
        pairs = zip(blocks, report.payloads, strict=True)
        assert all(data in {None, payload(block)} for block, data in pairs)
        there = {block_hash(b) for b, data in zip(blocks, report.payloads, strict=True) if data}
        assert there == await node.held(tier)
    await follower.settle()
    assert follower.fold.view == await listed(node.client)
    lost = [each for each in follower.fold.told if each.reason == "LOST"]
    assert len(lost) == (await node.tier(ANY_TIER)).counters.lost
    assert bool(lost) == vanish
