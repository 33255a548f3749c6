"""Carrying the blocks of one store from the primary to one secondary."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import NamedTuple

import grpc

from kvtier.client.errors import KvtierError, typed
from kvtier.client.index import BlockIndex
from kvtier.client.proxy.cascades.cascade import MISS, PRESENT
from kvtier.client.proxy.descriptions import knowing
from kvtier.client.proxy.fleet import Endpoint, Fleet, node_of
from kvtier.client.proxy.load_leases import LoadLeases
from kvtier.client.proxy.runs import Runs
from kvtier.v1.block_pb2 import Medium
from kvtier.v1.copying_pb2 import PeerTier
from kvtier.v1.result_pb2 import CopyResult, LookupResult
from kvtier.v1.tier_pb2 import Tier

_TAKING = {Medium.MEDIUM_CPU, Medium.MEDIUM_FS, Medium.MEDIUM_OBJ}


class StoredBlocks(NamedTuple):
    """Blocks that are readable in a tier of the primary, to be carried on.

    Attributes:
        tier: The tier's name.
        runs: The offer.
        places: The places there of the blocks.
        request_id: The request whose blocks these are.
    """

    tier: str
    runs: Runs
    places: Sequence[int]
    request_id: str


@dataclass(slots=True)
class Carried:
    """How far the carrying came.

    Attributes:
        results: What became of each block that something is known of, by its place.
        error: What the secondary failed with; None when it did not.
    """

    results: dict[int, CopyResult.ValueType] = field(default_factory=dict)
    error: KvtierError | None = None


class Carrier:
    """Lets a secondary pull blocks from the primary, pinned there by a load lease meanwhile.

    Args:
        fleet: The nodes.
        index: What they hold: what a secondary has already is not sent.
        leases: Takes the leases.
        member: The secondary.
        tier: Its tier that takes the blocks; empty means the first that is not of GPU memory.
        stall: Seconds that the secondary may say nothing.
    """

    def __init__(
        self,
        fleet: Fleet,
        index: BlockIndex,
        leases: LoadLeases,
        member: Endpoint,
        *,
        tier: str,
        stall: float,
    ) -> None:
        self._fleet = fleet
        self._index = index
        self._leases = leases
        self._member = member
        self._chosen = tier
        self._found = ""
        self._stall = stall

    async def carry(self, stored: StoredBlocks, into: Carried) -> None:
        """Carry blocks, and note what became of them.

        Args:
            stored: The blocks.
            into: Where it is noted, so that it is known however the call ends.

        Raises:
            KvtierError: When the primary did not pin them.
        """
        held = self._held(stored)
        into.results.update(dict.fromkeys(held, PRESENT))
        rest = [place for place in stored.places if place not in held]
        if not rest:
            return
        primary = self._fleet.primary.client
        answer = await self._leases.open(
            primary,
            stored.tier,
            stored.runs.namespace,
            stored.runs.sets(rest),
            request_id=stored.request_id,
        )
        async with self._leases.keeping(primary, answer):
            told = dict(zip(rest, answer.results, strict=True))
            pinned = [p for p, result in told.items() if result == LookupResult.LOOKUP_RESULT_HIT]
            into.results.update(dict.fromkeys(told.keys() - set(pinned), MISS))
            if pinned:
                await self._pull(stored, pinned, into)

    def _held(self, stored: StoredBlocks) -> set[int]:
        """Return the places of the blocks that the secondary is known to have."""
        node = node_of(self._member)
        if not node or not self._fleet.trusts(node):
            return set()
        keys = [stored.runs.keys[place] for place in stored.places]
        held: set[int] = set()
        for space in {key[:3] for key in keys}:
            places = [p for p, key in zip(stored.places, keys, strict=True) if key[:3] == space]
            hashes = [stored.runs.keys[place].block_hash for place in places]
            there = self._index.held(node, *space, hashes)
            held.update(place for place, has in zip(places, there, strict=True) if has)
        return held

    async def _pull(self, stored: StoredBlocks, places: Sequence[int], into: Carried) -> None:
        try:
            async with asyncio.timeout(self._stall) as limit:
                await knowing(
                    self._member.client,
                    stored.runs.description,
                    lambda: self._copy(stored, places, into, limit),
                )
        except TimeoutError:
            into.error = typed(
                grpc.StatusCode.DEADLINE_EXCEEDED,
                "",
                f"{self._member.endpoint} said nothing for {self._stall:g} s while it copied "
                f"from {self._fleet.primary.endpoint}",
            )
        except KvtierError as error:
            into.error = error
            # It may have started again with other tiers.
            self._found = ""

    async def _copy(
        self, stored: StoredBlocks, places: Sequence[int], into: Carried, limit: asyncio.Timeout
    ) -> None:
        loop = asyncio.get_running_loop()
        copying = self._member.client.copy(
            stored.runs.namespace,
            stored.runs.some(places),
            to_tier=await self._tier(),
            from_peer=PeerTier(endpoint=self._fleet.primary.endpoint, tier=stored.tier),
        )
        async with aclosing(copying) as answers:
            async for answer in answers:
                limit.reschedule(loop.time() + self._stall)
                for number, result in zip(answer.block_indexes, answer.results, strict=True):
                    into.results[places[number]] = result

    async def _tier(self) -> str:
        if self._chosen or self._found:
            return self._chosen or self._found
        tiers = await self._member.client.list_tiers()
        self._found = _first_taking(self._member.endpoint, tiers)
        return self._found


def _first_taking(endpoint: str, tiers: Sequence[Tier]) -> str:
    for tier in tiers:
        if tier.medium in _TAKING:
            return tier.name
    raise typed(
        grpc.StatusCode.FAILED_PRECONDITION,
        "",
        f"{endpoint} has no tier of medium CPU, FS or OBJ to cascade to; name one of its tiers",
    )
