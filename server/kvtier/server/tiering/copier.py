"""Copying the bytes of a leg, and checking them."""

import asyncio
from concurrent.futures import Executor

import structlog

from kvtier.server.stores.copying import copy_slots
from kvtier.server.tiering.legs import Leg
from kvtier.server.tiering.shelving import Shelving

_log = structlog.get_logger(__name__)

# Less than this is copied on the loop: it costs less than a turn of a thread.
_INLINE_BYTES = 64 << 10


class Copier:
    """Copies bytes from store to store in threads.

    Args:
        threads: Where bytes are copied.
    """

    def __init__(self, threads: Executor) -> None:
        self._threads = threads
        self._shelving = Shelving(threads)

    async def copy(self, leg: Leg) -> list[bool]:
        """Copy the blocks of a leg; tell which arrived whole.

        A block whose bytes do not match its checksum is dropped by the source.
        """
        if not leg.slots:
            return []
        in_memory = leg.source.keeping is None and leg.target.keeping is None
        try:
            return await (self._copy(leg) if in_memory else self._shelving.copy(leg))
        except Exception as error:  # noqa: BLE001 - whatever it was, both ends must be let go
            _log.warning(
                "blocks could not be copied",
                source=leg.source.name,
                target=leg.target.name,
                blocks=len(leg.slots),
                error=str(error),
            )
            return [False] * len(leg.slots)

    async def _copy(self, leg: Leg) -> list[bool]:
        source, target = leg.source, leg.target
        lengths = leg.lengths()
        arguments = (
            source.arena,
            list(map(source.position_of, leg.slots)),
            target.arena,
            list(map(target.position_of, leg.into)),
            lengths,
        )
        inline = min(_INLINE_BYTES, source.arena.inline_bytes, target.arena.inline_bytes)
        if sum(lengths) <= inline:
            digests = copy_slots(*arguments)
        else:
            loop = asyncio.get_running_loop()
            digests = await loop.run_in_executor(self._threads, copy_slots, *arguments)
        checksum = source.table.checksum
        good = [digest == checksum[slot] for digest, slot in zip(digests, leg.slots, strict=True)]
        for slot, fits in zip(leg.slots, good, strict=True):
            if not fits:
                source.drop_corrupt(slot)
        return good
