"""A node of files is killed at any moment: what was confirmed is there, and nothing else is."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kvtier.client import NodeClient
from tests.contract.filed import FILES, block_files, files_tier
from tests.contract.folding import listed
from tests.contract.viewing import watching

from .conftest import StartNode
from .disks import bytes_of, strangers
from .ledger import LARGEST, Fate, Ledger, clear, exact, names_in, working
from .processes import ready

LIVES, MIB = 10, 1 << 20
# A file has a header beside its block, and takes whole blocks of the file system.
LARGEST_FILE = LARGEST + 4096


class Setting(NamedTuple):
    """A kind of node.

    Attributes:
        tiers: The tiers above that of files.
        capacity: Bytes that files may take.
        must: What must be there, by what clients and a follower were told before the kill.
    """

    tiers: list[dict[str, Any]]
    capacity: int
    must: Callable[[Ledger, set[int]], set[int]]


HOST = {
    "name": "cpu0",
    "medium": "cpu",
    "capacity": 24 * LARGEST,
    "slot_bytes": LARGEST,
    "on_evict": FILES,
    "write_through": [FILES],
}
ROOMY = Setting([], 16 * MIB, lambda ledger, _: ledger.are(Fate.STORED))
EVICTING = Setting([], 4 * MIB, lambda ledger, _: set(ledger.newest[-4:]))
# A follower may hear late that a block was deleted and is being written through again.
BELOW_MEMORY = Setting(
    [HOST], 16 * MIB, lambda ledger, told: told & ledger.are(Fate.STORED) - ledger.deleted
)


async def damaged(client: NodeClient) -> int:
    return sum(t.counters.corrupt + t.counters.lost for t in await client.list_tiers())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "seed"),
    [
        *(pytest.param(ROOMY, seed, id=f"roomy-{seed}") for seed in range(4)),
        *(pytest.param(EVICTING, seed, id=f"evicting-{seed}") for seed in range(4, 7)),
        *(pytest.param(BELOW_MEMORY, seed, id=f"below-memory-{seed}") for seed in range(7, 10)),
    ],
)
async def test_what_was_confirmed_outlives_a_kill_and_nothing_else_is_there(
    start_node: StartNode, tmp_path: Path, setting: Setting, seed: int
) -> None:
    """Ten times over: each block is exact, and a follower, the listing and the files agree."""
    directory, dice, ledger = tmp_path / "files", random.Random(seed), Ledger()
    tiers = [*setting.tiers, files_tier(directory, capacity=setting.capacity)]
    node = await start_node(tiers=tiers)
    async with NodeClient(node.endpoint) as client, watching(client) as view:
        name = (await client.get_node()).node_id
        for _ in range(LIVES):
            if dice.random() < 0.2:
                await clear(client, ledger)
            async with working(client, tiers[0]["name"], ledger, dice):
                await asyncio.sleep(dice.uniform(0.02, 0.3))
                node.process.kill()
            await node.kill()
            told, on_disk = names_in(view.held(name), FILES), bytes_of(block_files(directory))

            node = await start_node(node)
            await ready(client)
            listing = await listed(client)
            there = names_in(set(listing), FILES)
            await view.settle(client)

            assert setting.must(ledger, told) - there == set()
            assert there & ledger.are(Fate.GONE) == set()
            assert await exact(client, FILES, there)
            assert await damaged(client) == 0
            assert view.held(name) == set(listing)
            assert on_disk <= setting.capacity + LARGEST_FILE
            assert len(block_files(directory)) == len(there)
            assert strangers(directory) == []
            ledger.begin_life(there)
