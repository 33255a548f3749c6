"""A caller that does anything at any time, and checks every answer."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio
from xxhash import xxh3_64_intdigest

from kvtier.client import NodeClient
from kvtier.v1.block_pb2 import Lease
from kvtier.v1.result_pb2 import DeleteResult, ReadResult, WriteResult
from kvtier.v1.transfer_service_pb2 import WriteBlocksRequest
from kvtier.v1.transfer_service_pb2_grpc import TransferServiceStub
from kvtier.wire.errors import KvtierError, Reason

from .blocks import Chain, any_chain
from .truth import Truth

FINE = {
    Reason.TIER_FULL,
    Reason.TIER_READ_ONLY,
    Reason.TIER_RECOVERING,
    Reason.LEASE_ENDED,
    Reason.LEASE_UNKNOWN,
    Reason.BLOCKS_LEASED,
    Reason.NAMESPACE_UNKNOWN,
}
_GONE = {DeleteResult.DELETE_RESULT_DELETED, DeleteResult.DELETE_RESULT_NOT_FOUND}
_PAYLOAD, _MISS = ReadResult.READ_RESULT_UNSPECIFIED, ReadResult.READ_RESULT_MISS
_STORED = WriteResult.WRITE_RESULT_STORED
Act = Callable[[], Coroutine[Any, Any, None]]


class Caller:
    """One caller's random calls; it alone stores and deletes the chains that it owns.

    Args:
        client: A client of the node.
        tiers: The names of the node's tiers.
        truth: What was answered.
        rng: What it does.
        number: Which of the callers it is, and of how many.
    """

    def __init__(
        self,
        client: NodeClient,
        tiers: Sequence[str],
        truth: Truth,
        rng: random.Random,
        number: tuple[int, int],
    ) -> None:
        self._client = client
        self._tiers = tiers
        self._truth = truth
        self._rng = rng
        self._number = number
        self.done: Counter[str] = Counter()
        self.odd: Counter[str] = Counter()
        self._acts: Sequence[Act] = [
            *[self._store] * 5,
            *[self._store_in_pieces] * 2,
            *[self._store_by_lease] * 3,
            *[self._load] * 4,
            *[self._load_by_lease] * 3,
            *[self._copy] * 2,
            self._touch,
            *[self._delete] * 2,
            self._clear,
        ]

    async def act(self, calls: int) -> None:
        """Make so many calls, one after the other."""
        for _ in range(calls):
            act = self._rng.choice(self._acts)
            try:
                if self._rng.random() < 0.1:
                    await self._leave_early(act())
                else:
                    await act()
                self.done[act.__name__] += 1
            except KvtierError as error:
                if error.reason not in FINE:
                    raise
                self.done[error.reason] += 1

    async def _leave_early(self, call: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(call)
        await asyncio.sleep(self._rng.random() * 0.01)
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.result()

    def _own(self) -> Chain:
        return any_chain(self._rng, *self._number)

    def _tier(self) -> str:
        return self._rng.choice(self._tiers)

    @asynccontextmanager
    async def _storing(self, chain: Chain) -> AsyncIterator[list[bytes]]:
        """Let blocks be offered; they are unsettled when the caller does not see the end."""
        await self._client.register_namespace(chain.kind.namespace)
        settled = self._truth.unsettled.isdisjoint(chain.keys)
        self._truth.offered.update(chain.keys)
        self._truth.unsettled.update(chain.keys)
        try:
            yield [self._truth.payload(key) for key in chain.keys]
        except KvtierError as error:
            # A refusal of the node's is the end of it too.
            if error.reason and settled:
                self._truth.unsettled.difference_update(chain.keys)
            raise
        if settled:
            self._truth.unsettled.difference_update(chain.keys)

    async def _store(self) -> None:
        chain = self._own()
        async with self._storing(chain) as payloads:
            report = await self._client.store(
                self._tier(), chain.kind.fingerprint, [chain.run()], payloads
            )
        self.odd.update(f"store {WriteResult.Name(each)}" for each in report.results)

    async def _store_by_lease(self) -> None:
        """Offer blocks, write some of them, and complete the lease, give it up or forget it."""
        chain, rng = self._own(), self._rng
        sizes = [len(each) for each in map(self._truth.payload, chain.keys)]
        async with self._storing(chain) as payloads:
            prepared = await self._client.prepare_store(
                self._tier(), chain.kind.fingerprint, [chain.run()], request_id=rng.choice("abc")
            )
            end = rng.choice(["complete", "complete", "complete", "fail", "forget"])
            places = [place for place in range(chain.length) if rng.random() < 0.8]
            if places:
                await self._client.write_blocks(
                    prepared.lease, {place: payloads[place] for place in places}, sizes
                )
            if end == "forget":
                self._truth.unsettled.update(chain.keys)
            else:
                await self._client.complete_store(
                    prepared.lease, failed=end == "fail", wait_copies=rng.random() < 0.3
                )
        if end == "forget":
            self._truth.unsettled.update(chain.keys)

    async def _store_in_pieces(self) -> None:
        """The same by a stock client that cuts the stream of bytes anywhere."""
        chain = self._own()
        async with self._storing(chain) as payloads:
            prepared = await self._client.prepare_store(
                self._tier(), chain.kind.fingerprint, [chain.run()]
            )
            await self._write_pieces(prepared.lease, payloads)
            await self._client.complete_store(prepared.lease)

    async def _write_pieces(self, lease: Lease, payloads: Sequence[bytes]) -> None:
        requests = [WriteBlocksRequest(lease=lease)]
        for place, data in enumerate(payloads):
            step = self._rng.randint(1 + len(data) // 7, len(data))
            for offset in range(0, len(data), step):
                piece = data[offset : offset + step]
                ends = offset + step >= len(data)
                checksums = [xxh3_64_intdigest(data)] if ends else []
                requests.append(
                    WriteBlocksRequest(
                        block_index=place, offset=offset, checksums=checksums, data=piece
                    )
                )
        try:
            async with grpc.aio.insecure_channel(self._client.endpoint) as channel:
                async for _ in TransferServiceStub(channel).WriteBlocks(iter(requests), timeout=10):
                    pass
        except grpc.aio.AioRpcError as error:
            raise KvtierError(error.code(), Reason.LEASE_ENDED, error.details() or "") from error

    async def _load(self) -> None:
        chain = any_chain(self._rng)
        since = [self._truth.version(key) for key in chain.keys]
        report = await self._client.load(self._tier(), chain.kind.fingerprint, [chain.set()])
        self._check_read(chain, since, report.payloads, report.results)

    async def _load_by_lease(self) -> None:
        chain, rng = any_chain(self._rng), self._rng
        since = [self._truth.version(key) for key in chain.keys]
        sizes = [len(each) for each in map(self._truth.payload, chain.keys)]
        prepared = await self._client.prepare_load(
            self._tier(),
            chain.kind.fingerprint,
            [chain.set()],
            request_id=rng.choice("abc"),
            promote=rng.random() < 0.8,
            wait=rng.random() < 0.7,
        )
        report = await self._client.read_blocks(prepared.lease, sizes)
        self._check_read(chain, since, report.payloads, report.results)
        if rng.random() < 0.8:
            await self._client.complete_load(prepared.lease)

    def _check_read(
        self,
        chain: Chain,
        since: Sequence[int],
        payloads: Sequence[bytes | None],
        results: Sequence[ReadResult.ValueType],
    ) -> None:
        for key, first, data, result in zip(chain.keys, since, payloads, results, strict=True):
            if data is not None:
                self._truth.check(key, first, data)
            elif result != _MISS:
                self.odd[f"load {ReadResult.Name(result)}"] += 1

    async def _copy(self) -> None:
        source, target = self._rng.choices(self._tiers, k=2)
        if source == target:
            return
        chain = any_chain(self._rng)
        call = self._client.copy(
            chain.kind.fingerprint,
            [chain.run()],
            to_tier=target,
            from_tier=source,
            move=self._rng.random() < 0.5,
        )
        async for _ in call:
            pass

    async def _touch(self) -> None:
        chain = any_chain(self._rng)
        await self._client.touch(
            chain.kind.fingerprint, [chain.set()], request_id=self._rng.choice("abc")
        )

    async def _delete(self) -> None:
        chain = self._own()
        tiers = self._rng.choice([[], [], [self._tier()]])
        answer = await self._client.delete(
            chain.kind.fingerprint,
            [chain.set()],
            tiers=tiers,
            force=self._rng.random() < 0.7,
        )
        for place, key in enumerate(chain.keys):
            if not tiers and {tier.results[place] for tier in answer.tiers} <= _GONE:
                self._truth.gone(key)

    async def _clear(self) -> None:
        if self._rng.random() < 0.3:
            namespace = self._rng.choice([b"", any_chain(self._rng).kind.fingerprint])
            await self._client.clear(self._tier(), namespace, force=self._rng.random() < 0.5)
