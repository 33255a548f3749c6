"""Entering into a tier what recovery finds on its shelf."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import structlog
from google.protobuf.message import DecodeError

from kvtier.server.lasting.looking import Sighting
from kvtier.server.lasting.record import Record
from kvtier.server.namespaces import Namespaces
from kvtier.server.tiers.policy import age_of_found
from kvtier.server.tiers.spaces import NamespaceInfo, Space, Spaces
from kvtier.server.tiers.tier import Tier
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.wire.errors import KvtierError
from kvtier.wire.namespaces import fingerprint
from kvtier.wire.sizes import format_size

_MOST_LOGGED = 10
_TOKEN_BYTES = 4

_log = structlog.get_logger(__name__)


class _Lot(NamedTuple):
    """Blocks of one namespace, group and scope, from the oldest to the newest.

    Attributes:
        fresh: Those to enter, by their adapters.
        older: Those of which there is a newer copy.
        wrong: Those that are not as their namespace says.
        strange: Those whose namespace nobody knows.
        cost: What those that stay take of the capacity.
    """

    fresh: Sequence[Sequence[Record]]
    older: Sequence[Record]
    wrong: Sequence[Record]
    strange: Sequence[Record]
    cost: int


class FoundBlocks:
    """Enters blocks from the newest to the oldest, as far as there is room.

    Blocks of namespaces that are not known stay on the shelf, and take of the room: who gives the
    node the description again, or raises the limit of namespaces, has them back at the next start.

    Args:
        tier: A tier that has a `keeping`.
        registry: The registered namespaces.
        spaces: The node's spaces.
        register: Registers a namespace.

    Attributes:
        full: There is no room for anything older than what was entered.
    """

    def __init__(
        self,
        tier: Tier,
        registry: Namespaces,
        spaces: Spaces,
        register: Callable[[Namespace], NamespaceInfo],
    ) -> None:
        assert tier.keeping is not None
        self.full = False
        self._tier = tier
        self._keeping = tier.keeping
        self._registry = registry
        self._spaces = spaces
        self._register = register
        self._introduced: list[NamespaceInfo] = []
        self._batches = self._bad = 0

    def introduce(self, descriptions: Mapping[str, bytes]) -> None:
        """Register namespaces, the one with the largest blocks first: it fixes others' slots."""
        for description in sorted(self._parse(descriptions), key=_largest_block, reverse=True):
            try:
                self._introduced.append(self._register(description))
            except KvtierError as error:
                _log.warning(
                    "a namespace is left out, and its blocks with it",
                    tier=self._tier.name,
                    reason=error.message,
                )

    def enter(self, found: Sequence[Sighting]) -> None:
        """Make blocks readable, or let them go when there is no room any more."""
        if self.full:
            self.trim([sighting.record.name for sighting in found])
            return
        lots = [self._lot(alike) for alike in _alike(found)]
        cost, capacity = sum(lot.cost for lot in lots), self._tier.capacity_bytes
        if self._tier.table.used_bytes + cost <= capacity:
            self._keep(lots)
        elif len(found) > 1:
            middle = len(found) // 2
            self.enter(found[:middle])
            self.enter(found[middle:])
        else:
            # One that can never fit says nothing of the others.
            self.full = cost <= capacity
            self.trim([found[0].record.name])

    def reject(self, bad: Sequence[tuple[str, str]]) -> None:
        """Let go of what is no whole block, given each name and why it is none."""
        for name, reason in bad[: max(0, _MOST_LOGGED - self._bad)]:
            _log.warning("a block is damaged", tier=self._tier.name, block=name, reason=reason)
        self._bad += len(bad)
        self._tier.counters.corrupt += len(bad)
        self._keeping.store.discard([name for name, _ in bad])

    def trim(self, names: Sequence[str]) -> None:
        """Let go of blocks for which there is no room."""
        self._tier.counters.trimmed += len(names)
        self._keeping.store.discard(names)

    def sum_up(self) -> None:
        """Say what was found and what became of the rest, and forget who has nothing here.

        Else descriptions without blocks would come back for ever.
        """
        for info in self._introduced:
            if not self._tier.occupancy.ready_blocks(frozenset({info.fingerprint})):
                self._keeping.store.forget(info.fingerprint)
        name, counters, keeping = self._tier.name, self._tier.counters, self._keeping
        if keeping.strangers:
            _log.warning(
                "blocks of unknown namespaces are left alone and take room; clear the tier to "
                "remove them",
                tier=name,
                blocks=len(keeping.strangers),
                size=format_size(keeping.strange_bytes),
            )
        _log.info(
            "recovered",
            tier=name,
            blocks=self._tier.occupancy.ready,
            damaged=self._bad,
            trimmed=counters.trimmed,
        )

    def _parse(self, descriptions: Mapping[str, bytes]) -> list[Namespace]:
        parsed = []
        for name, description in descriptions.items():
            namespace = _read_description(name, description)
            if namespace is not None:
                parsed.append(namespace)
            else:
                _log.warning(
                    "a namespace's description is damaged", tier=self._tier.name, namespace=name
                )
        return parsed

    def _lot(self, alike: Sequence[Sighting]) -> _Lot:
        records, store = [sighting.record for sighting in alike], self._keeping.store
        info = self._registry.find(records[0].namespace)
        if info is None:
            cost = sum(store.shelf.cost(sighting.length) for sighting in alike)
            return _Lot((), (), (), records, cost)
        right = [record for record in records if _fits(info, record)]
        if not right:
            return _Lot((), (), records, (), 0)
        wrong = records if len(right) < len(records) else ()
        wrong = [record for record in wrong if not _fits(info, record)]
        space = self._spaces.find(info, right[0].group, right[0].scope)
        fresh, older = self._sort_out(space, right)
        by_adapter = _by_adapter(fresh)
        cost = sum(self._cost(space, some[0].adapter_name) * len(some) for some in by_adapter)
        return _Lot(by_adapter, older, wrong, (), cost)

    def _cost(self, space: Space, adapter_name: str) -> int:
        """Return what a block takes: more than there is, where the tier has no such blocks."""
        if self._tier.takes(space, adapter_name):
            return self._keeping.cost(space, adapter_name)
        return self._tier.capacity_bytes + 1

    def _sort_out(
        self, space: Space, records: Sequence[Record]
    ) -> tuple[list[Record], list[Record]]:
        """Divide blocks into those that are new, and those of which there is a newer copy."""
        newest = {record.hash: record for record in records}
        slots = self._tier.table.index.get_many(space.keys(list(newest)))
        there = {
            hash_: self._keeping.serial(slot)
            for hash_, slot in zip(newest, slots, strict=True)
            if slot is not None
        }
        fresh = [record for record in newest.values() if record.hash not in there]
        if len(fresh) == len(records):
            return fresh, []
        kept = {hash_: record.serial for hash_, record in newest.items()} | there
        # A name that was listed twice is no second copy.
        return fresh, [record for record in records if record.serial != kept[record.hash]]

    def _keep(self, lots: Sequence[_Lot]) -> None:
        slots: list[int] = []
        fresh: list[Record] = []
        for lot in lots:
            for some in lot.fresh:
                slots += self._enter(some)
                fresh += some
            if lot.strange:
                self._keeping.leave_alone([record.name for record in lot.strange], lot.cost)
            if lot.older:
                self._keeping.store.discard([record.name for record in lot.older])
            if lot.wrong:
                reason = "it is not what its namespace says"
                self.reject([(record.name, reason) for record in lot.wrong])
        if slots:
            self._publish(slots, fresh)

    def _enter(self, records: Sequence[Record]) -> list[int]:
        first, table = records[0], self._tier.table
        info = self._registry.find(first.namespace)
        assert info is not None
        space = self._spaces.use(info, first.group, first.scope)
        slots = self._tier.occupancy.enter_found(
            space,
            first.adapter_name,
            [record.hash for record in records],
            [record.parent for record in records],
            [record.start for record in records],
        )
        self._spaces.release(space)
        if info.keep_token_ids:
            for slot, record in zip(slots, records, strict=True):
                if record.token_ids:
                    table.token_ids[slot] = record.token_ids
        return slots

    def _publish(self, slots: Sequence[int], records: Sequence[Record]) -> None:
        self._batches += 1
        tier = self._tier
        tier.mark_written(slots, [record.checksum for record in records])
        self._keeping.found(slots, [record.serial for record in records])
        tier.occupancy.policy.enter(age_of_found(tier.name, self._batches), slots)
        tier.publish(slots)


def _alike(found: Sequence[Sighting]) -> list[list[Sighting]]:
    """Group blocks by their namespace, group and scope, from the oldest to the newest."""
    groups: dict[tuple[object, ...], list[Sighting]] = {}
    # In the order of their writing, the blocks of a chain are next to each other.
    for sighting in reversed(found):
        record = sighting.record
        groups.setdefault((record.namespace, record.group, record.scope), []).append(sighting)
    return list(groups.values())


def _by_adapter(records: Sequence[Record]) -> list[list[Record]]:
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record.adapter_name, []).append(record)
    return list(groups.values())


def _fits(info: NamespaceInfo, record: Record) -> bool:
    """Tell whether a block is as its namespace says."""
    width, tokens = info.hash_width, len(record.token_ids)
    return (
        record.group < len(info.block_bytes)
        and record.size == info.block_bytes[record.group]
        and len(record.hash) == width
        and len(record.parent) in {0, width}
        and not record.start % info.tokens_per_block
        and tokens in {0, _TOKEN_BYTES * info.tokens_per_block}
    )


def _read_description(name: str, description: bytes) -> Namespace | None:
    """Return a namespace by its fingerprint; None when it is another, or none at all.

    Registered as what it is not, it would keep its name from who describes it right.
    """
    try:
        namespace = Namespace.FromString(description)
    except DecodeError:
        return None
    return namespace if fingerprint(namespace).hex() == name else None


def _largest_block(description: Namespace) -> int:
    return max(description.block_bytes, default=0)
