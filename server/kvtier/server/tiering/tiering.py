"""Tiering: what a node does to keep the right blocks in the right tiers."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor

from kvtier.server.config import TierConfig
from kvtier.server.events.log import EventLog
from kvtier.server.tiering.carrier import Carrier
from kvtier.server.tiering.copier import Copier
from kvtier.server.tiering.copying import Copying
from kvtier.server.tiering.demotion import Demoter
from kvtier.server.tiering.jobs import Jobs
from kvtier.server.tiering.links import link
from kvtier.server.tiering.promotion import Promoter
from kvtier.server.tiering.through import WriteThrough
from kvtier.server.tiers.tier import Tier


class Tiering:
    """Demotion, promotion and write-through between the tiers of a node.

    Args:
        configs: The tiers' configurations.
        tiers: The tiers, from fastest to slowest.
        log: The node's event log.
        threads: Where bytes are copied.

    Attributes:
        jobs: The copies under way.
        demoter: Makes room by moving blocks down.
        promoter: Brings up what loads ask for.
        copying: Copies what somebody asks for.
    """

    def __init__(
        self,
        configs: Sequence[TierConfig],
        tiers: Sequence[Tier],
        log: EventLog,
        threads: Executor,
    ) -> None:
        self._links = link(configs, tiers)
        copier = Copier(threads)
        self.jobs = Jobs()
        self.demoter = Demoter(log, self._links, copier, self.jobs)
        carrier = Carrier(log, tiers, copier, self.demoter)
        self.promoter = Promoter(tiers, self._links, carrier, self.jobs)
        self.copying = Copying(carrier, self.promoter, self.jobs)
        self._through = WriteThrough(carrier, self.jobs)
        self._copies_of: dict[bytes, list[asyncio.Task[None]]] = {}
        self._keeping: set[Tier] = set()

    def written_through(self, tier: Tier) -> tuple[Tier, ...]:
        """Return the tiers to which what is stored in one is copied."""
        return self._links[tier].through

    def completed(self, lease_id: bytes, tier: Tier, keys: Sequence[bytes]) -> None:
        """Begin what the completion of a store asks for: room for the next, and copies.

        Args:
            lease_id: The store's lease.
            tier: Where it stored.
            keys: The blocks that it offered, where the tier writes through; only what is readable
                is copied.
        """
        self.keep_free(tier)
        keys = [key for key in dict.fromkeys(keys) if tier.holds(key)]
        begun = [self._through.begin(tier, target, keys) for target in self._links[tier].through]
        copies = [task for task in begun if task is not None]
        if copies:
            self._copies_of[lease_id] = copies
            both = asyncio.gather(*copies, return_exceptions=True)
            both.add_done_callback(lambda _: self._forget(lease_id, copies))

    def _forget(self, lease_id: bytes, copies: Sequence[asyncio.Task[None]]) -> None:
        if self._copies_of.get(lease_id) is copies:
            del self._copies_of[lease_id]

    async def wait_copies(self, lease_id: bytes) -> None:
        """Wait until the copies of a store have ended."""
        copies = self._copies_of.get(lease_id)
        if copies:
            await asyncio.wait(copies)

    def keep_free(self, tier: Tier) -> None:
        """Begin to move blocks down when less of a tier is free than shall be."""
        target = self._links[tier].free_target * tier.table.capacity
        if tier.table.free * 2 < int(target) and tier not in self._keeping:
            self._keeping.add(tier)
            task = self.jobs.start(self.demoter.keep_free(tier))
            task.add_done_callback(lambda _: self._keeping.discard(tier))
