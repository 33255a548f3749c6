"""What goes on in the background of a tier of files or objects."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

import structlog

from kvtier.server.lasting.healing import Healing
from kvtier.server.lasting.recovery import Recovery
from kvtier.server.node import Node
from kvtier.server.scrub import scrub
from kvtier.server.tiers.recovering import FoundBlocks
from kvtier.server.tiers.tier import Tier

_log = structlog.get_logger(__name__)


class Upkeep:
    """Recovers one tier at the start, and heals and checks it for as long as it lives.

    Args:
        node: The node.
        tier: A tier of it that has a `keeping`.
        scrub_rate: Bytes a second that are read to find damage; 0 for none.
    """

    def __init__(self, node: Node, tier: Tier, scrub_rate: int) -> None:
        assert tier.keeping is not None
        self._tier = tier
        self._store = tier.keeping.store
        books = FoundBlocks(tier, node.registry, node.spaces, node.register)
        self._recovery = Recovery(self._store, books)
        self._healing = Healing(self._store, lambda: tier.slot_bytes)
        self._scrub_rate = scrub_rate
        self._changing: list[asyncio.Task[None]] = []
        self._mending: list[asyncio.Task[None]] = []

    def start(self) -> list[asyncio.Task[None]]:
        """Begin; return the tasks, none of which is to fail."""
        works = self._recovery.run(), scrub(self._tier, self._scrub_rate)
        self._changing += [asyncio.create_task(self._go_on(work)) for work in works]
        self._mending.append(asyncio.create_task(self._go_on(self._healing.run())))
        return [*self._changing, *self._mending]

    async def introduced(self) -> None:
        """Wait until the namespaces of the tier's blocks are known."""
        await self._recovery.introduced.wait()

    async def end_changes(self) -> None:
        """Find and drop no more blocks; a shelf that fails is still healed."""
        await _end(self._changing)

    async def close(self) -> None:
        """End it where it is."""
        await _end([*self._changing, *self._mending])

    async def _go_on(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception:
            _log.exception("upkeep ended", tier=self._tier.name)
            self._store.health.fault("an error of its upkeep; see the log")
            raise


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
