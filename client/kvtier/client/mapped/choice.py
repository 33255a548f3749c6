"""Choosing the way to a tier: its own memory where that can be mapped, else a stream."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kvtier.client.errors import (
    DeniedError,
    FailedPreconditionError,
    Reason,
    UnimplementedError,
)
from kvtier.client.leases import LeaseCalls
from kvtier.client.mapped.copies import Workers
from kvtier.client.mapped.file import NotMappableError, open_shared
from kvtier.client.mapped.tier import MappedTier
from kvtier.client.mapped.ways import Stream, Way, blocks_closed

if TYPE_CHECKING:
    from kvtier.client.node import NodeClient

T = TypeVar("T")


class Choice:
    """The way to one tier, chosen by the first call.

    Args:
        client: The node's client.
        tier: The tier's name.
        leases: The calls of leases that a mapped tier is used by.
        shared_memory: Whether the tier may be mapped.
        shm_dir: Where shared memory is here; None looks where the node says, then in /dev/shm.
        workers: Where bytes are copied.
    """

    def __init__(
        self,
        client: "NodeClient",
        tier: str,
        *,
        leases: LeaseCalls,
        shared_memory: bool,
        shm_dir: Path | None,
        workers: Workers,
    ) -> None:
        self._client = client
        self._leases = leases
        self._tier = tier
        self._shared_memory = shared_memory
        self._shm_dir = shm_dir
        self._workers = workers
        self._way: Way | None = None
        self._closed = False
        self._choosing = asyncio.Lock()

    async def act(self, act: Callable[[Way], Awaitable[T]]) -> tuple[Way, T]:
        """Act by the way that there is; once more when the node has started anew meanwhile."""
        way = await self._choose()
        try:
            return way, await act(way)
        except FailedPreconditionError as error:
            if error.reason != Reason.MAPPING_UNKNOWN:
                raise
        if self._way is way:
            # Copies under way keep the old mapping; it goes with the last of them.
            self._way = None
        way = await self._choose()
        return way, await act(way)

    def close(self) -> None:
        """Unmap the tier, and refuse further calls; no copy may be under way."""
        self._closed = True
        way, self._way = self._way, None
        if isinstance(way, MappedTier):
            way.file.close()

    async def _choose(self) -> Way:
        async with self._choosing:
            if self._closed:
                raise blocks_closed(self._tier)
            if self._way is None:
                mapped = await self._map() if self._shared_memory else None
                self._way = mapped or Stream(self._client, self._tier)
            return self._way

    async def _map(self) -> MappedTier | None:
        """Map the tier, or return None where that is not possible."""
        try:
            told = await self._client.map_tier(self._tier)
            if not told.HasField("shared_file"):
                return None
            file = open_shared(told.shared_file, self._shm_dir)
        except (DeniedError, FailedPreconditionError, UnimplementedError, NotMappableError):
            # Who may use some namespaces only may not map what holds all of them.
            return None
        return MappedTier(self._client, self._tier, told, file, self._workers, leases=self._leases)
