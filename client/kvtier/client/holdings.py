"""Who holds which blocks, for the blocks of one namespace, group and scope."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import count

from kvtier.client.masks import MaskTable, Memo
from kvtier.client.reach import Reach, Tally
from kvtier.client.source import MAX_TIERS, Build, Holder

# The bits of one build lie side by side in a field, so that a few shifts tell for all builds at
# once whether any of their tiers has a block.
_FIELD = MAX_TIERS
_FULL = (1 << _FIELD) - 1
# Mask objects that are shared at most.
_MOST_SHARED = 1 << 14
# A walk looks this far ahead, so that it stops soon after the last holder dropped out.
_STRIDE = 256
# Masks grow with the bits that wait to be swept.
_MOST_RETIRED = 128


class Holdings:
    """One table from a hash to a bit mask of its holders, so that one walk answers for all.

    Dropping a holder takes its bit out of the live mask at once, and walks nothing: `sweep` works
    off what is left in slices of about a millisecond, at whatever time suits the caller.
    """

    def __init__(self) -> None:
        self._table = MaskTable()
        self._bits: dict[Holder, int] = {}
        self._counts: dict[Holder, int] = {}
        self._fields: dict[Build, int] = {}
        self._live = 0
        # Bits of dropped holders: waiting for a sweep, and those that the present one takes out.
        self._retired = self._sweeping = 0
        self._garbage = 0
        self._crowded = False
        self._step: int | None = None
        self._clean = Memo(int)
        self._shared: dict[int, int] = {}
        self._memos: dict[Holder, tuple[Memo, Memo]] = {}
        self._shifts: list[int] = []

    @property
    def entries(self) -> int:
        """Number of hashes in the table, with those that wait to be swept."""
        return self._table.entries

    @property
    def sweep_pays(self) -> bool:
        """Whether there is enough to sweep, or a sweep under way."""
        if self._step is not None or not self._retired:
            return self._step is not None
        live = sum(self._counts.values())
        return self._crowded or self._garbage * 4 > live

    def holders(self) -> Collection[Holder]:
        """Return who has or had blocks here and was not dropped."""
        return self._bits.keys()

    def count(self, holder: Holder) -> int:
        """Return the number of blocks of a holder."""
        return self._counts.get(holder, 0)

    def add(self, holder: Holder, hashes: Sequence[bytes]) -> None:
        """Note that a holder has these blocks; hashes are distinct."""
        bit = self._bits.get(holder) or self._new_bit(holder)
        adding, _ = self._steps(holder)
        before = self._table.get_many(hashes)
        self._table.change_many(hashes, before, list(map(adding.__getitem__, before)))
        self._counts[holder] += len(hashes) - _count(before, bit)

    def remove(self, holder: Holder, hashes: Sequence[bytes]) -> None:
        """Note that a holder has none of these blocks; hashes are distinct."""
        bit = self._bits.get(holder)
        if bit is None:
            return
        _, removing = self._steps(holder)
        before = self._table.get_many(hashes)
        self._table.change_many(hashes, before, list(map(removing.__getitem__, before)))
        self._counts[holder] -= _count(before, bit)

    def drop(self, holder: Holder) -> None:
        """Forget everything that a holder has; it costs the same however much that is."""
        bit = self._bits.pop(holder, None)
        if bit is None:
            return
        self._garbage += self._counts.pop(holder)
        self._live &= ~bit
        self._retired |= bit
        # A field that runs out of bits, and masks of many bits, want a sweep whatever it brings.
        field = self._bits_in(self._fields[holder.build])
        self._crowded |= (
            field.bit_count() > _FIELD // 2 or self._retired.bit_count() > _MOST_RETIRED
        )
        if not any(other.build is holder.build for other in self._bits):
            del self._fields[holder.build]
        self._memos.clear()

    def sweep(self) -> int:
        """Work off a slice of what dropped holders left; return its size, 0 when there is none."""
        return self._sweep_on() if self.sweep_pays else 0

    def blocks(self, holder: Holder) -> Iterator[bytes]:
        """Return the hashes of a holder's blocks; it walks the whole table."""
        bit = self._bits.get(holder, 0)
        return (each for each, mask in self._table.items() if mask & bit)

    def locate(self, hashes: Sequence[bytes]) -> list[tuple[Holder, ...]]:
        """Return the visible holders of each block."""
        masks = self._table.get_many(hashes)
        visible = [(holder, bit) for holder, bit in self._bits.items() if holder.build.visible]
        named = {
            mask: tuple([holder for holder, bit in visible if mask & bit]) for mask in set(masks)
        }
        return list(map(named.__getitem__, masks))

    def held(self, build: Build, hashes: Sequence[bytes]) -> list[bool]:
        """Return for each block whether any tier of a build has it."""
        bits = sum(bit for holder, bit in self._bits.items() if holder.build is build)
        return [mask & bits != 0 for mask in self._table.get_many(hashes)]

    def masks(self, hashes: Sequence[bytes], holders: Sequence[Holder | None]) -> list[int]:
        """Return for each block which of these have it, bit i for the one at place i."""
        bits = [(1 << i, self._bits.get(each, 0)) for i, each in enumerate(holders) if each]
        masks = self._table.get_many(hashes)
        told = {mask: sum(place for place, bit in bits if mask & bit) for mask in set(masks)}
        return list(map(told.__getitem__, masks))

    def prefixes(
        self, hashes: Sequence[bytes], builds: Collection[Build]
    ) -> tuple[dict[Holder, int], dict[Build, int]]:
        """Return how many blocks from the first on each holder and each build has, without a hole.

        A build has a block that any of its holders has.

        Args:
            hashes: The chain, parent first.
            builds: Whom to ask about.
        """
        return self._walk(hashes, builds, self._owners(builds), None)

    def best_copies(
        self,
        hashes: Sequence[bytes],
        builds: Collection[Build],
        classes: Sequence[Collection[Holder]],
    ) -> tuple[dict[Holder, int], dict[Build, int], dict[Build, list[int]]]:
        """Return what `prefixes` does, and where the best copies of each build's prefix are.

        Args:
            hashes: The chain, parent first.
            builds: Whom to ask about.
            classes: Holders of these builds, the best ones first. Others count in no class.

        Returns:
            The blocks that each holder and each build has, without a hole; and of each build's
            number of blocks, how many have their best copy in each class.
        """
        fields = self._owners(builds)
        bits = [sum(self._bits.get(holder, 0) for holder in each) for each in classes]
        tally = Tally(bits, fields, self._shifts)
        tiers, nodes = self._walk(hashes, builds, fields, tally)
        return tiers, nodes, tally.end(len(hashes))

    def _owners(self, builds: Collection[Build]) -> dict[int, Build]:
        """Return whose each field is, by its lowest bit."""
        return {
            1 << field * _FIELD: build for build, field in self._fields.items() if build in builds
        }

    def _walk(
        self,
        hashes: Sequence[bytes],
        builds: Collection[Build],
        fields: dict[int, Build],
        tally: Tally[Build] | None,
    ) -> tuple[dict[Holder, int], dict[Build, int]]:
        owners = {bit: holder for holder, bit in self._bits.items() if holder.build in builds}
        wanted = sum(owners)
        tiers, nodes = Reach(wanted, owners), Reach(sum(fields), fields)
        last = 0
        for first in range(0, len(hashes), _STRIDE):
            masks = self._table.get_many(hashes[first : first + _STRIDE])
            for length, mask in enumerate(masks, first):
                # Equal masks are one object, and follow on one another along a chain.
                if mask is last and length:
                    continue
                last = mask
                here = mask & wanted
                if tiers.alive & here != tiers.alive:
                    tiers.narrow(here, length)
                # The lowest bit of a field now says whether any tier of that build has the block.
                for shift in self._shifts:
                    here |= here >> shift
                if nodes.alive & here != nodes.alive:
                    nodes.narrow(here, length)
                if tally is not None:
                    tally.turn(mask, nodes.alive, length)
            if not nodes.alive:
                break
        return tiers.end(len(hashes)), nodes.end(len(hashes))

    def _sweep_on(self) -> int:
        if self._step is None:
            gone = self._sweeping = self._retired
            self._retired = self._garbage = self._step = 0
            self._crowded = False
            self._clean = Memo(lambda mask: self._share(mask & ~gone))
        looked_at = self._table.shard_size(self._step)
        self._step = self._table.rewrite(self._step, self._clean)
        if self._step is None:
            # The bits may have new owners now, for whom the old masks meant something else.
            self._sweeping = 0
            self._memos.clear()
        return looked_at + 1

    def _steps(self, holder: Holder) -> tuple[Memo, Memo]:
        """Return what adding and removing a block of a holder makes of a mask."""
        steps = self._memos.get(holder)
        if steps is None:
            bit = self._bits[holder]
            steps = self._memos[holder] = (
                Memo(lambda mask: self._share(mask | bit)),
                Memo(lambda mask: self._share(mask & ~bit) if mask & ~bit & self._live else 0),
            )
        return steps

    def _share(self, mask: int) -> int:
        """Return the one object for equal masks."""
        if len(self._shared) >= _MOST_SHARED:
            self._shared.clear()
        return self._shared.setdefault(mask, mask)

    def _new_bit(self, holder: Holder) -> int:
        field = self._fields.get(holder.build)
        if field is None:
            # A build has a field only as long as it has a bit in it.
            field = next(number for number in count() if not self._bits_in(number))
            self._fields[holder.build] = field
        while self._bits_in(field) == _FULL:
            self._sweep_on()
        free = ~self._bits_in(field)
        place = (free & -free).bit_length() - 1
        while place >= 1 << len(self._shifts):
            self._shifts.append(1 << len(self._shifts))
        bit = 1 << field * _FIELD + place
        self._bits[holder] = bit
        self._counts[holder] = 0
        self._live |= bit
        return bit

    def _bits_in(self, field: int) -> int:
        """Return the bits of a field that mean something."""
        return (self._live | self._retired | self._sweeping) >> field * _FIELD & _FULL


def _count(masks: Iterable[int], bit: int) -> int:
    return sum(1 for mask in masks if mask & bit)
