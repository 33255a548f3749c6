"""A tier's own events: from slots to encoded batches."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple, TypeVar

from kvtier.server.events.encode import (
    encode_cleared,
    encode_removed,
    encode_stored,
    removed_header,
    stored_header,
)
from kvtier.server.events.log import EventLog
from kvtier.server.events.parts import CLEARED, REMOVED, STORED, Part
from kvtier.server.tiers.columns import gather
from kvtier.server.tiers.spaces import PREFIX_BYTES, NamespaceInfo, Space
from kvtier.server.tiers.table import BlockTable, Groups, Origin

# Clients of any make accept messages of 4 MiB: a part or a batch has at most about a quarter.
_ENOUGH_BYTES = 1 << 20
# The most that a number takes on the wire, of 32 and of 64 bits.
_NUMBER_BYTES, _LONG_NUMBER_BYTES = 5, 10


Pieces = TypeVar("Pieces", bytes, Sequence[int])


class ChainRun(NamedTuple):
    """Consecutive blocks of one chain: the first one's slot and position, and how many."""

    first: int
    start: int
    length: int


def find_runs(table: BlockTable, slots: Sequence[int], namespace: NamespaceInfo) -> list[ChainRun]:
    """Cut slots of one space, at least one, into runs of consecutive blocks, in their order."""
    pick = gather(slots)
    keys, parents, starts = pick(table.key), pick(table.parent), pick(table.start)
    tokens, count = namespace.tokens_per_block, len(slots)
    if parents[1:] == keys[:-1] and list(starts) == namespace.starts(starts[0], count):
        return [ChainRun(slots[0], starts[0], count)]
    cuts = [0]
    cuts += [
        i
        for i in range(1, count)
        if parents[i] != keys[i - 1] or starts[i] != starts[i - 1] + tokens
    ]
    ends = [*cuts[1:], count]
    return [ChainRun(slots[a], starts[a], b - a) for a, b in zip(cuts, ends, strict=True)]


class Announcer:
    """Tells the node's log what became of one tier's blocks.

    Args:
        tier: The tier's place on its node.
        name: The tier's name.
        medium: The tier's medium.
        log: The node's event log; None for a tier that keeps no event state.
    """

    def __init__(self, tier: int, name: str, medium: int, log: EventLog | None) -> None:
        self._tier = tier
        self._name = name
        self._medium = medium
        self._log = log

    @property
    def silent(self) -> bool:
        """Whether the tier keeps no event state."""
        return self._log is None

    def new_origin(self, space: Space, adapter_name: str) -> Origin:
        """Return an origin with its event headers."""
        where = (self._name, self._medium, space.namespace.fingerprint, space.group, space.scope)
        return Origin(
            space, adapter_name, stored_header(*where, adapter_name), removed_header(*where)
        )

    def stored(self, table: BlockTable, groups: Groups) -> None:
        """Announce blocks that became readable, in as many batches as it takes."""
        if self._log is not None:
            self._append(self._log, self.stored_parts(table, groups))

    def removed(self, gone: Iterable[tuple[Origin, bytes]], reason: int) -> None:
        """Announce blocks that ceased to be readable, given as packed hashes by origin."""
        if self._log is not None:
            parts = [
                self._removed_part(origin, some, reason)
                for origin, hashes in gone
                for some in _pieces(hashes, _most_blocks(origin) * origin.space.width)
            ]
            self._append(self._log, parts)

    def cleared(self, fingerprint: bytes) -> None:
        """Announce that every block, or every block of one namespace, is gone."""
        if self._log is not None:
            message = encode_cleared(self._name, self._medium, fingerprint)
            self._log.append([self._part(CLEARED, fingerprint, message, message, 0)])

    def stored_parts(self, table: BlockTable, groups: Groups) -> list[Part]:
        """Return BlockStored parts that say everything about these readable blocks."""
        return [
            self._stored_part(table, origin, some)
            for origin, slots in groups
            for alike in _alike(table, slots)
            for some in _pieces(alike, _most_blocks(origin))
        ]

    def _append(self, log: EventLog, parts: Iterable[Part]) -> None:
        batch: list[Part] = []
        size = 0
        for part in parts:
            if batch and size + len(part.full) > _ENOUGH_BYTES:
                log.append(batch)
                batch, size = [], 0
            batch.append(part)
            size += len(part.full)
        log.append(batch)

    def _stored_part(self, table: BlockTable, origin: Origin, slots: Sequence[int]) -> Part:
        namespace = origin.space.namespace
        runs = find_runs(table, slots, namespace)
        columns = (
            [run.length for run in runs] if len(runs) > 1 else (),
            [run.start for run in runs],
            b"".join((table.parent[run.first] or b"")[PREFIX_BYTES:] for run in runs),
            table.packed_hashes(slots, namespace.hash_width),
        )
        basic = full = encode_stored(origin.stored_header, *columns)
        if slots[0] in table.token_ids:
            token_ids = b"".join(map(table.token_ids.__getitem__, slots))
            full = encode_stored(origin.stored_header, *columns, token_ids)
        return self._part(STORED, namespace.fingerprint, basic, full, len(slots))

    def _removed_part(self, origin: Origin, hashes: bytes, reason: int) -> Part:
        message = encode_removed(origin.removed_header, reason, hashes)
        blocks = len(hashes) // origin.space.width
        return self._part(REMOVED, origin.space.namespace.fingerprint, message, message, blocks)

    def _part(self, field: int, fingerprint: bytes, basic: bytes, full: bytes, blocks: int) -> Part:
        return Part(field, self._tier, self._medium, fingerprint, basic, full, blocks)


def _alike(table: BlockTable, slots: Sequence[int]) -> Iterable[Sequence[int]]:
    """Cut slots where blocks with token ids and blocks without meet."""
    if not table.token_ids:
        return (slots,)
    return (list(some) for _, some in groupby(slots, key=table.token_ids.__contains__))


def _most_blocks(origin: Origin) -> int:
    """Return how many blocks a part may have, whatever their chains and token ids are."""
    namespace = origin.space.namespace
    each = 2 * namespace.hash_width + _NUMBER_BYTES + _LONG_NUMBER_BYTES
    if namespace.keep_token_ids:
        each += _NUMBER_BYTES * namespace.tokens_per_block
    return max(1, _ENOUGH_BYTES // each)


def _pieces(whole: Pieces, most: int) -> Iterable[Pieces]:
    if len(whole) <= most:
        return (whole,)
    return (whole[first : first + most] for first in range(0, len(whole), most))
