"""Many clients at the same few blocks: every reply is true, and so is the story of the events."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from kvtier.client import ExhaustedError, NodeClient
from kvtier.v1.result_pb2 import DeleteResult, ReadResult, StoreOutcome, WriteResult

from .conftest import Connect, Follow, Serve
from .folding import Fold, listed
from .support import (
    ANY_TIER,
    BLOCK_BYTES,
    TIER_KINDS,
    Serving,
    block_hash,
    blocks_of,
    payload,
    payloads,
    run,
    words,
)
from .ways import STORE_WAYS

CLIENTS, BLOCKS, ROUNDS = 16, range(10), 200
Act = Callable[["Racer"], Awaitable[None]]


class Racer:
    """A client that stores, loads and deletes at random, and checks every answer.

    Args:
        node: The node.
        client: A client of its own.
        seed: What its choices come from.
        tally: Counts what came of all racers' calls.
    """

    def __init__(self, node: Serving, client: NodeClient, seed: int, tally: Counter[str]) -> None:
        self._node = node
        self._client = client
        self._random = random.Random(seed)
        self._tally = tally

    async def race(self) -> None:
        acts: tuple[Act, ...] = (
            Racer.store,
            Racer.store,
            Racer.load,
            Racer.load_pinned,
            Racer.load_in_place,
            Racer.drop,
        )
        for _ in range(ROUNDS):
            await self._random.choice(acts)(self)

    async def store(self) -> None:
        """Store some blocks: each is written by this call, there already, or being written."""
        blocks = self._some()
        way = self._random.choice([*STORE_WAYS.values()])
        offer = [run(block) for block in blocks]
        try:
            report = await way(
                self._client, ANY_TIER, self._node.namespace, offer, payloads(*blocks)
            )
        except ExhaustedError:
            self._tally["REFUSED"] += 1
            return
        outcomes, results = words(StoreOutcome, report.outcomes), words(WriteResult, report.results)
        for outcome, result in zip(outcomes, results, strict=True):
            self._tally[outcome] += 1
            assert outcome in {"WRITE", "PRESENT", "PENDING"}
            assert result in ({"STORED", "ABORTED"} if outcome == "WRITE" else {"UNSPECIFIED"})
            self._tally[result] += 1

    async def load(self) -> None:
        """Read some blocks: each comes whole and exact, or is a miss."""
        blocks = self._some()
        report = await self._client.load(ANY_TIER, self._node.namespace, [blocks_of(*blocks)])
        for block, data, result in zip(blocks, report.payloads, report.results, strict=True):
            assert data in {None, payload(block)}
            assert words(ReadResult, [result]) == ["UNSPECIFIED" if data else "MISS"]
            self._tally["EXACT" if data else "ABSENT"] += 1

    async def load_pinned(self) -> None:
        """Read under a lease: what was granted comes, also when it is deleted meanwhile."""
        blocks = self._some()
        answer = await self._client.prepare_load(
            ANY_TIER, self._node.namespace, [blocks_of(*blocks)]
        )
        read = await self._client.read_blocks(answer.lease, [BLOCK_BYTES] * len(blocks))
        await self._client.complete_load(answer.lease)
        for block, data, result in zip(blocks, read.payloads, answer.results, strict=True):
            assert data == (payload(block) if result == 1 else None)
            self._tally["PINNED" if data else "ABSENT"] += 1

    async def load_in_place(self) -> None:
        """Read where the blocks are, twice: what was granted stays, also when it is deleted."""
        blocks = self._some()
        asked = [blocks_of(*blocks)]
        async with (
            self._client.blocks(ANY_TIER) as tier,
            tier.read(self._node.namespace, asked) as found,
        ):
            first = [view and bytes(view) for view in found.payloads]
            await asyncio.sleep(0)
            second = [view and bytes(view) for view in found.payloads]
        assert first == second
        for block, data in zip(blocks, first, strict=True):
            assert data in {None, payload(block)}
            self._tally["IN_PLACE" if data else "ABSENT"] += 1

    async def drop(self) -> None:
        """Delete some blocks, leased ones too now and then."""
        answer = await self._client.delete(
            self._node.namespace,
            [blocks_of(*self._some())],
            force=self._random.random() < 0.5,
        )
        self._tally.update(words(DeleteResult, answer.tiers[0].results))

    def _some(self) -> list[int]:
        return self._random.sample(BLOCKS, self._random.randint(1, 3))


def assert_alternating(fold: Fold) -> None:
    """Every block is stored and removed by turns, beginning with a store."""
    for block in BLOCKS:
        story = [each.what for each in fold.told if each.block_hash == block_hash(block)]
        assert story[::2] == ["stored"] * len(story[::2])
        assert story[1::2] == ["removed"] * len(story[1::2])


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "capacity"), [("cpu", 6), ("gpu", 32)])
async def test_racing_stores_loads_and_deletes_never_show_a_wrong_block(
    serve: Serve, connect: Connect, follow: Follow, kind: str, capacity: int
) -> None:
    """Every load is exact, events alternate for each block, and at the end nothing is held."""
    node = await serve(TIER_KINDS[kind](capacity))
    follower = await follow(node)
    tally: Counter[str] = Counter()
    racers = [Racer(node, await connect(node), seed, tally) for seed in range(CLIENTS)]

    await asyncio.gather(*(racer.race() for racer in racers))
    await follower.settle()

    assert_alternating(follower.fold)
    assert follower.fold.view == await listed(node.client)
    assert follower.fold.most[ANY_TIER] <= capacity
    told = Counter(each.what for each in follower.fold.told)
    tier = await node.tier(ANY_TIER)
    assert (tier.counters.stored, tier.counters.removed) == (told["stored"], told["removed"])
    assert tally["STORED"] == told["stored"]
    assert set(await node.gauges(ANY_TIER)) <= {"ready"}
    assert (await node.client.get_node()).leases == 0
    assert min(tally[each] for each in ("STORED", "EXACT", "PINNED", "IN_PLACE", "DELETED")) > 50
