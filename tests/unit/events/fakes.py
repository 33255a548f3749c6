"""A node of plain dictionaries, as an event source."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from kvtier.server.descriptions import Descriptions
from kvtier.server.events.encode import (
    encode_cleared,
    encode_removed,
    encode_stored,
    removed_header,
    stored_header,
)
from kvtier.server.events.log import EventLog
from kvtier.server.events.parts import CLEARED, REMOVED, STORED, Part
from kvtier.server.events.source import News, TierInfo
from kvtier.v1.block_pb2 import Medium, RemovalReason
from kvtier.v1.event_service_pb2 import TierState
from kvtier.v1.namespace_pb2 import Namespace

READY, SILENT = TierState.TIER_STATE_READY, TierState.TIER_STATE_SILENT
GPU, CPU = Medium.MEDIUM_GPU, Medium.MEDIUM_CPU
HASH_BYTES = 8
EPOCH = 0xABCDEF
MAX_DELETED = 8


def space_of(number: int) -> bytes:
    """Return the fingerprint of a numbered namespace."""
    return bytes([number]) * 32


class Block(NamedTuple):
    """One block and everything that its store says about it."""

    namespace: bytes
    group: int
    scope: bytes
    block_hash: bytes
    start: int = 0
    parent: bytes = b""
    tokens: tuple[int, ...] = ()


def block(number: int, *, namespace: int = 1, group: int = 0, tokens: int = 0) -> Block:
    """Return a numbered block; odd ones have a parent."""
    parent = (number - 1).to_bytes(HASH_BYTES, "big") if number % 2 else b""
    return Block(
        space_of(namespace),
        group,
        b"tenant" if number % 3 == 0 else b"",
        number.to_bytes(HASH_BYTES, "big"),
        16 * (number % 2),
        parent,
        tuple(range(number, number + tokens)),
    )


class FakeTier:
    """Slots, of which the lowest free one is filled first."""

    def __init__(self, info: TierInfo) -> None:
        self.info = info
        self.slots: list[Block | None] = []
        self.where: dict[Block, int] = {}

    def put(self, new: Block) -> None:
        slot = self.slots.index(None) if None in self.slots else len(self.slots)
        self.slots[slot : slot + 1] = [new]
        self.where[new] = slot

    def drop(self, old: Block) -> None:
        self.slots[self.where.pop(old)] = None


class FakeNode:
    """An `EventSource` whose blocks are stored and removed by the test."""

    def __init__(
        self,
        *tiers: TierInfo,
        max_batches: int = 1000,
        max_bytes: int = 1 << 20,
        slice_slots: int = 4,
        namespaces: Sequence[int] = (1, 2),
    ) -> None:
        self.node_id = "node-a"
        self.log = EventLog(epoch=EPOCH, max_batches=max_batches, max_bytes=max_bytes)
        self.draining = asyncio.Event()
        self.followers = self.state_changes = self.states_at = 0
        self.tiers = [FakeTier(t) for t in tiers or (TierInfo(0, "cpu0", CPU, READY),)]
        self.slices = 0
        self._slice_slots = slice_slots
        self._descriptions = Descriptions(self.log, MAX_DELETED)
        for number in namespaces:
            self.register(number)

    def register(self, number: int) -> None:
        description = Namespace(name=f"space-{number}", hash_seed=space_of(number))
        self._descriptions.add(space_of(number), description.SerializeToString())

    def forget(self, number: int) -> None:
        """Delete a namespace, out of every tier that has blocks of it."""
        for tier in self.tiers:
            if any(held.namespace == space_of(number) for held in tier.where):
                self.clear(space_of(number), tier.info.index)
        self._descriptions.retire(space_of(number))

    def turn(self, state: TierState.ValueType, reason: str = "", tier: int = 0) -> None:
        """Change the state of a tier."""
        held = self.tiers[tier]
        held.info = replace(held.info, state=state, reason=reason)
        self.state_changes += 1
        self.states_at = self.log.head
        self.log.wake()

    def contents(self) -> set[tuple[str, Block]]:
        return {(tier.info.name, held) for tier in self.tiers for held in tier.where}

    def store(self, *blocks: Block, tier: int = 0) -> None:
        """Store blocks; those that are there already are no news."""
        held = self.tiers[tier]
        new = [b for b in dict.fromkeys(blocks) if b not in held.where]
        for each in new:
            held.put(each)
        self._append([self._stored(held.info, some) for some in _by_header(new)])

    def remove(self, *blocks: Block, tier: int = 0) -> None:
        """Remove blocks; those that are not there are no news."""
        held = self.tiers[tier]
        old = [b for b in dict.fromkeys(blocks) if b in held.where]
        for each in old:
            held.drop(each)
        self._append([_removed(held.info, some) for some in _by_header(old)])

    def replace(self, old: Block, new: Block, tier: int = 0) -> None:
        """Remove one block and store another in one batch."""
        held = self.tiers[tier]
        held.drop(old)
        held.put(new)
        self._append([_removed(held.info, [old]), self._stored(held.info, [new])])

    def clear(self, namespace: bytes = b"", tier: int = 0) -> None:
        """Drop everything, or everything of one namespace."""
        held = self.tiers[tier]
        for each in [b for b in held.where if b.namespace == (namespace or b.namespace)]:
            held.drop(each)
        message = encode_cleared(held.info.name, held.info.medium, namespace)
        self.log.append(
            [Part(CLEARED, held.info.index, held.info.medium, namespace, message, message, 0)]
        )

    def tier_infos(self) -> list[TierInfo]:
        return [tier.info for tier in self.tiers]

    def namespaces(self, number: int, position: int) -> News:
        return self._descriptions.after(number, position)

    def snapshot(self, tier: int) -> Iterator[list[Part]]:
        held, first = self.tiers[tier], 0
        while first < len(held.slots):
            some = [b for b in held.slots[first : first + self._slice_slots] if b]
            self.slices += 1
            yield [self._stored(held.info, part) for part in _by_header(some)]
            first += self._slice_slots

    def ready_blocks(self, tier: int, namespaces: frozenset[bytes] | None) -> int:
        return sum(
            1
            for held in self.tiers[tier].where
            if namespaces is None or held.namespace in namespaces
        )

    def _append(self, parts: list[Part]) -> None:
        if parts:
            self.log.append(parts)

    def _stored(self, tier: TierInfo, blocks: list[Block]) -> Part:
        first = blocks[0]
        header = stored_header(
            tier.name, tier.medium, first.namespace, first.group, first.scope, ""
        )
        columns = (
            [1] * len(blocks),
            [b.start for b in blocks],
            b"".join(b.parent for b in blocks),
            b"".join(b.block_hash for b in blocks),
        )
        basic = full = encode_stored(header, *columns)
        tokens = b"".join(t.to_bytes(4, "little") for b in blocks for t in b.tokens)
        if tokens:
            full = encode_stored(header, *columns, tokens)
        return Part(STORED, tier.index, tier.medium, first.namespace, basic, full, len(blocks))


def _removed(tier: TierInfo, blocks: list[Block]) -> Part:
    first = blocks[0]
    header = removed_header(tier.name, tier.medium, first.namespace, first.group, first.scope)
    hashes = b"".join(b.block_hash for b in blocks)
    message = encode_removed(header, RemovalReason.REMOVAL_REASON_EVICTED, hashes)
    return Part(REMOVED, tier.index, tier.medium, first.namespace, message, message, len(blocks))


def _by_header(blocks: Sequence[Block]) -> list[list[Block]]:
    def key(each: Block) -> tuple[object, ...]:
        return each.namespace, each.group, each.scope, len(each.tokens)

    return [list(some) for _, some in groupby(sorted(blocks, key=key), key=key)]
