"""The ways to store blocks, told alike."""

from collections.abc import Sequence
from typing import Protocol

from kvtier.client import NodeClient, StoreReport
from kvtier.v1.block_pb2 import BlockRun
from kvtier.v1.result_pb2 import CompleteResult, StoreOutcome, WriteResult

_AS_WRITTEN = {
    CompleteResult.COMPLETE_RESULT_STORED: WriteResult.WRITE_RESULT_STORED,
    CompleteResult.COMPLETE_RESULT_NOT_WRITTEN: WriteResult.WRITE_RESULT_INCOMPLETE,
    CompleteResult.COMPLETE_RESULT_DELETED: WriteResult.WRITE_RESULT_ABORTED,
    CompleteResult.COMPLETE_RESULT_NOT_LEASED: WriteResult.WRITE_RESULT_UNSPECIFIED,
}


class Store(Protocol):
    """Offers blocks, writes those that are wanted, and makes them readable."""

    async def __call__(
        self,
        client: NodeClient,
        tier: str,
        namespace: bytes,
        runs: Sequence[BlockRun],
        payloads: Sequence[bytes],
        *,
        request_id: str = "",
    ) -> StoreReport: ...


async def store_in_steps(
    client: NodeClient,
    tier: str,
    namespace: bytes,
    runs: Sequence[BlockRun],
    payloads: Sequence[bytes],
    *,
    request_id: str = "",
) -> StoreReport:
    """Prepare, write under the lease, complete."""
    prepared = await client.prepare_store(tier, namespace, runs, request_id=request_id)
    wanted = {
        place: payloads[place]
        for place, outcome in enumerate(prepared.outcomes)
        if outcome == StoreOutcome.STORE_OUTCOME_WRITE
    }
    if wanted:
        await client.write_blocks(prepared.lease, wanted, [len(each) for each in payloads])
    completed = await client.complete_store(prepared.lease)
    return StoreReport(
        tuple(prepared.outcomes),
        tuple(prepared.evicted),
        tuple(_AS_WRITTEN[result] for result in completed.results),
    )


async def store_in_one_call(
    client: NodeClient,
    tier: str,
    namespace: bytes,
    runs: Sequence[BlockRun],
    payloads: Sequence[bytes],
    *,
    request_id: str = "",
) -> StoreReport:
    """Offer, write and complete in one stream."""
    return await client.store(tier, namespace, runs, payloads, request_id=request_id)


async def store_in_place(
    client: NodeClient,
    tier: str,
    namespace: bytes,
    runs: Sequence[BlockRun],
    payloads: Sequence[bytes],
    *,
    request_id: str = "",
) -> StoreReport:
    """Prepare, write into the mapped tier, complete; or stream where it cannot be mapped."""
    async with client.blocks(tier) as blocks:
        return await blocks.store(namespace, runs, payloads, request_id=request_id)


STORE_WAYS: dict[str, Store] = {
    "in_steps": store_in_steps,
    "in_one_call": store_in_one_call,
    "in_place": store_in_place,
}
