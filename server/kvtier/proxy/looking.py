"""LookupBlocks, answered from the index alone."""

import asyncio
from collections.abc import Iterator, Sequence

from kvtier.client import BlockIndex, Quality, TierOf
from kvtier.client.proxy.mirrored import TierFilter
from kvtier.proxy.behind import Members, full_name
from kvtier.proxy.requests import described
from kvtier.server.known import check_known
from kvtier.server.operations.requests import (
    check_hashes,
    read_group,
    read_hashes,
    read_scope,
)
from kvtier.server.tiers.spaces import NamespaceInfo
from kvtier.v1.block_pb2 import BlockSet, Locality, Medium
from kvtier.v1.event_service_pb2 import SourceState
from kvtier.v1.lookup_pb2 import LookupBlocksRequest, LookupBlocksResponse
from kvtier.v1.result_pb2 import ChainLookup, LookupResult

HIT = LookupResult.LOOKUP_RESULT_HIT
MISS = LookupResult.LOOKUP_RESULT_MISS
RETRY = LookupResult.LOOKUP_RESULT_RETRY
_DOWN = SourceState.SOURCE_STATE_DOWN
# Blocks looked up between two turns of the loop: about a millisecond.
_STEP = 4096
# A mask has a bit for so many tiers.
_MASK = (1 << 32) - 1


class Looking:
    """Tells where the blocks of chains are, of the nodes whose view is exact.

    A node that is out of reach, suspect or not in sync is left out, and so is a SILENT tier, of
    which events tell nothing.

    Args:
        members: Whom the proxy follows.
        index: What all of them hold.
        most_hashes: Hashes in one request, at most.
    """

    def __init__(self, members: Members, index: BlockIndex, most_hashes: int) -> None:
        self._members = members
        self._index = index
        self._most_hashes = most_hashes

    async def lookup(self, request: LookupBlocksRequest) -> LookupBlocksResponse:
        """Answer each chain, step by step when it is long work.

        Raises:
            KvtierError: As the RPC's comment says.
        """
        namespace = described(self._index, request.namespace)
        lists = [chain.block_hashes for chain in request.chains]
        check_hashes(namespace, lists, "chains", self._most_hashes)
        view = _View(self._members, self._index, _filter(request))
        response = LookupBlocksResponse(tiers=view.names, recovering_mask=view.recovering & _MASK)
        looked_up = 0
        for chain in request.chains:
            reach = _Reach(view)
            for hashes in _steps(namespace, chain):
                masks = self._index.masks(
                    namespace.fingerprint, chain.group, chain.scope, hashes, view.tiers
                )
                reach.go_on(masks)
                if request.include_blocks:
                    reach.add_blocks(masks)
                looked_up += len(hashes)
                if looked_up >= _STEP:
                    looked_up = 0
                    await asyncio.sleep(0)
            response.chains.append(reach.answer)
        return response


def _filter(request: LookupBlocksRequest) -> TierFilter:
    check_known("medium", "media", request.media, Medium)
    check_known("locality", "localities", request.localities, Locality)
    return TierFilter(request.media, request.localities)


def _steps(namespace: NamespaceInfo, chain: BlockSet) -> Iterator[Sequence[bytes]]:
    read_group(namespace, chain.group)
    read_scope(chain.scope)
    hashes = read_hashes(namespace, chain.block_hashes)
    for first in range(0, len(hashes), _STEP):
        yield hashes[first : first + _STEP]


class _View:
    """The tiers that an answer speaks of, and what a block is that none of them has.

    Args:
        members: Whom the proxy follows.
        index: What all of them hold.
        wanted: Which tiers count.

    Attributes:
        tiers: The tiers, those of the primary first.
        names: Their full names.
        recovering: The tiers that still find out what they hold, bit i for place i.
        absent: What is said of a block that no tier has.
    """

    def __init__(self, members: Members, index: BlockIndex, wanted: TierFilter) -> None:
        nodes = [(member, node) for member in members for node in member.node_ids]
        trusted = [node for _, node in nodes if members.trusts(node)]
        self.tiers = [
            TierOf(node, tier)
            for node in trusted
            for tier in index.tiers(node)
            if index.quality(node, tier) is not Quality.UNKNOWN
            and wanted.passes(index.tier_info(node, tier))
        ]
        self.names = [full_name(*tier) for tier in self.tiers]
        recovering = {node: set(index.recovering(node)) for node in trusted}
        self.recovering = sum(
            1 << place for place, (node, tier) in enumerate(self.tiers) if tier in recovering[node]
        )
        # Asking again for what a dead node held would hold the asker up as long as it is dead.
        unknown = any(not member.node_ids and not member.down for member in members) or any(
            node not in trusted and member.state(node) != _DOWN for member, node in nodes
        )
        self.absent = RETRY if unknown or self.recovering else MISS


class _Reach:
    """How far along a chain each tier has every block, and all tiers together.

    Args:
        view: The tiers.

    Attributes:
        answer: What is known so far.
    """

    def __init__(self, view: _View) -> None:
        self.answer = ChainLookup(prefix_lengths=[0] * len(view.names))
        self._absent = view.absent
        self._alive = (1 << len(view.names)) - 1
        self._length = 0
        self._whole = True

    def go_on(self, masks: Sequence[int]) -> None:
        """Go on to the next blocks of the chain, with the tiers that have each."""
        last = -1
        for length, mask in enumerate(masks, self._length):
            if mask == last:
                continue
            last = mask
            if self._alive & ~mask:
                self._narrow(mask, length)
            if self._whole and not mask:
                self._whole = False
                self.answer.union_prefix_length = length
        self._length += len(masks)
        if self._whole:
            self.answer.union_prefix_length = self._length
        self._lengthen()

    def add_blocks(self, masks: Sequence[int]) -> None:
        """Answer for each of these blocks."""
        results = {mask: HIT if mask else self._absent for mask in set(masks)}
        self.answer.results.extend(map(results.__getitem__, masks))
        self.answer.tier_masks.extend([mask & _MASK for mask in masks])

    def _narrow(self, mask: int, length: int) -> None:
        lost = self._alive & ~mask
        self._alive &= mask
        for place in _places(lost):
            self.answer.prefix_lengths[place] = length

    def _lengthen(self) -> None:
        for place in _places(self._alive):
            self.answer.prefix_lengths[place] = self._length


def _places(mask: int) -> Iterator[int]:
    while mask:
        bit = mask & -mask
        mask ^= bit
        yield bit.bit_length() - 1
