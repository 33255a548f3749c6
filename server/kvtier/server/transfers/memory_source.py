"""Reading blocks out of a tier's memory."""

from collections.abc import AsyncGenerator, Iterator, Sequence

import structlog
from xxhash import xxh3_64_intdigest

from kvtier.server.stores.base import look
from kvtier.server.tiers.tier import Tier
from kvtier.server.transfers.source import Refused
from kvtier.v1.result_pb2 import READ_RESULT_CORRUPT
from kvtier.wire.chunks import Block

_log = structlog.get_logger(__name__)


class MemorySource:
    """A `Source` of a tier in memory: each block is read when it is asked for.

    Args:
        tier: The tier.
        slots: The slot of each block, by its place in the request; None for one that is not there.
        block_bytes: Bytes of each block.
    """

    def __init__(self, tier: Tier, slots: Sequence[int | None], block_bytes: Sequence[int]) -> None:
        self.inline_bytes = tier.arena.inline_bytes
        self._tier = tier
        self._slots = slots
        self._block_bytes = block_bytes
        self._corrupt: dict[int, int] = {}
        self._failures: list[str] = []

    async def portions(self) -> AsyncGenerator[Iterator[Block], None]:
        """See `Source`."""
        yield self._sound_blocks()

    def take_refused(self) -> Refused:
        """See `Source`."""
        corrupt, self._corrupt = self._corrupt, {}
        failures, self._failures = self._failures, []
        if failures:
            device = self._tier.arena.device
            _log.warning(
                "blocks cannot be read", device=device, blocks=len(failures), reason=failures[0]
            )
        for slot in corrupt.values():
            self._tier.drop_corrupt(slot)
        return dict.fromkeys(corrupt, READ_RESULT_CORRUPT)

    def _sound_blocks(self) -> Iterator[Block]:
        """Yield the blocks that are equal to their checksums, and note the others."""
        checksums = self._tier.table.checksum
        for place, slot in enumerate(self._slots):
            if slot is None:
                continue
            data, checksum = self._look(place, slot), checksums[slot]
            if data is not None and xxh3_64_intdigest(data) == checksum:
                yield Block(place, data, checksum)
            else:
                self._corrupt[place] = slot

    def _look(self, place: int, slot: int) -> memoryview | None:
        store = self._tier.arena
        try:
            return look(store, self._tier.position_of(slot), self._block_bytes[place])
        except (OSError, RuntimeError, ValueError) as error:
            self._failures.append(str(error))
            return None
