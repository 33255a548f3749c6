"""Serving requests the way an engine with a tiering proxy would."""

from collections import Counter
from collections.abc import Sequence
from itertools import takewhile

from kvtier.cli.demo.plan import CPU, GPU, REMOTE
from kvtier.cli.exit import CommandError
from kvtier.cli.follow import TierKey
from kvtier.cli.hashing import block_hash, payload
from kvtier.cli.trace import Request
from kvtier.client import NodeClient, TieringProxy
from kvtier.v1.block_pb2 import BlockRun, BlockSet
from kvtier.v1.result_pb2 import CompleteResult, LookupResult, StoreOutcome


class Driver:
    """Looks chains up through the proxy, loads what is found, and stores them in every tier.

    Nodes do not move blocks by themselves: this client writes to both tiers of the primary, and
    copies what the secondary lacks from the primary to it.

    Attributes:
        hits: Blocks of prefixes that were found and loaded, by the first tier that had them.
    """

    def __init__(
        self,
        primary: NodeClient,
        secondary: NodeClient,
        proxy: TieringProxy,
        *,
        namespace: bytes,
        block_bytes: int,
    ) -> None:
        self.hits = Counter[TierKey]()
        self._primary = primary
        self._secondary = secondary
        self._proxy = proxy
        self._namespace = namespace
        self._block_bytes = block_bytes

    async def serve(self, number: int, request: Request) -> None:
        """Serve one request: find its prefix, load it, and store its whole chain."""
        hashes = [block_hash(block_id) for block_id in request.hash_ids]
        payloads = await self._load_prefix(hashes)
        # What no tier has, an engine computes.
        payloads += [payload(digest, self._block_bytes) for digest in hashes[len(payloads) :]]
        run = BlockRun(block_hashes=b"".join(hashes))
        for key in (GPU, CPU):
            await self._primary.store(
                key.tier, self._namespace, [run], payloads, request_id=str(number)
            )
        await self._copy(hashes, run, number)

    async def _load_prefix(self, hashes: Sequence[bytes]) -> list[bytes]:
        """Return the bytes of the leading blocks that some tier has."""
        chain = BlockSet(block_hashes=b"".join(hashes))
        (found,) = await self._proxy.lookup(self._namespace, [chain])
        hit = LookupResult.LOOKUP_RESULT_HIT
        prefix = sum(1 for _ in takewhile(lambda result: result == hit, found.results))
        loaded: dict[int, bytes] = {}
        for source, client, key in (
            (0, self._primary, GPU),
            (0, self._primary, CPU),
            (1, self._secondary, REMOTE),
        ):
            places = [p for p in range(prefix) if found.sources[p] == source and p not in loaded]
            if places:
                blocks = await self._load(client, key.tier, [hashes[p] for p in places])
                come = {p: data for p, data in zip(places, blocks, strict=True) if data is not None}
                self.hits[key] += len(come)
                loaded |= come
        return [loaded[p] for p in takewhile(loaded.__contains__, range(prefix))]

    async def _load(
        self, client: NodeClient, tier: str, hashes: Sequence[bytes]
    ) -> Sequence[bytes | None]:
        blocks = BlockSet(block_hashes=b"".join(hashes))
        return (await client.load(tier, self._namespace, [blocks])).payloads

    async def _copy(self, hashes: Sequence[bytes], run: BlockRun, number: int) -> None:
        """Copy what the secondary lacks of a chain from the primary's host tier to it."""
        offer = await self._secondary.prepare_store(
            REMOTE.tier, self._namespace, [run], request_id=str(number)
        )
        wanted = [
            place
            for place, outcome in enumerate(offer.outcomes)
            if outcome == StoreOutcome.STORE_OUTCOME_WRITE
        ]
        if wanted:
            data = await self._load(self._primary, CPU.tier, [hashes[place] for place in wanted])
            payloads = {p: part for p, part in zip(wanted, data, strict=True) if part is not None}
            sizes = [self._block_bytes] * len(hashes)
            await self._secondary.write_blocks(offer.lease, payloads, sizes)
        done = await self._secondary.complete_store(offer.lease)
        stored = list(done.results).count(CompleteResult.COMPLETE_RESULT_STORED)
        if stored != len(wanted):
            what = f"request {number}: {stored} of {len(wanted)} blocks were copied"
            raise CommandError(self._secondary.endpoint, what)
