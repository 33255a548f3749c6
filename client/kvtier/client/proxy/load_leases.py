"""Load leases on the primary that are let go of, whatever happens."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from kvtier.client.errors import DeadlineError, KvtierError, UnavailableError
from kvtier.client.node import NodeClient
from kvtier.v1.block_pb2 import BlockSet, Lease
from kvtier.v1.tier_service_pb2 import PrepareLoadResponse

_RENEW_AT = 1 / 3
_LEASE_ID_BYTES = 16
_UNHEARD = (DeadlineError, UnavailableError)
# Together about the time that a lease lives, in seconds.
_PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0, 8.0)


class LoadLeases:
    """Takes load leases, renews them, and lets go of them also when its caller is cancelled.

    A node may have granted a lease whose answer the caller did not wait for. Then the answer is
    waited for in the background, for the client's timeout at most, and the lease released. Where
    no answer came it is asked for again, and a release that went unheard repeated, for about as
    long as a lease lives.

    Args:
        random_bytes: Where lease ids come from.
        sleep: Waits for seconds.
    """

    def __init__(
        self,
        *,
        random_bytes: Callable[[int], bytes] = os.urandom,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._random_bytes = random_bytes
        self._sleep = sleep
        self._ending: set[asyncio.Task[None]] = set()
        self._insisting: set[asyncio.Task[None]] = set()

    async def open(
        self,
        client: NodeClient,
        tier: str,
        namespace: bytes,
        blocks: Sequence[BlockSet],
        *,
        ttl: float | None = None,
        request_id: str = "",
        promote: bool = False,
        wait: bool = False,
    ) -> PrepareLoadResponse:
        """Pin blocks, as `NodeClient.prepare_load` does; the caller lets go of the lease.

        Raises:
            KvtierError: As `NodeClient.prepare_load` does.
        """
        ask = partial(
            client.prepare_load,
            tier,
            namespace,
            blocks,
            lease_id=self._random_bytes(_LEASE_ID_BYTES),
            ttl=ttl,
            request_id=request_id,
            promote=promote,
            wait=wait,
        )
        asked = asyncio.create_task(ask())
        try:
            return await asyncio.shield(asked)
        except asyncio.CancelledError:
            self._in_background(self._release_late(client, asked))
            raise
        except _UNHEARD:
            # It may have been granted all the same; asked again, the node gives the same answer.
            self._insist(lambda: self._take_back(client, ask))
            raise

    def release(self, client: NodeClient, lease: Lease) -> Awaitable[None]:
        """Begin to release a lease; who waits for it may be cancelled without stopping it."""
        return asyncio.shield(self._in_background(self._release(client, lease)))

    @asynccontextmanager
    async def keeping(
        self, client: NodeClient, answer: PrepareLoadResponse
    ) -> AsyncIterator[PrepareLoadResponse]:
        """Renew a lease as long as the context lasts, then let go of it."""
        renewing = asyncio.create_task(_renew(client, answer))
        try:
            yield answer
        finally:
            renewing.cancel()
            await self.release(client, answer.lease)

    async def close(self) -> None:
        """Wait until what was let go of is released; what a node does not hear ends by itself."""
        while self._ending:
            await asyncio.gather(*self._ending, return_exceptions=True)
        for task in self._insisting:
            task.cancel()
        await asyncio.gather(*self._insisting, return_exceptions=True)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task

    async def _release_late(
        self, client: NodeClient, asked: "asyncio.Task[PrepareLoadResponse]"
    ) -> None:
        with suppress(KvtierError):
            await self._release(client, (await asked).lease)

    async def _release(self, client: NodeClient, lease: Lease) -> None:
        try:
            await client.release_leases([lease])
        except _UNHEARD:
            self._insist(lambda: client.release_leases([lease]))
        except KvtierError:
            pass

    async def _take_back(
        self, client: NodeClient, ask: Callable[[], Awaitable[PrepareLoadResponse]]
    ) -> None:
        await client.release_leases([(await ask()).lease])

    def _insist(self, act: Callable[[], Awaitable[object]]) -> None:
        """Do something in the background, and again when the node did not hear of it."""
        task = asyncio.create_task(self._repeat(act))
        self._insisting.add(task)
        task.add_done_callback(self._insisting.discard)

    async def _repeat(self, act: Callable[[], Awaitable[object]]) -> None:
        for pause in _PAUSES:
            await self._sleep(pause)
            try:
                await act()
            except _UNHEARD:
                continue
            except KvtierError:
                pass
            return


async def _renew(client: NodeClient, answer: PrepareLoadResponse) -> None:
    ttl = answer.ttl.ToMicroseconds() / 1e6
    while True:
        await asyncio.sleep(ttl * _RENEW_AT)
        with suppress(KvtierError):
            await client.renew_leases([answer.lease], ttl)
