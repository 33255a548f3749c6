"""Copying the bytes of a leg, and checking them."""

import asyncio
from concurrent.futures import Executor

import structlog

from kvtier.server.stores.copying import copy_slots
from kvtier.server.tiering.legs import Leg

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

    async def copy(self, leg: Leg) -> list[bool]:
        """Copy the blocks of a leg; tell which arrived whole.

        A block whose bytes do not match its checksum is dropped by the source.
        """
        if not leg.slots:
            return []
        source, target = leg.source, leg.target
        lengths = [source.table.origin[slot].space.block_bytes for slot in leg.slots]
        arguments = (
            source.store,
            list(map(source.position_of, leg.slots)),
            target.store,
            list(map(target.position_of, leg.into)),
            lengths,
        )
        try:
            inline = min(_INLINE_BYTES, source.store.inline_bytes, target.store.inline_bytes)
            if sum(lengths) <= inline:
                digests = copy_slots(*arguments)
            else:
                loop = asyncio.get_running_loop()
                digests = await loop.run_in_executor(self._threads, copy_slots, *arguments)
        except Exception as error:  # noqa: BLE001 - whatever it was, both ends must be let go
            _log.warning(
                "blocks could not be copied",
                source=source.name,
                target=target.name,
                blocks=len(lengths),
                error=str(error),
            )
            return [False] * len(lengths)
        checksum = source.table.checksum
        good = [digest == checksum[slot] for digest, slot in zip(digests, leg.slots, strict=True)]
        for slot, fits in zip(leg.slots, good, strict=True):
            if not fits:
                source.drop_corrupt(slot)
        return good
