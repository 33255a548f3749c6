"""A kvtier store of files or objects, as a tier uses it."""

from collections.abc import Sequence

from xxhash import xxh3_64_intdigest

from kvtier.server.lasting.health import Health
from kvtier.server.lasting.lane import Lane
from kvtier.server.lasting.moving import Outcome
from kvtier.server.lasting.record import Record
from kvtier.server.lasting.shelf import Shelf
from kvtier.server.lasting.store import LastingStore
from kvtier.server.stores.base import Bytes
from kvtier.v1.block_pb2 import Medium


class Ours:
    """Stores blocks whose checksums are known, as those of every block in a tier are.

    Args:
        shelf: Where to.
        medium: FS or OBJ.
        threads: Operations at one time.
        part_bytes: As `LastingStore` has it.
    """

    def __init__(
        self, shelf: Shelf, medium: Medium.ValueType, threads: int, part_bytes: int
    ) -> None:
        health = Health()
        health.recovered()
        self._store = LastingStore(
            shelf,
            Lane("bench", threads, 60.0),
            health,
            medium=medium,
            capacity_bytes=1 << 40,
            part_bytes=part_bytes,
        )
        self._checksums: dict[int, int] = {}
        self._records: list[Record] = []

    async def store(self, blocks: Sequence[Bytes]) -> None:
        """Store a batch."""
        self._records = [self._record(block) for block in blocks]
        outcomes = await self._store.save(self._records, blocks).outcomes()
        assert set(outcomes) == {Outcome.DONE}, self._store.health.reason

    async def load(self, into: Sequence[Bytes]) -> None:
        """Load the last batch, and compare it with its checksums."""
        outcomes = await self._store.load(self._records, into).outcomes()
        assert set(outcomes) == {Outcome.DONE}, self._store.health.reason

    async def clear(self) -> None:
        """Remove the last batch."""
        self._store.discard([record.name for record in self._records])
        await self._store.flush()

    def _record(self, block: Bytes) -> Record:
        place = block.ctypes.data
        checksum = self._checksums.get(place)
        if checksum is None:
            checksum = self._checksums[place] = xxh3_64_intdigest(block.data)
        hash_ = place.to_bytes(32, "big")
        serial = next(self._store.serials)
        return Record(bytes(32), 0, b"", hash_, b"", 0, block.size, checksum, "", b"", serial)
