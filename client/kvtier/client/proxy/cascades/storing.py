"""Storing on the primary, and from there on the secondaries."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtier.client.proxy.cascades.carrying import StoredBlocks
from kvtier.client.proxy.cascades.cascade import Cascade
from kvtier.client.proxy.cascades.cascading import Cascades
from kvtier.client.proxy.cascades.offers import Offered, Offers
from kvtier.client.proxy.descriptions import Descriptions, knowing
from kvtier.client.proxy.fleet import Endpoint, Fleet
from kvtier.client.proxy.runs import Runs
from kvtier.client.proxy.settings import CascadeTo
from kvtier.client.reports import StoreReport
from kvtier.v1.block_pb2 import BlockRun, Lease
from kvtier.v1.result_pb2 import CompleteResult, StoreOutcome, WriteResult
from kvtier.v1.tier_service_pb2 import CompleteStoreResponse, PrepareStoreResponse

if TYPE_CHECKING:
    from typing_extensions import Buffer

_PRESENT = StoreOutcome.STORE_OUTCOME_PRESENT


@dataclass(frozen=True, slots=True)
class ProxyStore:
    """What became of a store through a proxy.

    Attributes:
        report: What became of it on the primary.
        cascade: Its way to the secondaries.
    """

    report: StoreReport
    cascade: Cascade


@dataclass(frozen=True, slots=True)
class ProxyCompletion:
    """What became of the completion of a store through a proxy.

    Attributes:
        answer: The primary's answer.
        cascade: Its way to the secondaries; None when the offer was not made through this proxy,
            was completed before, or is one of too many that were never completed.
    """

    answer: CompleteStoreResponse
    cascade: Cascade | None


class Storing:
    """Stores on the primary, and lets what is readable there then go on to the secondaries.

    Args:
        fleet: The nodes.
        descriptions: Tells what namespaces are.
        cascades: Carries the blocks on.
    """

    def __init__(self, fleet: Fleet, descriptions: Descriptions, cascades: Cascades) -> None:
        self._fleet = fleet
        self._descriptions = descriptions
        self._cascades = cascades
        self._offers = Offers()

    async def store(
        self,
        tier: str,
        namespace: bytes,
        runs: Sequence[BlockRun],
        payloads: Sequence["Buffer"],
        *,
        cascade: CascadeTo | None = None,
        wait: bool = False,
        ttl: float | None = None,
        request_id: str = "",
    ) -> ProxyStore:
        """Store blocks on the primary, then on the secondaries that want them.

        No secondary is asked before the blocks are readable on the primary, and nothing that a
        secondary does makes the store fail. Blocks that were there already go on, too.

        Args:
            tier: The name of the primary's tier.
            namespace: The fingerprint, 32 bytes.
            runs: What is offered; blocks are numbered by their place over all runs.
            payloads: The bytes of each block, in the same order.
            cascade: Which secondaries want it; None means as configured.
            wait: Return when the cascade has ended, too.
            ttl: Seconds that the lease lives, should this client vanish in between.
            request_id: The request whose blocks these are, for recency.

        Raises:
            InvalidArgumentError: When `cascade` names what is no secondary; nothing was stored.
            KvtierError: When the primary did not store it.
        """
        members = self._cascades.choose(cascade)
        offer = Runs(namespace, await self._descriptions.of(namespace), runs)
        client = self._fleet.primary.client
        report = await knowing(
            client,
            offer.description,
            lambda: client.store(tier, namespace, runs, payloads, ttl=ttl, request_id=request_id),
        )
        answers = zip(report.outcomes, report.results, strict=True)
        places = [
            place
            for place, (outcome, result) in enumerate(answers)
            if outcome == _PRESENT or result == WriteResult.WRITE_RESULT_STORED
        ]
        stored = StoredBlocks(tier, offer, offer.once(places), request_id)
        return ProxyStore(report, await self._go_on(stored, members, wait=wait))

    async def prepare_store(
        self,
        tier: str,
        namespace: bytes,
        runs: Sequence[BlockRun],
        *,
        lease_id: bytes | None = None,
        ttl: float | None = None,
        request_id: str = "",
        mapping: int = 0,
    ) -> PrepareStoreResponse:
        """Reserve slots on the primary, as `NodeClient.prepare_store` does.

        The offer is remembered, so that `complete_store` can send its blocks on.

        Args:
            tier: The name of the primary's tier.
            namespace: The fingerprint, 32 bytes.
            runs: What is offered; blocks are numbered by their place over all runs.
            lease_id: 16 random bytes, to be able to repeat the call; None makes new ones.
            ttl: Seconds that the lease lives unless it is renewed.
            request_id: The request whose blocks these are, for recency.
            mapping: The number of a mapping through which the caller writes by itself.

        Raises:
            KvtierError: As `NodeClient.prepare_store` does.
        """
        offer = Runs(namespace, await self._descriptions.of(namespace), runs)
        client = self._fleet.primary.client
        answer = await knowing(
            client,
            offer.description,
            lambda: client.prepare_store(
                tier,
                namespace,
                runs,
                lease_id=lease_id,
                ttl=ttl,
                request_id=request_id,
                mapping=mapping,
            ),
        )
        offered = Offered(tier, offer, tuple(answer.outcomes), request_id)
        self._offers.put(answer.lease.id, offered)
        return answer

    async def complete_store(
        self,
        lease: Lease,
        *,
        failed_blocks: Sequence[int] = (),
        failed: bool = False,
        wait_copies: bool = False,
        checksums: Sequence[int] = (),
        cascade: CascadeTo | None = None,
        wait: bool = False,
    ) -> ProxyCompletion:
        """Complete a store on the primary, then send what is readable on to the secondaries.

        Args:
            lease: The lease, from the answer of `prepare_store`.
            failed_blocks: Places in the offer of blocks that could not be written.
            failed: Nothing was written: give every block back, and send nothing on.
            wait_copies: Return only when the copies that the primary's tier writes through ended.
            checksums: From a caller that wrote through a mapping: the XXH3-64 of each slot told.
            cascade: Which secondaries want it; None means as configured.
            wait: Return when the cascade has ended, too.

        Raises:
            InvalidArgumentError: When `cascade` names what is no secondary; nothing was completed.
            KvtierError: As `NodeClient.complete_store` does; nothing is sent on then.
        """
        members = self._cascades.choose(cascade)
        answer = await self._fleet.primary.client.complete_store(
            lease,
            failed_blocks=failed_blocks,
            failed=failed,
            wait_copies=wait_copies,
            checksums=checksums,
        )
        offered = self._offers.take(lease.id)
        if offered is None:
            return ProxyCompletion(answer, None)
        stored = _completed(offered, [] if failed else answer.results)
        return ProxyCompletion(answer, await self._go_on(stored, members, wait=wait))

    async def _go_on(
        self, stored: StoredBlocks, members: Sequence[Endpoint], *, wait: bool
    ) -> Cascade:
        cascade = self._cascades.start(stored, members)
        if wait:
            await cascade.wait()
        return cascade


def _completed(offered: Offered, results: Sequence[CompleteResult.ValueType]) -> StoredBlocks:
    """Return what of an offer is readable after its completion."""
    stored = CompleteResult.COMPLETE_RESULT_STORED
    places = [
        place
        for place, (outcome, result) in enumerate(zip(offered.outcomes, results, strict=False))
        if outcome == _PRESENT or result == stored
    ]
    return StoredBlocks(offered.tier, offered.runs, offered.runs.once(places), offered.request_id)
