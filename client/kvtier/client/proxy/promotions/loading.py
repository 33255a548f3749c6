"""Loading through the primary what it or a secondary has."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

from kvtier.client.arguments import bad_argument
from kvtier.client.errors import KvtierError
from kvtier.client.index import BlockIndex
from kvtier.client.proxy.descriptions import Descriptions
from kvtier.client.proxy.fleet import Fleet, node_of
from kvtier.client.proxy.load_leases import LoadLeases
from kvtier.client.proxy.promotions.pins import Pins
from kvtier.client.proxy.promotions.planning import (
    HIT,
    HIT_PENDING,
    MISS,
    RETRY,
    Holders,
    lacking,
    tell,
)
from kvtier.client.proxy.promotions.promoting import Promotions
from kvtier.client.proxy.promotions.promotion import Promotion
from kvtier.client.proxy.runs import Runs
from kvtier.client.reports import LoadReport
from kvtier.v1.block_pb2 import BlockRun, Lease
from kvtier.v1.result_pb2 import LookupResult, ReadResult
from kvtier.v1.tier_service_pb2 import CompleteLoadResponse, PrepareLoadResponse
from kvtier.wire.errors import quote


class Loading:
    """Loads from the primary, after bringing what only a secondary has.

    Args:
        fleet: The nodes.
        index: What they hold.
        descriptions: Tells what namespaces are.
        leases: Takes the leases on the primary.
        promotions: Brings blocks.
        deadline: Seconds that a load which does not say waits for blocks.
    """

    def __init__(
        self,
        fleet: Fleet,
        index: BlockIndex,
        descriptions: Descriptions,
        leases: LoadLeases,
        promotions: Promotions,
        *,
        deadline: float,
    ) -> None:
        self._fleet = fleet
        self._index = index
        self._descriptions = descriptions
        self._leases = leases
        self._promotions = promotions
        self._deadline = deadline
        self._waiting: set[asyncio.Task[None]] = set()

    async def prepare_load(
        self,
        tier: str,
        namespace: bytes,
        runs: Sequence[BlockRun],
        *,
        wait: bool = True,
        deadline: float | None = None,
        ttl: float | None = None,
        request_id: str = "",
    ) -> PrepareLoadResponse:
        """Pin blocks in a tier of the primary, after bringing up what it has not.

        What a slower tier of the primary has is promoted by the primary. What only secondaries have
        is copied from the first that has it, and from the next when that fails.

        Args:
            tier: The name of the primary's tier.
            namespace: The fingerprint, 32 bytes.
            runs: The blocks, numbered by their place over all runs, with their parents and
                positions: the primary takes those over with what it gets from a secondary.
            wait: Wait until the blocks are there, or the deadline has passed. Without, blocks on
                their way are HIT_PENDING, and come whether or not this is called again.
            deadline: Seconds to wait for blocks; None means as configured.
            ttl: Seconds that the lease lives unless it is renewed.
            request_id: The request that loads, for recency.

        Returns:
            The lease, and one result a block. HIT: it is pinned. HIT_PENDING: it is on its way.
            MISS: nobody has it, or the primary has no room for it now. RETRY: ask again; too much
            is on its way, it did not come in time or not enough is known.

        Raises:
            KvtierError: When the primary did not answer, or refused.
        """
        until = self._until(deadline)
        wanted = Runs(namespace, await self._descriptions.of(namespace), runs)
        client = self._fleet.primary.client
        pins = Pins(self._leases, client, tier, wanted, ttl=ttl, request_id=request_id)
        return await self._prepare(pins, until, wait=wait)

    async def complete_load(self, lease: Lease) -> CompleteLoadResponse:
        """Unpin the blocks of a load lease on the primary, and end it.

        Raises:
            AbortedError: When the lease had ended before: what was read may have changed.
        """
        return await self._fleet.primary.client.complete_load(lease)

    async def load(
        self,
        tier: str,
        namespace: bytes,
        runs: Sequence[BlockRun],
        *,
        deadline: float | None = None,
        request_id: str = "",
    ) -> LoadReport:
        """Load blocks from a tier of the primary, after bringing up what it has not.

        Args:
            tier: The name of the primary's tier.
            namespace: The fingerprint, 32 bytes.
            runs: The blocks, as for `prepare_load`.
            deadline: Seconds to wait for blocks; None means as configured.
            request_id: The request that loads, for recency.

        Returns:
            The bytes of each block, or why there are none: READ_RESULT_FAILED also where
            `prepare_load` says HIT_PENDING or RETRY.

        Raises:
            KvtierError: When the primary did not answer, or refused.
        """
        until = self._until(deadline)
        wanted = Runs(namespace, await self._descriptions.of(namespace), runs)
        client = self._fleet.primary.client
        pins = Pins(self._leases, client, tier, wanted, request_id=request_id)
        answer = await self._prepare(pins, until, wait=True)
        async with self._leases.keeping(client, answer):
            if HIT not in answer.results:
                nothing = (None,) * len(answer.results)
                return LoadReport(nothing, tuple(map(_unread, answer.results)))
            report = await client.read_blocks(answer.lease, wanted.sizes)
        results = [
            read if told == HIT else _unread(told)
            for told, read in zip(answer.results, report.results, strict=True)
        ]
        return LoadReport(report.payloads, tuple(results))

    async def close(self) -> None:
        """End the loads that nobody waits for. Closing twice is harmless."""
        for task in self._waiting:
            task.cancel()
        await asyncio.gather(*self._waiting, return_exceptions=True)

    async def _prepare(self, pins: Pins, until: float, *, wait: bool) -> PrepareLoadResponse:
        first = await pins.take()
        if set(first.results) <= {HIT}:
            return first
        try:
            promotion = self._promote(pins.tier, pins.runs, first)
            if wait:
                return await self._wait_for(pins, promotion, first, until)
        except BaseException:
            pins.release(first)
            raise
        if promotion.under_way:
            self._in_background(promotion, until)
        return _told(first, pins.runs, promotion.results)

    def _until(self, deadline: float | None) -> float:
        """Return the time of the loop at which a load ends."""
        if deadline is not None and not deadline > 0:
            raise bad_argument(f"deadline must be more than 0 s; got {quote(deadline)}")
        seconds = self._deadline if deadline is None else deadline
        return asyncio.get_running_loop().time() + seconds

    def _promote(self, tier: str, runs: Runs, first: PrepareLoadResponse) -> Promotion:
        holders = _holders(self._index, runs)
        places = lacking(first.results, holders, node_of(self._fleet.primary))
        return Promotion(self._promotions, tier, runs, runs.once(places), holders)

    async def _wait_for(
        self, pins: Pins, promotion: Promotion, first: PrepareLoadResponse, until: float
    ) -> PrepareLoadResponse:
        """Pin everything once it has come, in place of what was pinned at first."""
        brings = promotion.under_way
        await promotion.finish(until)
        own = any(
            result in {HIT_PENDING, RETRY} and promotion.results.get(place) is None
            for place, result in enumerate(first.results)
        )
        pending = own or HIT_PENDING in promotion.results.values()
        if not brings and not pending:
            return _told(first, pins.runs, promotion.results)
        last = await pins.take_again(first, until if pending else None)
        return _told(last, pins.runs, promotion.results)

    def _in_background(self, promotion: Promotion, until: float) -> None:
        async def finish() -> None:
            with suppress(KvtierError):
                await promotion.finish(until)

        task = asyncio.create_task(finish())
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)
        # A task that is cancelled early never begins.
        task.add_done_callback(lambda _: promotion.leave())


def _unread(result: LookupResult.ValueType) -> ReadResult.ValueType:
    """Return why a block that is not pinned was not read."""
    return ReadResult.READ_RESULT_MISS if result == MISS else ReadResult.READ_RESULT_FAILED


def _holders(index: BlockIndex, runs: Runs) -> list[Holders]:
    held: list[Holders] = []
    first = 0
    for run in runs.runs:
        end = first + len(run.block_hashes) // runs.description.hash_width
        hashes = [key.block_hash for key in runs.keys[first:end]]
        held += index.locate_many(runs.namespace, run.group, run.scope, hashes)
        first = end
    return held


def _told(
    answer: PrepareLoadResponse, runs: Runs, found: Mapping[int, LookupResult.ValueType]
) -> PrepareLoadResponse:
    """Return an answer with what is known of the blocks that it does not pin."""
    by_key = {runs.keys[place]: result for place, result in found.items()}
    brought = {place: by_key[key] for place, key in enumerate(runs.keys) if key in by_key}
    told = PrepareLoadResponse()
    told.CopyFrom(answer)
    told.results[:] = tell(answer.results, brought)
    return told
