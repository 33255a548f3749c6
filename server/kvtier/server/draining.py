"""Taking a node out of service: by a call, or because its process stops."""

import asyncio
from collections.abc import Sequence

import structlog

from kvtier.server.health.readiness import Readiness
from kvtier.server.node import Node
from kvtier.server.serving.haste import Haste
from kvtier.server.upkeep import Upkeep
from kvtier.v1.node_service_pb2 import DrainResponse

_FOLLOWERS_GRACE = 0.5
_DELETION_GRACE = 5.0

_log = structlog.get_logger(__name__)


class Draining:
    """Lets what is under way end, once, however many ask for it.

    Args:
        node: The node.
        readiness: What its health says.
        upkeep: What goes on in the background of its tiers.
        haste: Whether what is under way is waited for.
        delay: How long to go on as before once the node is not ready, in seconds.
        longest: How long to wait for leases and transfers, in seconds.
    """

    def __init__(
        self,
        node: Node,
        readiness: Readiness,
        upkeep: Sequence[Upkeep],
        haste: Haste,
        *,
        delay: float,
        longest: float,
    ) -> None:
        self._node = node
        self._readiness = readiness
        self._upkeep = upkeep
        self._delay = delay
        self._longest = longest
        self._haste = haste
        self._flushes: list[asyncio.Task[None]] = []
        self._task: asyncio.Task[DrainResponse] | None = None

    async def drain(self) -> DrainResponse:
        """Be not ready, then refuse new work, let it end where it is under way, send last events.

        Whoever asks joins the drain under way, which goes on when they leave.

        Returns:
            What was left.
        """
        if self._task is None:
            self._task = asyncio.create_task(self._drain())
        return await asyncio.shield(self._task)

    async def close(self) -> None:
        """End what is left of it; the node is at its end."""
        tasks = [*self._flushes, *([self._task] if self._task else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _drain(self) -> DrainResponse:
        node, left = self._node, DrainResponse()
        self._readiness.leave()
        await self._haste.pause(self._delay)
        node.closing = True
        _log.info("draining", leases=len(node.leases), transfers=node.transfers)
        await self._wait_for_work(left)
        node.tiering.jobs.cancel()
        for upkeep in self._upkeep:
            await upkeep.end_changes()
        node.draining.set()
        await asyncio.gather(self._wait_for_followers(left), self._wait_for_deletions(left))
        _log.info("drained")
        return left

    async def _wait_for_work(self, left: DrainResponse) -> None:
        node, leases = self._node, self._node.leases
        if await self._haste.until(lambda: not node.busy, self._longest):
            return
        left.leases = len(leases) - leases.accounts.pins
        left.transfers = node.transfers
        left.copies = len(node.tiering.jobs)
        _log.warning(
            "leases or transfers did not end in time",
            drain_timeout=self._longest,
            leases=left.leases,
            transfers=left.transfers,
            copies=left.copies,
        )

    async def _wait_for_followers(self, left: DrainResponse) -> None:
        if not await self._haste.until(lambda: not self._node.followers, _FOLLOWERS_GRACE):
            left.followers = self._node.followers
            _log.warning("followers did not take the last events", followers=left.followers)

    async def _wait_for_deletions(self, left: DrainResponse) -> None:
        """Wait for what was removed to be gone, so that the next start does not find it."""
        kept = [tier.keeping for tier in self._node.tiers if tier.keeping]
        self._flushes = [asyncio.create_task(each.flush()) for each in kept]
        await self._haste.until(lambda: all(each.done() for each in self._flushes), _DELETION_GRACE)
        left.undeleted_blocks = sum(each.doomed for each in kept)
        if left.undeleted_blocks:
            _log.warning(
                "removed blocks could not be deleted in time", blocks=left.undeleted_blocks
            )
