"""CopyBlocks as a test calls it, and blocks whose bytes go bad."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from kvtier.server.tiers.tier import Tier
from kvtier.v1.block_pb2 import BlockRun
from kvtier.v1.copying_pb2 import PeerTier
from kvtier.v1.result_pb2 import CopyResult

from .support import BLOCK_BYTES, Serving, block_hash, words


@dataclass
class Copied:
    """What a call of CopyBlocks answered.

    Attributes:
        told: What became of each block, by its place; a place that is told twice fails the test.
        bytes: The bytes copied, as the last answer says.
        answers: How many answers there were.
    """

    told: dict[int, str] = field(default_factory=dict)
    bytes: int = 0
    answers: int = 0

    @property
    def results(self) -> list[str]:
        """What became of the blocks, in the request's order; there is no hole."""
        assert sorted(self.told) == list(range(len(self.told)))
        return [self.told[place] for place in range(len(self.told))]


@contextmanager
def arriving(node: Serving) -> Iterator[list[Any]]:
    """Note the steps of copies that came to where each waits for the copies of others."""
    copying, steps = node.node.tiering.copying, list[Any]()
    wait = copying.wait_for_others

    async def note(*step: Any) -> None:
        steps.append(step)
        await wait(*step)

    with patch.object(copying, "wait_for_others", note):
        yield steps


async def copy_blocks(
    node: Serving,
    *runs: BlockRun,
    to: str,
    source: str | None = None,
    peer: tuple[str, str] | None = None,
    move: bool = False,
    into: Copied | None = None,
) -> Copied:
    """Copy blocks from a tier, or from an address and a tier there, and read all answers."""
    copied = into or Copied()
    answers = node.client.copy(
        node.namespace,
        runs,
        to_tier=to,
        from_tier=source,
        from_peer=PeerTier(endpoint=peer[0], tier=peer[1]) if peer else None,
        move=move,
    )
    async for answer in answers:
        told = dict(zip(answer.block_indexes, words(CopyResult, answer.results), strict=True))
        assert not told.keys() & copied.told.keys(), "a block is answered for once"
        assert answer.copied_bytes >= copied.bytes
        copied.told |= told
        copied.bytes = answer.copied_bytes
        copied.answers += 1
    return copied


def tier_of(node: Serving, name: str) -> Tier:
    """A tier from the inside."""
    return node.node.tier(name)


def spoil(node: Serving, block: object, tier: str) -> None:
    """Change the bytes of a block behind the tier's back."""
    there = tier_of(node, tier)
    (slot,) = [
        slot
        for slot, key in enumerate(there.table.key)
        if key.endswith(block_hash(block)) and there.table.state[slot]
    ]
    there.arena.write(there.position_of(slot), bytes(BLOCK_BYTES))


def nothing_is_held(node: Serving) -> None:
    """Fail when a copy left a lease, a slot, a transfer or a task behind."""
    inside = node.node
    assert (len(inside.leases), inside.transfers, len(inside.tiering.jobs)) == (0, 0, 0)
    assert inside.write_bytes.used == inside.read_bytes.used == 0
    for tier in inside.tiers:
        occupancy = tier.occupancy
        assert (occupancy.pending, occupancy.leased, occupancy.draining) == (0, 0, 0), tier.name
        assert not occupancy.copying
    assert not inside.tiering.copying._under_way
