"""Pinning the blocks of one load on the primary."""

import asyncio
from collections.abc import Awaitable

from kvtier.client.errors import ExhaustedError
from kvtier.client.node import NodeClient
from kvtier.client.proxy.descriptions import knowing
from kvtier.client.proxy.load_leases import LoadLeases
from kvtier.client.proxy.runs import Runs
from kvtier.v1.tier_service_pb2 import PrepareLoadResponse


class Pins:
    """The leases that one load takes on the primary: one at first, another once more is there.

    Args:
        leases: Takes them.
        client: The primary's client.
        tier: The primary's tier.
        runs: The blocks.
        ttl: Seconds that each lease lives unless it is renewed; None leaves it to the node.
        request_id: The request that loads, for recency.

    Attributes:
        tier: As given.
        runs: As given.
    """

    def __init__(
        self,
        leases: LoadLeases,
        client: NodeClient,
        tier: str,
        runs: Runs,
        *,
        ttl: float | None = None,
        request_id: str,
    ) -> None:
        self.tier = tier
        self.runs = runs
        self._leases = leases
        self._client = client
        self._ttl = ttl
        self._request_id = request_id

    async def take(self, *, wait: bool = False) -> PrepareLoadResponse:
        """Pin what is there, and let the primary bring up what it has below.

        Args:
            wait: Answer when that is there.

        Raises:
            KvtierError: As `NodeClient.prepare_load` does.
        """
        return await knowing(
            self._client,
            self.runs.description,
            lambda: self._leases.open(
                self._client,
                self.tier,
                self.runs.namespace,
                self.runs.sets(),
                ttl=self._ttl,
                request_id=self._request_id,
                promote=True,
                wait=wait,
            ),
        )

    async def take_again(
        self, first: PrepareLoadResponse, until: float | None
    ) -> PrepareLoadResponse:
        """Take another lease in the place of the first.

        Args:
            first: The answer that granted the first.
            until: Wait so long, in the time of the loop, for what the primary brings up; None
                waits for nothing.

        Raises:
            KvtierError: As `NodeClient.prepare_load` does.
        """
        last = await self._pin_in_time(until)
        if last is None:
            try:
                last = await self.take()
            except ExhaustedError:
                # What is pinned twice counts twice.
                await self.release(first)
                last = await self.take()
        self.release(first)
        return last

    def release(self, answer: PrepareLoadResponse) -> Awaitable[None]:
        """Begin to release a lease; who waits for it may be cancelled without stopping it."""
        return self._leases.release(self._client, answer.lease)

    async def _pin_in_time(self, until: float | None) -> PrepareLoadResponse | None:
        if until is None:
            return None
        try:
            async with asyncio.timeout_at(until):
                return await self.take(wait=True)
        except (TimeoutError, ExhaustedError):
            return None
