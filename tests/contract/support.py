"""Blocks with known bytes, and nodes in this process that serve over real gRPC."""

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from kvtier.client import NodeClient
from kvtier.server.clock import ManualClock
from kvtier.server.config import EventsConfig
from kvtier.server.lifecycle import TierServer
from kvtier.server.node import Node
from kvtier.v1.block_pb2 import BlockRun, BlockSet, NamespacedBlocks
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.v1.result_pb2 import LookupResult
from kvtier.v1.tier_pb2 import Tier
from kvtier.wire.hashes import split_hashes

from .folding import Facts, Key, listed

MakeTier = Callable[[int], dict[str, object]]

TOKENS = 16
BLOCK_BYTES = 64
# What such a block takes of the capacity as a file.
FILE_BYTES = 4096
WIDTH = 32
# Longer between heartbeats than a configuration may have: in a test there are none.
NO_HEARTBEATS = EventsConfig.model_construct(heartbeat_interval=60.0, linger=0.0)


def namespace(name: str = "llama", **fields: object) -> Namespace:
    """A namespace of small blocks, with some fields changed."""
    description = {
        "name": name,
        "model": "meta/llama",
        "revision": "r1",
        "dtype": "bfloat16",
        "layout": "NHD",
        "tokens_per_block": TOKENS,
        "block_bytes": [BLOCK_BYTES, BLOCK_BYTES],
        "tp_size": 1,
        "pp_size": 1,
        "hash_algorithm": "sha256",
        "hash_width": WIDTH,
    }
    return Namespace(**(description | fields))  # type: ignore[arg-type]


def block_hash(block: object, width: int = WIDTH) -> bytes:
    """The hash of a block that a test calls by a number or a word."""
    return hashlib.shake_256(repr(block).encode()).digest(width)


def payload(block: object, size: int = BLOCK_BYTES) -> bytes:
    """The bytes of a block, different for each."""
    return hashlib.shake_256(b"payload" + repr(block).encode()).digest(size)


def payloads(*blocks: object) -> list[bytes]:
    """The bytes of several blocks."""
    return [payload(block) for block in blocks]


def hashes(*blocks: object) -> bytes:
    """The hashes of blocks, one after the other."""
    return b"".join(map(block_hash, blocks))


def run(
    *blocks: object, after: object = None, start: int | None = None, **fields: object
) -> BlockRun:
    """An offer of consecutive blocks, from position 0 or after a parent."""
    if start is None:
        start = 0 if after is None else TOKENS
    parent = b"" if after is None else block_hash(after)
    return BlockRun(
        block_hashes=hashes(*blocks),
        parent_block_hash=parent,
        start_position=start,
        **fields,  # type: ignore[arg-type]
    )


def blocks_of(*blocks: object, group: int = 0, scope: bytes = b"") -> BlockSet:
    """Blocks by name, of one group and scope."""
    return BlockSet(group=group, scope=scope, block_hashes=hashes(*blocks))


def cpu_tier(blocks: int, name: str = "cpu0", **fields: object) -> dict[str, object]:
    """The configuration of a host tier of some small blocks."""
    size = {"capacity": blocks * BLOCK_BYTES, "slot_bytes": BLOCK_BYTES}
    return {"name": name, "medium": "cpu", **size, **fields}


def gpu_tier(blocks: int, name: str = "gpu0", **fields: object) -> dict[str, object]:
    """The configuration of an emulated GPU tier of some small blocks."""
    size = {"capacity": blocks * BLOCK_BYTES, "slot_bytes": BLOCK_BYTES}
    return {"name": name, "medium": "gpu", "device": "emulated", **size, **fields}


def fs_tier(blocks: int, directory: Path, name: str = "fs0", **fields: object) -> dict[str, object]:
    """The configuration of a tier of files with room for some small blocks."""
    place = {"directory": str(directory / name), "capacity": blocks * FILE_BYTES}
    # The check in the background holds blocks for a moment, as no test here expects.
    return {"name": name, "medium": "fs", **place, "scrub_rate": 0, **fields}


# Tests that run on every kind of tier call the tier by one name.
ANY_TIER = "tier0"
TIER_KINDS: dict[str, MakeTier] = {
    "cpu": partial(cpu_tier, name=ANY_TIER),
    "gpu": partial(gpu_tier, name=ANY_TIER),
}


def evicted_hashes(evicted: Iterable[NamespacedBlocks]) -> list[bytes]:
    """The hashes that the answer to an offer names as evicted, in order."""
    return [h for each in evicted for h in split_hashes(each.blocks.block_hashes, WIDTH)]


def words(enum: Any, values: Iterable[int]) -> list[str]:
    """The names of an enum's values without their common beginning, such as HIT."""
    prefix = enum.Name(0).removesuffix("UNSPECIFIED")
    return [enum.Name(value).removeprefix(prefix) for value in values]


@dataclass(frozen=True)
class Serving:
    """A node that serves, a client of it, the clock of its leases, and what lives as long."""

    server: TierServer
    client: NodeClient
    clock: ManualClock
    namespace: bytes
    kept: list[object] = field(default_factory=list)

    @property
    def node(self) -> Node:
        return self.server.node

    @property
    def endpoint(self) -> str:
        return self.server.address

    async def store(self, *blocks: object, tier: str = "cpu0", after: object = None) -> None:
        """Store blocks as one chain, and expect every absent one to be stored."""
        await self.client.store(
            tier, self.namespace, [run(*blocks, after=after)], payloads(*blocks)
        )

    async def tier(self, name: str = "cpu0") -> Tier:
        """What one tier says of itself."""
        (tier,) = [tier for tier in await self.client.list_tiers() if tier.name == name]
        return tier

    async def gauges(self, name: str = "cpu0") -> dict[str, int]:
        """How many of a tier's blocks are ready, pending, leased and so on; zeros left out."""
        tier = await self.tier(name)
        counts = {
            "ready": tier.ready_blocks,
            "pending": tier.pending_blocks,
            "leased": tier.leased_blocks,
            "draining": tier.draining_blocks,
            "quarantined": tier.quarantined_blocks,
        }
        return {state: count for state, count in counts.items() if count}

    async def comes_to(self, gauges: Mapping[str, int], name: str = "cpu0") -> None:
        """Wait until a tier's gauges are these; fail when they are not in time."""
        for _ in range(500):
            if await self.gauges(name) == gauges:
                return
            await asyncio.sleep(0.01)
        assert await self.gauges(name) == gauges

    async def state(self, name: str = "cpu0") -> tuple[Tier, Mapping[Key, Facts], int]:
        """What a refused call leaves as it is: a tier, all listings, and the head of the log."""
        tier = await self.tier(name)
        tier.counters.ClearField("refused")
        node = await self.client.get_node()
        return tier, await listed(self.client), node.head.sequence

    async def load(self, *blocks: object, tier: str = "cpu0") -> list[bytes | None]:
        """Read blocks without a lease; None for one that is not there."""
        report = await self.client.load(tier, self.namespace, [blocks_of(*blocks)])
        return list(report.payloads)

    async def look_up(self, *blocks: object, group: int = 0, scope: bytes = b"") -> list[str]:
        """What the node says of each block of a chain, such as HIT or MISS."""
        chain = blocks_of(*blocks, group=group, scope=scope)
        answer = await self.client.lookup(self.namespace, [chain], include_blocks=True)
        return words(LookupResult, answer.chains[0].results)

    async def again(self, serve: Any, *tiers: Mapping[str, object], **settings: Any) -> "Serving":
        """Stop the node and start it again; it has to find its namespaces by itself."""
        await self.server.drain_and_stop()
        name = self.node.node_id
        return await serve(*tiers, register=False, node_id=name, **settings)  # type: ignore[no-any-return]

    async def held(self, tier: str = "cpu0") -> set[bytes]:
        """The hashes that a listing of one tier shows."""
        return {block.block_hash async for block in self.client.list_blocks(tiers=[tier])}


def hash_set(blocks: Sequence[object]) -> set[bytes]:
    """The hashes of blocks, as a set."""
    return set(map(block_hash, blocks))
